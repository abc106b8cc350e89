"""Tells for people how schedules stand: when each is due next, and what became of its last job."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import islice

from ...leases.errors import JobNotFoundError
from ...leases.store import Store
from ...ledger.record import read_now_ms, read_record
from ...ledger.schedules import Progress, read_progress
from ...ledger.states import State
from .facts import ScheduleFacts
from .recurrence import at_ms, due_times


@dataclass(frozen=True, slots=True)
class ScheduleLine:
    """One schedule as it stands.

    Attributes:
        facts: what is declared.
        upto: up to when its due times are settled; None: no worker has looked at it, and it begins when one does.
        next: the next due times.
        last: the last due time that has a job; None: none has.
        request_id: of that job.
        state: its state; None: there is none, or its row is gone.
        ahead: the server's clock was ahead once: nothing is due before `upto`.
    """

    facts: ScheduleFacts
    upto: datetime | None
    next: tuple[datetime, ...]
    last: datetime | None
    request_id: str | None
    state: State | None
    ahead: bool


async def read_lines(store: Store, schedules: Sequence[ScheduleFacts], count: int) -> list[ScheduleLine]:
    """Read how schedules stand, in their order.

    Args:
        store: the server.
        schedules: which ones.
        count: how many due times are told of each.

    Raises:
        ServerError: the server could not be asked.
    """
    progress = await read_progress(store, [facts.key for facts in schedules])
    now = at_ms(await read_now_ms(store))
    pairs = zip(schedules, progress, strict=True)
    return list(await asyncio.gather(*[_line(store, facts, came, now, count) for facts, came in pairs]))


async def _line(
    store: Store, facts: ScheduleFacts, progress: Progress | None, now: datetime, count: int
) -> ScheduleLine:
    upto = None if progress is None else at_ms(progress.at_ms)
    last = at_ms(progress.last_ms) if progress is not None and progress.last_ms else None
    request_id = None if last is None else facts.request_id(last)
    return ScheduleLine(
        facts=facts,
        upto=upto,
        next=tuple(islice(due_times(facts.rule, max(now, upto or now)), count)),
        last=last,
        request_id=request_id,
        state=None if request_id is None else await _state(store, request_id),
        ahead=upto is not None and upto > now,
    )


async def _state(store: Store, request_id: str) -> State | None:
    try:
        return (await read_record(store, request_id)).state
    except JobNotFoundError:
        return None
