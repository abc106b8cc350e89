"""A stored result comes back as the function declares it, or as the JSON value that is on record."""

from __future__ import annotations

import dataclasses
import datetime as dt
import enum
from collections.abc import Iterable
from decimal import Decimal
from typing import Any, NamedTuple
from uuid import UUID

import pydantic
import pytest

from kit.inprocess import World
from mycelium import ledger, ledger_sync, task_ledger_sync


class Colour(enum.Enum):
    RED = "red"
    TWO = 2


class Money(pydantic.BaseModel):
    amount: Decimal
    on: dt.date
    colour: Colour = Colour.RED


@dataclasses.dataclass
class Charge:
    id: UUID
    money: Money
    raw: bytes
    tags: set[str]


class Place(NamedTuple):
    row: int
    seat: str


class Renamed(pydantic.BaseModel):
    id: str = pydantic.Field(default="none", validation_alias="ID")


class Picky(pydantic.BaseModel):
    id: int

    @pydantic.field_validator("id")
    @classmethod
    def refuse(cls, value: int) -> int:
        raise KeyError(value)


MONEY = Money(amount=Decimal("1.50"), on=dt.date(2026, 12, 1))
CHARGE = Charge(UUID(int=7), MONEY, b"\xff\x00", {"a", "b", "c"})


def declared(hint: object, value: object) -> Any:  # noqa: ANN401 - any function
    def act() -> Any:  # noqa: ANN401 - it is annotated by the test
        return value

    act.__annotations__["return"] = hint
    return act


def twice(here: World, hint: object, value: object) -> object:
    """What the second call gives, in a ledger as another process has it."""
    answers = [
        ledger_sync(effect_class="non_idempotent_mutate", ledger=here.ledger())(declared(hint, value))(request_id="r1")
        for _ in range(2)
    ]
    assert answers[0] is value
    return answers[1]


@pytest.mark.parametrize(
    "hint, value",
    [
        (Money, MONEY),
        (Charge, CHARGE),
        (list[Charge], [CHARGE]),
        (Money | None, None),
        (Decimal, Decimal("1.50")),
        (dt.date, dt.date(2026, 12, 1)),
        (dt.datetime, dt.datetime(2026, 12, 1, 12, tzinfo=dt.UTC)),
        (dt.timedelta, dt.timedelta(seconds=1.5)),
        (tuple[int, str], (1, "a")),
        (tuple[bytes, ...], (b"\xff", b"")),
        (set[str], {"a", "b", "c"}),
        (bytes, b"\xff\x00"),
        (Colour, Colour.TWO),
        (Place, Place(1, "A")),
        (dict[int, Decimal], {1: Decimal(2)}),
        (UUID, UUID(int=7)),
        (dict, {"a": [1, None, 1.5, True]}),
        (int, None),
        (float, 1),
    ],
)
def test_a_result_comes_back_as_declared(here: World, hint: object, value: object) -> None:
    back = twice(here, hint, value)
    assert back == value
    assert isinstance(back, float) if hint is float else type(back) is type(value)


@pytest.mark.parametrize(
    "hint, value, stored",
    [
        (int, "five", "five"),
        (int, "5", "5"),
        (bool, 1, 1),
        (Money, {"amount": "much"}, {"amount": "much"}),
        (Renamed, Renamed.model_validate({"ID": "x"}), {"id": "x"}),
        (Picky, Picky.model_construct(id=1), {"id": 1}),
        (Iterable[int], [1, 2], [1, 2]),
        (type("Unheard", (), {}), [1], [1]),
        (Any, (1, 2), [1, 2]),
        (object, (1, 2), [1, 2]),
        (None, 1, 1),
    ],
)
def test_what_does_not_fit_its_annotation_comes_back_as_json(
    here: World, hint: object, value: object, stored: object
) -> None:
    assert twice(here, hint, value) == stored


async def test_async_functions_and_tasks_give_it_back_as_declared_too(here: World) -> None:
    kept = here.ledger()

    @ledger(effect_class="non_idempotent_mutate", ledger=kept)
    async def charge() -> Charge:
        return CHARGE

    @task_ledger_sync(effect_class="non_idempotent_mutate", ledger=here.ledger())
    def work() -> Money:
        return MONEY

    assert [await charge(request_id="r1") for _ in range(2)] == [CHARGE, CHARGE]
    assert [work(task_id="t1") for _ in range(2)] == [MONEY, MONEY]
