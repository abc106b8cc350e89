"""Raw replies of the server, taken apart."""

from __future__ import annotations

import pytest

from mycelium.leases.errors import ScriptError
from mycelium.ledger.replies import integer, raw, text, words


def test_what_is_well_formed() -> None:
    assert [text(b"a"), text("a"), text(7), text(b"\xff")] == ["a", "a", "7", "\\xff"]
    assert [raw(b"\xff"), raw("a"), raw(7)] == [b"\xff", b"a", b"7"]
    assert [integer(b"7"), integer(7), integer(b""), integer(b"9007199254740993")] == [7, 7, 0, 9007199254740993]
    assert words([b"ok", b"\xff", 7]) == ["ok", b"\xff", 7]


@pytest.mark.parametrize("reply", [None, 1.5, [b"a"], {}])
def test_text_that_is_none(reply: object) -> None:
    with pytest.raises(ScriptError, match="where text was due"):
        text(reply)


@pytest.mark.parametrize("reply", [None, b"ok", 7, [], {}])
def test_a_list_that_is_none(reply: object) -> None:
    with pytest.raises(ScriptError, match="where a list was due"):
        words(reply)


def test_a_list_that_begins_with_no_word() -> None:
    with pytest.raises(ScriptError, match="where text was due"):
        words([None])
