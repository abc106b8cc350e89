"""docs/failures.md names tests that exist, for every case that it is about."""

from __future__ import annotations

import re
from pathlib import Path

TESTS = Path(__file__).parent.parent
LIST = TESTS.parent / "docs" / "failures.md"
CASES = {
    *(*range(1, 13), *range(14, 23), 24, 26, 27, 29, 31, *range(34, 39), 40, 42, 44),
    *(*range(87, 92), *range(93, 96), *range(97, 100), *range(100, 114)),
}
NAMED = re.compile(r"`((?:tests/|cases/|chaos/)[\w/]+\.py)(?:::(test_\w+?)(…?))?`")


def missing(text: str) -> list[str]:
    """What a text names and the tests do not have."""
    found: list[str] = []
    for path, name, prefix in NAMED.findall(text):
        file = TESTS / path.removeprefix("tests/")
        pattern = rf"^(?:async )?def {name}" + ("" if prefix else r"\(")
        if not file.exists() or (name and not re.search(pattern, file.read_text(encoding="utf-8"), re.MULTILINE)):
            found.append(f"{path}::{name}{prefix}")
    return found


def test_every_case_has_a_line_and_every_test_that_it_names_exists() -> None:
    text = LIST.read_text(encoding="utf-8")
    assert {int(number) for number in re.findall(r"^\| (\d+) \|", text, re.MULTILINE)} == CASES
    assert len(NAMED.findall(text)) >= len(CASES)
    assert missing(text) == []


def test_the_guard_sees_what_is_not_there() -> None:
    text = "`cases/test_list.py::test_nothing_…` `cases/test_list.py::test_every_…` `chaos/gone.py`"
    assert missing(text) == ["cases/test_list.py::test_nothing_…", "chaos/gone.py::"]
