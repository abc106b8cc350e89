"""One look at the schedules: makes the job of each due time, and remembers how far each schedule has come.

Any number of workers look, at any time: a due time names its job, so the second submit of it joins the first. That
holds while the job's row is kept; what is remembered, which only moves forward, holds for ever. Time is the server's.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from ...leases.clock import Clock
from ...leases.errors import JobNotFoundError
from ...leases.store import Store
from ...ledger.record import read_now_ms, read_record
from ...ledger.schedules import Progress, Step, advance_if_later, read_progress
from ...ledger.states import TERMINAL
from ...ledger.submit import BATCH, Submitted, submit
from .facts import CatchUp, Overlap, ScheduleFacts
from .recurrence import at_ms, due_within, last_within, ms_of

log = logging.getLogger(__name__)

PUNCTUAL = timedelta(minutes=1)
"""A due time that is older, and has no job, was missed."""
STALE_S = 60.0
"""A look that has taken so long submits nothing: how far the schedules have come may have changed since."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What one look finds for one schedule.

    Attributes:
        due: due times that get their job now, in order.
        upto: the last due time that is settled by that, with a job or passed over; None: none is.
        passed: whether due times were passed over as missed.
        more: there are more to come at once.
        next: the first due time that is not due yet; None: there is none.
    """

    due: tuple[datetime, ...] = ()
    upto: datetime | None = None
    passed: bool = False
    more: bool = False
    next: datetime | None = None


@dataclass(frozen=True, slots=True)
class ScheduleReport:
    """What one look did.

    Attributes:
        created: due times that got their job.
        joined: due times that had one.
        skipped: due times that were passed over because the last job had not ended.
        refused: due times under whose name another call is on record: it stays as it is.
        next_in_s: seconds until something is due, by the server's clock; None: nothing will be.
    """

    created: int = 0
    joined: int = 0
    skipped: int = 0
    refused: int = 0
    next_in_s: float | None = None


def plan(facts: ScheduleFacts, since: datetime, now: datetime) -> Plan:
    """Decide which due times get their job now.

    Args:
        facts: the schedule.
        since: how far it has come.
        now: the server's time.
    """
    rule = facts.rule
    upcoming = rule.after(since)
    if upcoming is None or upcoming > now:
        return Plan(next=upcoming)
    missed_until = max(since, now - PUNCTUAL)
    back = max(since, now - timedelta(seconds=facts.look_back_s))
    if facts.catch_up is CatchUp.ALL:
        due = due_within(rule, back, now, BATCH)
        more = len(due) == BATCH
        return Plan(tuple(due), due[-1] if due else now, not due or upcoming < due[0], more, rule.after(now))
    due = due_within(rule, missed_until, now, BATCH)
    last = None
    if not due and facts.catch_up is CatchUp.LATEST and back < missed_until:
        last = last_within(rule, back, missed_until)
        due = [last] if last is not None else []
    upto = due[-1] if due else missed_until
    return Plan(tuple(due), upto, not due or upcoming < due[0], next=rule.after(now))


async def run_once(store: Store, schedules: Mapping[str, ScheduleFacts], clock: Clock) -> ScheduleReport:
    """Make the jobs that are due.

    Args:
        store: the server.
        schedules: by name; none of them: the server is not asked.
        clock: this machine's, for how long the look itself takes.

    Raises:
        ServerError: the server could not be asked; looking again is safe, whatever was done.
    """
    if not schedules:
        return ScheduleReport()
    begun_s = clock.now_s()
    facts = list(schedules.values())
    since = await _since(store, facts)
    now = at_ms(await read_now_ms(store))
    plans = [plan(each, at_ms(progress.at_ms), now) for each, progress in zip(facts, since, strict=True)]
    chosen = await asyncio.gather(*[_unless_it_runs(store, *each) for each in zip(facts, plans, since, strict=True)])
    if clock.now_s() - begun_s > STALE_S:
        # Frozen on the way: by now the row of a job may be gone that others have made since.
        return ScheduleReport(next_in_s=0.0)
    report = await _submit(store, [(each, due) for each, dues in zip(facts, chosen, strict=True) for due in dues])
    await _advance(store, facts, plans, chosen)
    return ScheduleReport(
        created=report.created,
        joined=report.joined,
        refused=report.refused,
        skipped=sum(len(found.due) - len(dues) for found, dues in zip(plans, chosen, strict=True)),
        next_in_s=_next_in_s(plans, now),
    )


async def _since(store: Store, facts: Sequence[ScheduleFacts]) -> list[Progress]:
    """How far each has come; one that nobody has seen before begins now."""
    found = await read_progress(store, [each.key for each in facts])
    new = [Step(each.key) for each, progress in zip(facts, found, strict=True) if progress is None]
    begun = iter(await advance_if_later(store.calls, new) if new else [])
    return [next(begun) if progress is None else progress for progress in found]


async def _unless_it_runs(store: Store, facts: ScheduleFacts, found: Plan, progress: Progress) -> tuple[datetime, ...]:
    """The due times that get a job, where a last job that has not ended may stand in the way."""
    if facts.overlap is Overlap.ALLOW or not found.due:
        return found.due
    if progress.last_ms:
        try:
            last = await read_record(store, facts.request_id(at_ms(progress.last_ms)))
        except JobNotFoundError:
            return found.due[:1]  # it ended, so long ago that its row is gone
        if last.state not in TERMINAL:
            return ()
    return found.due[:1]


async def _submit(store: Store, due: Sequence[tuple[ScheduleFacts, datetime]]) -> ScheduleReport:
    intents = [facts.intent_at(at, namespace=store.keys.namespace) for facts, at in due]
    taken = await submit(store.calls, intents)
    for answer in taken:
        if not isinstance(answer, Submitted):
            log.warning("a due time is left as it is on record: %s", answer)
    made = [answer.created for answer in taken if isinstance(answer, Submitted)]
    return ScheduleReport(created=sum(made), joined=len(made) - sum(made), refused=len(taken) - len(made))


async def _advance(
    store: Store, facts: Sequence[ScheduleFacts], plans: Sequence[Plan], chosen: Sequence[Sequence[datetime]]
) -> None:
    steps: list[Step] = []
    for each, found, dues in zip(facts, plans, chosen, strict=True):
        if found.upto is not None:
            steps.append(Step(each.key, Progress(ms_of(found.upto), ms_of(dues[-1]) if dues else 0)))
        if found.passed:
            log.warning("schedule %s: nobody looked for a while, and due times were passed over", each.name)
    if steps:
        await advance_if_later(store.calls, steps)


def _next_in_s(plans: Sequence[Plan], now: datetime) -> float | None:
    if any(found.more for found in plans):
        return 0.0
    return min(((found.next - now).total_seconds() for found in plans if found.next is not None), default=None)
