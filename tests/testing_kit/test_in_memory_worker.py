"""What a test sees of a worker in its own process: the outcomes that any worker would come to, without waiting."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from kit.in_memory_shop import (
    TOOLS,
    hang,
    hang_alone,
    hang_before_the_effect,
    hang_plain,
    hang_plain_before_the_effect,
    price,
    sell,
    sell_by_phone,
    sell_in_an_hour,
    sell_what_is_out,
    sell_when_open,
    sell_with_much_arithmetic,
)
from mycelium.actors.job import Job
from mycelium.actors.schedules.declaration import schedule
from mycelium.actors.schedules.facts import utc_text
from mycelium.leases.errors import ActorStoppedError, JobFailedError, ResultTimeoutError, SettingsError
from mycelium.ledger.listing import list_transitions
from mycelium.ledger.sessions import list_sessions
from mycelium.ledger.states import Boundary, State
from mycelium.testing import InMemoryWorker, in_memory_worker

if TYPE_CHECKING:
    from kit.in_memory_shop import Shop


async def history(job: Job) -> list[str]:
    return [entry.what for entry in (await job.record()).history]


# ── what runs, and when ──────────────────────────────────────────────────────────────────────────────────────────────


async def test_the_main_path_is_the_same_on_a_real_server_and_on_fakeredis(any_server: str, shop: Shop) -> None:
    async with in_memory_worker(TOOLS, server=any_server) as worker:
        now, later = [
            await worker.client.submit(sell.bind("now"), request_id="now"),
            await worker.client.submit(sell.bind("later"), request_id="later", delay_s=60.0),
        ]
        await worker.run_until_idle()
        assert (await now.result(0), shop.sold) == ("now", ["now"])
        await worker.advance(60)
        assert (await later.result(0), shop.sold) == ("later", ["now", "later"])
        assert await history(now) == ["ready", "claimed", "attempting", "completed"]


async def test_a_schedule_makes_one_job_for_each_due_time(url: str, shop: Shop) -> None:
    hourly = schedule("hourly", sell.bind("A"), cron="0 * * * *", zone="UTC")
    async with in_memory_worker(TOOLS, schedules=[hourly], server=url) as worker:
        await worker.advance(timedelta(days=2))
        made = {line.record.request_id for line in await list_transitions(worker.store, limit=100)}
        now = worker.clock.now
    hours = [now.replace(minute=0, second=0, microsecond=0) - timedelta(hours=ago) for ago in range(48)]
    assert made == {f"schedule:hourly:{utc_text(hour)}" for hour in hours}
    assert len(shop.sold) == len(hours)


async def test_code_that_waits_for_its_result_is_served_without_being_told(worker: InMemoryWorker) -> None:
    assert await (await worker.client.submit(sell.bind("A"), request_id="A")).result(20) == "A"


async def test_a_delayed_call_runs_at_its_very_millisecond(worker: InMemoryWorker, shop: Shop) -> None:
    job = await worker.client.submit(sell.bind("A"), request_id="A", delay_s=3600)
    await worker.advance(timedelta(seconds=3599.999))
    assert (await job.state(), shop.sold) == (State.DELAYED, [])
    await worker.advance(0.001)
    assert (await job.state(), shop.sold) == (State.COMPLETED, ["A"])


async def test_time_stops_at_each_instant_at_which_something_is_due(worker: InMemoryWorker) -> None:
    began = worker.clock.now_ms
    jobs = [await worker.client.submit(sell.bind(f"{s}"), request_id=f"{s}", delay_s=s) for s in (0.5, 7.0, 3601.25)]
    await worker.advance(timedelta(days=1))
    ends = [(await job.record()).history[-1].at_ms - began for job in jobs]
    assert ends == [500, 7000, 3_601_250]


async def test_run_until_idle_moves_no_time(worker: InMemoryWorker) -> None:
    await worker.client.submit(sell.bind("A"), request_id="A", delay_s=0.001)
    began = worker.clock.now_ms
    await worker.run_until_idle()
    assert worker.clock.now_ms == began
    assert await worker.client.job("A").state() is State.DELAYED


async def test_a_paused_worker_takes_nothing_and_then_takes_it(worker: InMemoryWorker, shop: Shop) -> None:
    with worker.paused():
        job = await worker.client.submit(sell.bind("A"), request_id="A")
        await worker.run_until_idle()
        assert (await job.state(), shop.sold) == (State.READY, [])
    await worker.run_until_idle()
    assert (await job.state(), shop.sold) == (State.COMPLETED, ["A"])


async def test_a_tool_that_sleeps_sleeps_by_the_same_clock(worker: InMemoryWorker, shop: Shop) -> None:
    job = await worker.client.submit(sell_in_an_hour.bind("A"), request_id="A")
    await shop.entered.wait()
    await worker.advance(timedelta(minutes=59), patience_s=0.01)
    assert (await job.state(), worker.running) == (State.ATTEMPTING, ["A"])
    await worker.advance(timedelta(minutes=1), patience_s=0.01)
    assert await job.result(0) == "A"


async def test_a_call_that_takes_a_moment_does_not_meet_its_timeout(worker: InMemoryWorker, shop: Shop) -> None:
    jobs = [
        await worker.client.submit(sell_with_much_arithmetic.bind(f"{number}"), request_id=f"{number}", delay_s=60.0)
        for number in range(3)
    ]
    await worker.advance(timedelta(hours=1), patience_s=20.0)
    assert [await job.result(0) for job in jobs] == ["0", "1", "2"]


async def test_a_session_lives_through_any_time_that_passes(worker: InMemoryWorker, shop: Shop) -> None:
    (before,) = await list_sessions(worker.store)
    await worker.advance(timedelta(days=365))
    (after,) = await list_sessions(worker.store)
    assert after.session_id == before.session_id
    assert await (await worker.client.submit(sell.bind("A"), request_id="A")).result(20) == "A"


# ── what goes wrong in a tool ────────────────────────────────────────────────────────────────────────────────────────


async def test_a_read_that_fails_runs_again_when_its_delay_is_over(worker: InMemoryWorker, shop: Shop) -> None:
    shop.refusals = 2
    job = await worker.client.submit(price.bind("rye"), request_id="ask")
    await worker.run_until_idle()
    assert await job.state() is State.DELAYED
    await worker.advance(timedelta(hours=1))
    assert (await job.result(0), (await job.record()).attempts) == (3, 3)


async def test_retries_come_at_the_same_times_in_every_run(url: str, shop: Shop) -> None:
    seen: list[list[int]] = []
    for _ in range(2):
        shop.refusals = 2
        async with in_memory_worker(TOOLS, server=url) as worker:
            began = worker.clock.now_ms
            job = await worker.client.submit(price.bind("rye"), request_id="ask")
            await worker.advance(timedelta(hours=1))
            seen.append([entry.at_ms - began for entry in (await job.record()).history])
    assert seen[0] == seen[1]


async def test_a_proof_that_nothing_happened_is_a_failure(worker: InMemoryWorker) -> None:
    job = await worker.client.submit(sell_what_is_out.bind("A"), request_id="A")
    await worker.run_until_idle()
    with pytest.raises(JobFailedError):
        await job.result(0)


async def test_a_snooze_is_slept_through(worker: InMemoryWorker, shop: Shop) -> None:
    shop.refusals = 1
    job = await worker.client.submit(sell_when_open.bind("A"), request_id="A")
    await worker.advance(timedelta(minutes=59))
    assert shop.sold == []
    await worker.advance(timedelta(minutes=1))
    assert (await job.result(0), shop.sold) == ("A", ["A"])


async def test_a_coroutine_that_hangs_is_past_its_time_and_unknown(worker: InMemoryWorker, shop: Shop) -> None:
    job = await worker.client.submit(hang.bind("A"), request_id="A")
    await shop.entered.wait()
    await worker.advance(29, patience_s=0.01)
    assert await job.state() is State.ATTEMPTING
    await worker.advance(2, patience_s=0.01)
    assert ((await job.record()).state, (await job.record()).error) == (State.UNKNOWN, "Timeout")
    await worker.advance(timedelta(days=1), patience_s=0.01)
    assert await history(job) == ["ready", "claimed", "attempting", "unknown"]


async def test_a_thread_that_hangs_is_ended_with_its_host(worker: InMemoryWorker, shop: Shop) -> None:
    job = await worker.client.submit(hang_plain.bind("A"), request_id="A")
    await shop.entered.wait()
    await worker.advance(60, patience_s=0.01)
    assert (await job.state(), worker.running) == (State.UNKNOWN, [])
    shop.go.set()
    assert await (await worker.client.submit(sell.bind("B"), request_id="B")).result(20) == "B"
    assert await job.state() is State.UNKNOWN


async def test_a_test_that_waits_for_what_hangs_is_told_so(worker: InMemoryWorker, shop: Shop) -> None:
    await worker.client.submit(hang.bind("A"), request_id="A")
    await shop.entered.wait()
    with pytest.raises(ResultTimeoutError, match="A still runs"):
        await worker.run_until_idle(timeout_s=0.01)


# ── doubt ────────────────────────────────────────────────────────────────────────────────────────────────────────────


async def test_an_effect_whose_answer_was_lost_is_found_and_not_repeated(worker: InMemoryWorker, shop: Shop) -> None:
    shop.breaks = True
    job = await worker.client.submit(sell_by_phone.bind("A"), request_id="A")
    await worker.run_until_idle()
    assert (await job.result(0), shop.sold) == ("A", ["A"])
    assert await history(job) == ["ready", "claimed", "attempting", "unknown", "completed"]


async def test_an_effect_that_is_not_there_runs_once_more_when_the_lag_is_over(url: str, shop: Shop) -> None:
    shop.refusals, shop.lag_s = 1, 300.0
    async with in_memory_worker(TOOLS, server=url) as worker:
        job = await worker.client.submit(sell_by_phone.bind("A"), request_id="A")
        await worker.advance(299)
        assert (await job.state(), shop.sold) == (State.UNKNOWN, [])
        await worker.advance(1)
        assert (await job.result(0), shop.sold) == ("A", ["A"])


async def test_a_host_that_dies_leaves_what_was_marked_unknown(worker: InMemoryWorker, shop: Shop) -> None:
    job = await worker.client.submit(hang.bind("A"), request_id="A")
    await shop.entered.wait()
    await worker.kill_host()
    record = await job.record()
    assert (record.state, record.boundary, record.deaths) == (State.UNKNOWN, Boundary.MAYBE_CROSSED, 1)
    assert worker.running == []
    assert shop.left.is_set()
    assert await (await worker.client.submit(sell.bind("B"), request_id="B")).result(20) == "B"


async def test_a_host_that_dies_before_the_mark_costs_an_attempt_and_no_doubt(
    worker: InMemoryWorker, shop: Shop
) -> None:
    shop.refusals = 1
    job = await worker.client.submit(hang_before_the_effect.bind("A"), request_id="A")
    await shop.entered.wait()
    await worker.kill_host()
    await worker.run_until_idle()
    assert (await job.result(0), shop.sold) == ("A", ["A"])
    assert (await job.record()).deaths == 1


async def test_a_thread_of_a_dead_host_can_settle_nothing(worker: InMemoryWorker, shop: Shop) -> None:
    job = await worker.client.submit(hang_plain.bind("A"), request_id="A")
    await shop.entered.wait()
    await worker.kill_host()
    shop.go.set()
    await worker.run_until_idle()
    assert await job.state() is State.UNKNOWN


async def test_a_thread_of_a_dead_host_can_start_no_effect(worker: InMemoryWorker, shop: Shop) -> None:
    shop.refusals = 1
    job = await worker.client.submit(hang_plain_before_the_effect.bind("A"), request_id="A")
    await shop.entered.wait()
    await worker.kill_host()
    assert (await job.result(0), shop.sold) == ("A", ["A"])
    shop.go.set()
    async with asyncio.timeout(20):
        await shop.left.wait()
    assert shop.sold == ["A"]


async def test_a_lost_session_takes_what_it_held_and_the_next_one_works(worker: InMemoryWorker, shop: Shop) -> None:
    job = await worker.client.submit(hang.bind("A"), request_id="A")
    await shop.entered.wait()
    await worker.lose_session()
    assert (await job.state(), worker.running) == (State.UNKNOWN, [])
    assert "session-lost" in [entry.why for entry in (await job.record()).history]
    assert await (await worker.client.submit(sell.bind("B"), request_id="B")).result(20) == "B"


# ── what it leaves behind, and what it refuses ───────────────────────────────────────────────────────────────────────


async def test_the_loop_is_as_before(url: str, shop: Shop) -> None:
    loop = asyncio.get_running_loop()
    factory, before = loop.get_task_factory(), loop.time()
    async with in_memory_worker(TOOLS, server=url) as worker:
        await worker.advance(timedelta(days=1))
        assert loop.time() - before >= 86_400
    assert loop.get_task_factory() is factory
    assert loop.time() - before < 86_400
    assert "time" not in vars(loop)


@pytest.mark.parametrize("by", [0, -1.0, timedelta(0), float("inf"), float("nan")])
async def test_time_only_goes_forward(worker: InMemoryWorker, by: timedelta | float) -> None:
    with pytest.raises(SettingsError, match="Time only goes forward"):
        await worker.advance(by)


async def test_a_setting_that_cannot_be_is_refused(url: str) -> None:
    with pytest.raises(SettingsError, match="slots is 0"):
        async with in_memory_worker(TOOLS, server=url, slots=0):
            pass


async def test_a_worker_that_has_stopped_is_not_taken_for_idle(url: str, shop: Shop) -> None:
    async def trial() -> None:
        async with in_memory_worker(TOOLS, server=url) as worker:
            await worker._system.stop()
            await worker.run_until_idle()

    with pytest.raises(ActorStoppedError, match="The worker has stopped"):
        await trial()


async def test_a_worker_that_stopped_by_itself_fails_its_test_at_the_end(url: str, shop: Shop) -> None:
    async def trial() -> None:
        async with in_memory_worker(TOOLS, server=url) as worker:
            await worker._system.stop()
            await asyncio.wait({worker._life})

    with pytest.raises(ActorStoppedError, match="The worker has stopped"):
        await trial()


async def test_what_wants_a_process_to_itself_is_given_up_at_its_timeout(worker: InMemoryWorker, shop: Shop) -> None:
    job = await worker.client.submit(hang_alone.bind("A"), request_id="A")
    await shop.entered.wait()
    await worker.advance(30.5, patience_s=0.01)
    assert ((await job.record()).state, (await job.record()).error) == (State.UNKNOWN, "Timeout")
