"""Arguments are checked against the signature, and survive the way to the host."""

from __future__ import annotations

import dataclasses
import datetime as dt
import decimal
import enum
import json
from collections.abc import Callable
from typing import Annotated, Any, Literal

import pydantic
import pytest

from mycelium.actors.tool import tool
from mycelium.leases.errors import BadArgumentsError, ToolDeclarationError


class Cabin(enum.Enum):
    ECONOMY = "economy"


@dataclasses.dataclass
class Seat:
    row: int
    note: bytes = b""


@tool(effect_class="keyed_mutate", key_param="key")
def book(  # type: ignore[no-untyped-def]
    copy: int,
    when: dt.datetime,
    key: str,
    schema: frozenset[int] = frozenset({1}),
    *,
    seat: Seat | None = None,
    bags: Annotated[int, pydantic.Field(gt=0)] = 1,
    price: decimal.Decimal = decimal.Decimal("1.10"),
    cabin: Cabin = Cabin.ECONOMY,
    fare: Literal["flex", "basic"] = "basic",
    weight: float = 1,
    anything=None,  # noqa: ANN001 # pyright: ignore[reportMissingParameterType] - unannotated means any JSON value
    sloppy: int = None,  # type: ignore[assignment]  # noqa: RUF013 - as people write it
) -> None:
    """Names that pydantic models also have, and most kinds of annotation."""


@tool(effect_class="read")
def plain(a: int, b: list[int], *, c: float = 1.5) -> None:
    """Little."""


def test_values_survive_the_way_to_the_host() -> None:
    given = {
        "seat": Seat(3, b"\xff"),
        "bags": "2",
        "when": "2024-05-01T10:00:00",
        "copy": 1,
        "anything": [1, {"x": None}],
        "weight": 7,
    }
    wire = book.to_wire(given)
    there = book.from_wire(json.dumps(wire).encode())
    assert there == book.validate(given)
    assert there["seat"] == Seat(3, b"\xff")
    assert there["when"] == dt.datetime(2024, 5, 1, 10, 0)  # noqa: DTZ001 - naive as given
    assert (there["price"], there["cabin"], there["schema"]) == (decimal.Decimal("1.10"), Cabin.ECONOMY, {1})
    assert (there["bags"], there["sloppy"], there["copy"]) == (2, None, 1)


def test_defaults_and_spellings_make_no_difference() -> None:
    spelled = [plain.bind(1, [2]), plain.bind(b=[2], a=1), plain.bind(1, b=[2], c=1.5)]
    wires = [plain.to_wire(call.arguments) for call in spelled]
    assert wires == [{"a": 1, "b": [2], "c": 1.5}] * 3


def test_the_providers_key_is_no_part_of_the_meaning_and_is_filled_in() -> None:
    call = book.bind(1, dt.datetime(2024, 5, 1))  # type: ignore[call-arg]  # noqa: DTZ001 - naive as given
    wire = book.to_wire(call.arguments)
    assert "key" not in wire
    body = json.dumps(wire).encode()
    assert book.from_wire(body, idempotency_key="e1")["key"] == "e1"
    with_key = book.to_wire({**call.arguments, "key": "mine"})
    assert book.meaningful(with_key) == wire
    assert book.from_wire(json.dumps(with_key).encode(), idempotency_key="e1")["key"] == "mine"


@pytest.mark.parametrize(
    "wrong, words",
    [
        ({}, "a: Field required"),
        ({"a": "secret-1", "b": []}, "a: Input should be a valid integer"),
        ({"a": 1, "b": [1, "secret-1"]}, "b.1: Input should be a valid integer"),
        ({"a": 1, "b": [], "zzz": "secret-1"}, "zzz: Extra inputs are not permitted"),
        ({"a": 1, "b": [], "c": float("nan")}, "c: Input should be a finite number"),
        ({"a": 1, "b": [], "c": float("inf")}, "c: Input should be a finite number"),
        ({"a": 1.5, "b": []}, "a: Input should be a valid integer"),
        ({1: 2}, "a: Field required"),
        ({"a": 1, "b": [], "\ud800": 1}, "as a unicode string"),
    ],
)
def test_what_does_not_fit_is_refused_by_parameter_and_rule_and_without_its_value(
    wrong: dict[str, object], words: str
) -> None:
    with pytest.raises(BadArgumentsError) as caught:
        plain.to_wire(wrong)
    assert words in str(caught.value)
    assert "secret-1" not in str(caught.value)
    str(caught.value).encode()


def test_many_faults_are_told_shortly() -> None:
    with pytest.raises(BadArgumentsError, match="and 996 more"):
        plain.to_wire({"a": 1, "b": ["x"] * 1001})


def test_a_validators_own_words_are_not_repeated() -> None:
    def refuse(value: str) -> str:
        message = f"{value} is no account"
        raise ValueError(message)

    def pay(account: Annotated[str, pydantic.AfterValidator(refuse)]) -> None:
        del account

    pay.__annotations__["account"] = Annotated[str, pydantic.AfterValidator(refuse)]
    with pytest.raises(BadArgumentsError, match=r"account: refused \(value error\)"):
        tool(effect_class="read")(pay).to_wire({"account": "DE-1"})


@pytest.mark.parametrize("value", [object(), {1: object()}])
def test_what_json_does_not_have_is_refused(value: object) -> None:
    with pytest.raises(BadArgumentsError, match="cannot be written as JSON"):
        book.to_wire({"copy": 1, "when": 0, "anything": value})


def test_a_value_that_holds_itself_is_refused() -> None:
    endless: list[object] = []
    endless.append(endless)
    with pytest.raises(BadArgumentsError):
        book.to_wire({"copy": 1, "when": 0, "anything": endless})


@pytest.mark.parametrize("body", [b"", b"[]", b"null", b"{", b"\xff", b'{"a":1}', b'{"a":1,"b":[],"c":NaN}'])
def test_a_stored_body_that_does_not_fit_is_refused(body: bytes) -> None:
    with pytest.raises(BadArgumentsError):
        plain.from_wire(body)


def var(*a: int) -> None: ...
def keywords(**a: int) -> None: ...
def only_positional(a: int, /) -> None: ...
def unresolved(a: Nowhere) -> None: ...  # type: ignore[name-defined]  # noqa: F821 - that is the point
def bad_default(a: int = "x") -> None: ...  # type: ignore[assignment]
def object_default(a: Any = object()) -> None: ...  # noqa: ANN401, B008 - that is the point
def secret(a: pydantic.SecretStr | None = None) -> None: ...


@pytest.mark.parametrize("fn", [var, keywords, only_positional, unresolved, bad_default, object_default, secret])
def test_a_signature_that_cannot_be_stored_is_refused_at_declaration(fn: Callable[..., None]) -> None:
    with pytest.raises(ToolDeclarationError, match=fn.__name__):
        tool(effect_class="read")(fn)
