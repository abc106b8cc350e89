"""One look at the schedules: one job for a due time, whoever looks, how often, and whatever has failed before."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import msgspec
import pytest
from redis.asyncio import Redis

from kit.fixtures import StartServer
from kit.holder import Holder, holder
from kit.schedules import NOON, SCHEDULES, LocalClock, jobs, ms, nightly, ping, report, set_clock, store_at
from mycelium.actors.schedules.declaration import schedule
from mycelium.actors.schedules.facts import CatchUp, Overlap, ScheduleFacts, utc_text
from mycelium.actors.schedules.looking import STALE_S, Plan, ScheduleReport, plan, run_once
from mycelium.leases.store import Store, open_store
from mycelium.ledger.record import read_record
from mycelium.ledger.replies import raw
from mycelium.ledger.schedules import read_progress
from mycelium.ledger.states import Settle, State
from mycelium.ledger.submit import submit

MINUTE, HOUR, DAY = timedelta(minutes=1), timedelta(hours=1), timedelta(days=1)
CLOCK = LocalClock()
EACH_MINUTE = schedule("pulse", ping, every=MINUTE).facts


@pytest.fixture
async def store(url: str, namespace: str) -> AsyncIterator[Store]:
    async with store_at(url, namespace) as opened:
        yield opened


def changed(facts: ScheduleFacts, **changes: object) -> ScheduleFacts:
    return msgspec.structs.replace(facts, **changes)


async def look(store: Store, now: datetime, *facts: ScheduleFacts, clock: LocalClock = CLOCK) -> ScheduleReport:
    """One look at a time of the server's."""
    set_clock(store, now)
    return await run_once(store, {each.name: each for each in facts}, clock)


def ids(facts: ScheduleFacts, *dues: datetime) -> list[str]:
    return [facts.request_id(due) for due in dues]


# ── one job for a due time ───────────────────────────────────────────────────────────────────────────────────────────


async def test_a_schedule_begins_when_it_is_first_looked_at_and_makes_a_job_for_each_due_time(store: Store) -> None:
    first = await look(store, NOON, EACH_MINUTE)
    assert first == ScheduleReport(next_in_s=60.0)
    assert await look(store, NOON + 59.9 * timedelta(seconds=1), EACH_MINUTE) == ScheduleReport(next_in_s=0.1)
    assert await look(store, NOON + MINUTE, EACH_MINUTE) == ScheduleReport(created=1, next_in_s=60.0)
    assert await look(store, NOON + MINUTE, EACH_MINUTE) == ScheduleReport(next_in_s=60.0)
    assert await jobs(store) == ["schedule:pulse:2026-06-01T12:01:00Z"]


async def test_the_job_tells_its_schedule_and_due_time(store: Store) -> None:
    await look(store, NOON, nightly.facts)
    await look(store, NOON + DAY, nightly.facts)
    (request_id,) = await jobs(store)
    assert request_id == "schedule:nightly:2026-06-02T01:00:00Z"
    record = await read_record(store, request_id)
    assert record.about.labels == {"schedule": "nightly", "due": "2026-06-02T01:00:00Z"}
    body = await store.calls.read("GET", store.keys.args(request_id))
    assert body == b'{"due":"2026-06-02T01:00:00Z","region":"eu"}'


async def test_eight_schedulers_and_a_thousand_ticks_make_a_thousand_jobs(url: str, namespace: str) -> None:
    """Each goes at its own pace, so that the clocks that they are told differ by as much as hundreds of ticks."""
    async with AsyncExitStack() as stores:
        each = [await stores.enter_async_context(store_at(url, namespace)) for _ in range(8)]
        await look(each[0], NOON, EACH_MINUTE)

        async def tick(store: Store, rng: random.Random) -> int:
            created = 0
            for n in range(1, 1001):
                if rng.random() < 0.1:
                    await asyncio.sleep(0)
                created += (await look(store, NOON + n * MINUTE, EACH_MINUTE, clock=LocalClock(rng.random()))).created
            return created

        created = await asyncio.gather(*[tick(store, random.Random(n)) for n, store in enumerate(each)])
        assert await jobs(each[0]) == ids(EACH_MINUTE, *(NOON + n * MINUTE for n in range(1, 1001)))
        assert sum(created) == 1000
        assert sum(count > 0 for count in created) > 1, "one of them did all the work: nothing was raced for"


@pytest.mark.parametrize("day, hours", [("2026-03-08", 23), ("2026-11-01", 25), ("2026-06-01", 24)])
@pytest.mark.parametrize("cron, each_day", [("0 * * * *", None), ("30 1 * * *", 1), ("30 2 * * *", 1)])
async def test_a_day_on_which_the_clock_is_changed_has_a_job_for_each_hour_that_it_has(
    store: Store, cron: str, each_day: int | None, day: str, hours: int
) -> None:
    facts = schedule("s", ping, cron=cron, zone="America/New_York").facts
    midnight = datetime.fromisoformat(day).replace(tzinfo=ZoneInfo("America/New_York")).astimezone(UTC)
    await look(store, midnight - timedelta(seconds=1), facts)
    for n in range(hours * 4):
        await look(store, midnight + n * timedelta(minutes=15), facts)
    assert len(await jobs(store)) == (each_day or hours)


@pytest.mark.parametrize("local_s", [-1e9, 0.0, 1e9, 1e18])
async def test_the_clock_of_a_worker_decides_nothing(store: Store, local_s: float) -> None:
    clock = LocalClock(local_s)
    await look(store, NOON, EACH_MINUTE, clock=clock)
    assert (await look(store, NOON + MINUTE, EACH_MINUTE, clock=clock)).created == 1
    assert await jobs(store) == ids(EACH_MINUTE, NOON + MINUTE)


async def test_a_look_that_was_frozen_on_the_way_submits_nothing(store: Store) -> None:
    await look(store, NOON, EACH_MINUTE)
    frozen = await look(store, NOON + MINUTE, EACH_MINUTE, clock=LocalClock(step_s=STALE_S + 1))
    assert frozen == ScheduleReport(next_in_s=0.0)
    assert await jobs(store) == []


async def test_whoever_comes_after_one_that_died_before_it_could_tell_joins_the_job(store: Store) -> None:
    await look(store, NOON, EACH_MINUTE)
    await submit(store.calls, [EACH_MINUTE.intent_at(NOON + MINUTE, namespace=store.keys.namespace)])
    assert await look(store, NOON + MINUTE, EACH_MINUTE) == ScheduleReport(joined=1, next_in_s=60.0)
    assert await jobs(store) == ids(EACH_MINUTE, NOON + MINUTE)


async def test_a_due_time_whose_row_is_gone_is_not_taken_again(store: Store) -> None:
    await look(store, NOON, EACH_MINUTE)
    await look(store, NOON + MINUTE, EACH_MINUTE)
    await store.calls.read("DEL", *[store.keys.row(name) for name in await jobs(store)])
    assert await look(store, NOON + MINUTE, EACH_MINUTE) == ScheduleReport(next_in_s=60.0)
    assert await jobs(store) == []


async def test_a_server_clock_that_was_ahead_makes_no_second_job_and_is_waited_for(store: Store) -> None:
    await look(store, NOON, EACH_MINUTE)
    await look(store, NOON + MINUTE, EACH_MINUTE)
    await look(store, NOON + 5 * MINUTE, EACH_MINUTE)
    made = await jobs(store)
    for n in range(6):
        assert (await look(store, NOON + n * MINUTE, EACH_MINUTE)).created == 0
    assert await jobs(store) == made
    assert (await look(store, NOON + 6 * MINUTE, EACH_MINUTE)).created == 1


async def test_another_call_under_the_name_of_a_due_time_stays_as_it_is(store: Store) -> None:
    before = schedule("nightly", report, {"region": "us"}, cron="0 3 * * *", zone="Europe/Berlin").facts
    due = datetime(2026, 6, 2, 1, tzinfo=UTC)
    await look(store, NOON, nightly.facts)
    await submit(store.calls, [before.intent_at(due, namespace=store.keys.namespace)])
    told = await look(store, due, nightly.facts)
    assert (told.created, told.refused) == (0, 1)
    assert b'"us"' in raw(await store.calls.read("GET", store.keys.args(nightly.facts.request_id(due))))
    assert (await look(store, due, nightly.facts)).refused == 0


async def test_a_changed_rule_begins_when_it_is_first_looked_at_and_the_old_one_goes_on(store: Store) -> None:
    old, new = EACH_MINUTE, schedule("pulse", ping, cron="30 * * * *").facts
    await look(store, NOON, old)
    later = NOON + 45 * MINUTE
    # A rule that was kept would be caught up with what it had missed since: 12:30.
    assert (await look(store, later, new)).created == 0
    assert (await look(store, later, old)).created == 1
    both = NOON + 90 * MINUTE
    assert (await look(store, both, new)).created == 1
    assert (await look(store, both, old)).joined == 1


# ── what was missed ──────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "catch_up, away, taken, passed",
    [
        # Nothing is missed before a minute has passed.
        (CatchUp.LATEST, timedelta(seconds=59), [0], False),
        (CatchUp.NONE, timedelta(seconds=59), [0], False),
        (CatchUp.ALL, timedelta(seconds=59), [0], False),
        (CatchUp.LATEST, timedelta(minutes=1), [0], False),
        (CatchUp.NONE, timedelta(minutes=1), [], True),
        (CatchUp.ALL, timedelta(minutes=1), [0], False),
        (CatchUp.LATEST, 3.5 * HOUR, [3], True),
        (CatchUp.NONE, 3.5 * HOUR, [], True),
        (CatchUp.ALL, 3.5 * HOUR, [0, 1, 2, 3], False),
        # What is on time is taken, and what was missed before it is not.
        (CatchUp.LATEST, 3 * HOUR, [3], True),
        (CatchUp.NONE, 3 * HOUR, [3], True),
        (CatchUp.ALL, 3 * HOUR, [0, 1, 2, 3], False),
        # No further back than the look-back.
        (CatchUp.LATEST, 30.5 * HOUR, [30], True),
        (CatchUp.ALL, 30.5 * HOUR, [*range(7, 31)], True),
    ],
)
def test_what_becomes_of_missed_due_times(
    catch_up: CatchUp, away: timedelta, taken: list[int], *, passed: bool
) -> None:
    hourly = changed(schedule("hourly", ping, cron="0 * * * *").facts, catch_up=catch_up)
    found = plan(hourly, NOON - MINUTE, NOON + away)
    assert found.due == tuple(NOON + n * HOUR for n in taken)
    assert found.passed is passed
    assert found.next is not None
    assert found.next > NOON + away
    assert found.upto is not None
    assert plan(hourly, found.upto, NOON + away) == Plan(next=found.next)


def test_a_rare_schedule_that_was_missed_longer_ago_than_it_looks_back_is_passed_over() -> None:
    yearly = schedule("yearly", ping, cron="0 12 1 6 *").facts
    found = plan(yearly, NOON - DAY, NOON + 1.5 * DAY)
    assert (found.due, found.passed) == ((), True)
    assert plan(yearly, NOON - DAY, NOON + 0.9 * DAY).due == (NOON,)


async def test_all_that_was_missed_is_caught_up_page_by_page(store: Store) -> None:
    all_of_it = changed(EACH_MINUTE, catch_up=CatchUp.ALL)
    await look(store, NOON, all_of_it)
    back = NOON + 250 * MINUTE
    reports = [await look(store, back, all_of_it) for _ in range(4)]
    assert [report.created for report in reports] == [100, 100, 50, 0]
    assert [report.next_in_s for report in reports] == [0.0, 0.0, 60.0, 60.0]
    assert await jobs(store) == ids(all_of_it, *(NOON + n * MINUTE for n in range(1, 251)))


# ── overlap ──────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("end", [Settle.COMPLETED, Settle.FAILED])
async def test_while_the_last_job_has_not_ended_a_due_time_can_be_skipped(
    store: Store, url: str, namespace: str, end: Settle
) -> None:
    skips = changed(EACH_MINUTE, overlap=Overlap.SKIP)
    await look(store, NOON, skips)
    assert (await look(store, NOON + MINUTE, skips)).created == 1
    skipped = await look(store, NOON + 2 * MINUTE, skips)
    assert (skipped.created, skipped.skipped) == (0, 1)
    async with holder(url, namespace, ["ping"]) as worker:
        await _run_one(worker, end)
    # What was skipped stays skipped.
    assert (await look(store, NOON + 2 * MINUTE, skips)).created == 0
    assert (await look(store, NOON + 3 * MINUTE, skips)).created == 1
    assert await jobs(store) == ids(skips, NOON + MINUTE, NOON + 3 * MINUTE)


async def _run_one(worker: Holder, end: Settle) -> None:
    (grant,) = await worker.claim()
    await worker.settle(grant, end, body=b"1")


async def test_of_several_due_times_at_once_the_first_gets_a_job_and_the_others_are_skipped(store: Store) -> None:
    skips = changed(schedule("fast", ping, every=timedelta(seconds=1)).facts, overlap=Overlap.SKIP)
    await look(store, NOON, skips)
    told = await look(store, NOON + timedelta(seconds=5), skips)
    assert (told.created, told.skipped) == (1, 4)
    assert (await look(store, NOON + timedelta(seconds=5), skips)).skipped == 0


async def test_a_last_job_whose_row_is_gone_has_ended(store: Store) -> None:
    skips = changed(EACH_MINUTE, overlap=Overlap.SKIP)
    await look(store, NOON, skips)
    await look(store, NOON + MINUTE, skips)
    await store.calls.read("DEL", *[store.keys.row(name) for name in await jobs(store)])
    assert (await look(store, NOON + 2 * MINUTE, skips)).created == 1


async def test_a_last_job_that_is_unknown_has_not_ended(store: Store) -> None:
    skips = changed(EACH_MINUTE, overlap=Overlap.SKIP)
    await look(store, NOON, skips)
    await look(store, NOON + MINUTE, skips)
    (name,) = await jobs(store)
    await store.calls.read("HSET", store.keys.row(name), "state", State.UNKNOWN)
    assert (await look(store, NOON + 2 * MINUTE, skips)).skipped == 1


# ── what it costs ────────────────────────────────────────────────────────────────────────────────────────────────────


async def test_without_schedules_the_server_is_not_asked(url: str, namespace: str) -> None:
    store = await open_store(url, namespace=namespace)
    await store.aclose()
    assert await run_once(store, {}, CLOCK) == ScheduleReport()


async def test_a_look_at_which_nothing_is_due_is_two_reads(start_server: StartServer, namespace: str) -> None:
    server = start_server()
    store = await open_store(server.url, namespace=namespace)
    yearly = {each.name: each.facts for each in (schedule(f"s{n}", ping, cron="0 0 1 1 *") for n in range(20))}
    async with Redis.from_url(server.url) as direct:
        await run_once(store, yearly, CLOCK)
        before = await direct.info("commandstats")
        for _ in range(10):
            await run_once(store, yearly, CLOCK)
        after = await direct.info("commandstats")
    await store.aclose()
    spent = {name: stat["calls"] - before.get(name, {"calls": 0})["calls"] for name, stat in after.items()}
    assert {name: calls for name, calls in spent.items() if calls} == {
        "cmdstat_hmget": 10,
        "cmdstat_time": 10,
        "cmdstat_info": 1,
    }


async def test_progress_is_kept_by_name_and_rule(store: Store) -> None:
    await look(store, NOON, nightly.facts, EACH_MINUTE)
    await look(store, NOON + MINUTE, nightly.facts, EACH_MINUTE)
    told = await read_progress(store, ["nightly 0 3 * * * Europe/Berlin", "pulse every 0:01:00", "another"])
    due = ms(NOON + MINUTE)
    assert told == [(ms(NOON), 0), (due, due), None]
    assert utc_text(NOON + MINUTE) == "2026-06-01T12:01:00Z"
    assert SCHEDULES[0].facts.key == "pulse every 0:05:00"
