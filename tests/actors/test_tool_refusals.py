"""What a refusal of arguments tells, and which records and keys are refused or left out."""

from __future__ import annotations

import dataclasses
import datetime as dt
import json
import traceback
import uuid
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Literal

import pydantic
import pytest

from mycelium.actors.tool import tool
from mycelium.leases.errors import BadArgumentsError


@dataclasses.dataclass
class Seat:
    row: int
    note: bytes = b""


@tool(effect_class="read")
def plain(a: int, b: list[int], *, c: float = 1.5) -> None:
    """Little."""


@tool(effect_class="keyed_mutate", key_param="key")
def book(order: str, key: str) -> None:
    """A call with a key."""


# ── what a refusal tells ─────────────────────────────────────────────────────────────────────────────────────────────


SECRET = "secret_1"


class Telling(Mapping[str, int]):
    def __getitem__(self, key: str) -> int:
        raise ValueError(SECRET)

    def __iter__(self) -> Iterator[str]:
        raise ValueError(SECRET)

    def __len__(self) -> int:
        return 1


def telling() -> Iterator[int]:
    yield 1
    raise ValueError(SECRET)


TELLING: list[tuple[str, object]] = [
    ("numbers", telling()),
    ("numbers", [SECRET]),
    ("named", Telling()),
    ("named", {SECRET: "x"}),
    ("named", {SECRET: {SECRET: 1}}),
    ("by_number", {4242424242424242: "x"}),
    ("seat", {"row": 1, SECRET: 2}),
    ("seat", {"row": SECRET}),
    ("either", {SECRET: 1}),
    ("data", SECRET + "!"),
    ("ident", SECRET),
    ("when", SECRET),
    ("url", SECRET + ":// bad"),
    ("literal", SECRET),
]


@pytest.mark.parametrize("name, value", TELLING)
def test_a_refusal_quotes_no_value_no_key_and_no_exception_of_the_callers(name: str, value: object) -> None:
    def fn(  # noqa: PLR0917 - one of each kind
        numbers: list[int] | None = None,
        named: dict[str, int] | None = None,
        by_number: dict[int, int] | None = None,
        seat: Seat | None = None,
        either: dict[str, list[int]] | Seat | None = None,
        data: bytes = b"",
        ident: uuid.UUID | None = None,
        when: dt.datetime | None = None,
        url: pydantic.AnyUrl | None = None,
        literal: Literal["x"] = "x",
    ) -> None:
        """One of each kind."""

    with pytest.raises(BadArgumentsError, match=name) as caught:
        tool(effect_class="read")(fn).check((), {name: value})
    assert SECRET not in str(caught.value)
    assert "4242" not in str(caught.value)
    assert SECRET not in "".join(traceback.format_exception(caught.value))


def test_a_refusal_names_the_fields_that_the_signature_names() -> None:
    def fn(seats: dict[str, list[Seat]]) -> None:
        del seats

    with pytest.raises(BadArgumentsError, match=r"seats\.\?\.1\.row: Input should be a valid integer"):
        tool(effect_class="read")(fn).check((), {"seats": {"x": [{"row": 1}, {"row": "y"}]}})


def test_an_argument_that_is_no_parameter_is_not_named_and_the_parameters_are() -> None:
    given: dict[str, Any] = {"a": 1, "b": [], "sk_live": 1}
    with pytest.raises(BadArgumentsError, match=r"it has a, b, c") as bound:
        plain.bind(**given)
    with pytest.raises(BadArgumentsError, match=r"it has a, b, c") as wired:
        plain.to_wire(given)
    assert "sk_live" not in f"{bound.value} {wired.value}"


# ── records that only their classes tell apart ───────────────────────────────────────────────────────────────────────


@dataclasses.dataclass
class Charge:
    order: str


@dataclasses.dataclass
class Refund:
    order: str


class Pay(pydantic.BaseModel):
    order: str
    kind: Literal["pay"] = "pay"


class Void(pydantic.BaseModel):
    order: str
    kind: Literal["void"] = "void"


def one_of(op: Charge | Refund) -> None:
    del op


def many_of(op: list[Charge | Refund]) -> None:
    del op


def one_kind_of_list(op: list[Charge] | list[Refund] | None = None) -> None:
    del op


@pytest.mark.parametrize("fn, wrap", [(one_of, False), (many_of, True), (one_kind_of_list, True)])
def test_records_of_a_union_that_only_their_classes_tell_apart_are_not_one_call(
    fn: Callable[..., None], *, wrap: bool
) -> None:
    declared = tool(effect_class="read")(fn)
    first, second = Charge("o1"), Refund("o1")
    assert declared.check((), {"op": [first] if wrap else first}).args
    with pytest.raises(BadArgumentsError, match=r"'op' is told from another by its class alone.*Literal"):
        declared.check((), {"op": [second] if wrap else second})
    with pytest.raises(BadArgumentsError):
        declared.to_wire({"op": [second] if wrap else second})


def test_records_that_name_their_kind_are_two_calls() -> None:
    def fn(op: Pay | Void) -> None:
        del op

    declared = tool(effect_class="read")(fn)
    pay, void = (declared.check((), {"op": op}).args for op in (Pay(order="o1"), Void(order="o1")))
    assert pay != void


# ── the provider's key ───────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("key", ["", None])
def test_an_empty_key_is_none(key: str | None) -> None:
    given = {"order": "A", "key": key}
    checked, wired = book.check((), given), book.to_wire(given)
    assert "key" not in checked.values
    assert "key" not in json.loads(wired.body)
    assert book.from_wire(wired.body, idempotency_key="effect")["key"] == "effect"
