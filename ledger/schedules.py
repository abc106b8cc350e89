"""How far each schedule has come: which due times were taken, so that none is looked at again."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import NamedTuple

from ..leases.channel import Channel
from ..leases.scripts import scripted
from ..leases.store import Store
from .replies import integer, items, text, words


class AdvanceReply(StrEnum):
    """What the store says of schedules that move on."""

    OK = "ok"
    """How far each has come follows, in order."""


class StepItem(NamedTuple):
    """One schedule, as `advance_if_later.lua` takes it; instants are server milliseconds, 0 for none."""

    schedule: str
    at: str
    last: str


class Progress(NamedTuple):
    """How far a schedule has come; instants are server milliseconds.

    Attributes:
        at_ms: all due times up to this instant were taken or passed over; where none was yet, when it began.
        last_ms: the last due time for which a job was made; 0: none was.
    """

    at_ms: int
    last_ms: int = 0


class Step(NamedTuple):
    """One schedule that moves on.

    Attributes:
        schedule: its name and rule: a rule that is changed begins anew.
        to: how far it has come by what its caller did; None: it only begins.
    """

    schedule: str
    to: Progress | None = None


@scripted("mycelium.ledger", "advance_if_later", AdvanceReply)
def advance_script(*, step: Sequence[StepItem]) -> None:
    """Stub of `advance_if_later.lua`."""


async def advance_if_later(calls: Channel, steps: Sequence[Step]) -> list[Progress]:
    """Move schedules on; one that has come further stays where it is, and one that is not known begins now.

    Returns:
        How far each has come, in order.

    Raises:
        ServerError: the server could not be asked; asking again is safe.
    """
    told = [(step.schedule, step.to or Progress(0)) for step in steps]
    items_ = [StepItem(schedule, str(to.at_ms), str(to.last_ms)) for schedule, to in told]
    _, *rest = words(await calls.run(advance_script(step=items_)))
    return [Progress(integer(rest[at]), integer(rest[at + 1])) for at in range(0, len(rest), 2)]


async def read_progress(store: Store, schedules: Sequence[str]) -> list[Progress | None]:
    """Read how far schedules have come, in order; None: it has not begun.

    Raises:
        ServerError: the server could not be asked.
    """
    if not schedules:
        return []
    values = items(await store.calls.read("HMGET", store.keys.schedules(), *schedules))
    return [_progress(value) for value in values]


def _progress(value: object) -> Progress | None:
    numbers = [] if value is None else text(value).split(" ")
    if len(numbers) != len(Progress._fields) or not all(number.isdigit() for number in numbers):
        return None
    return Progress(*map(int, numbers))
