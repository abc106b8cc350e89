"""A pool of real worker processes: cancel, progress, deadlines, limits, priorities, tenants, retries, unknown tools."""

from __future__ import annotations

import asyncio
from itertools import pairwise
from pathlib import Path

import pytest
from chaos import pool_tools as pool
from chaos.stage import Stage, Worker, until_async

from mycelium.actors.load import AnyTool
from mycelium.leases.errors import JobCancelledError, JobDeadError, JobFailedError, JobUnknownError
from mycelium.ledger.cancel import CancelReply, cancel
from mycelium.ledger.line import Priority
from mycelium.ledger.progress import read_progress
from mycelium.ledger.requeue import requeue
from mycelium.ledger.states import State


class Pool:
    """A stage whose workers have the tools of the pool."""

    def __init__(self, stage: Stage) -> None:
        self.stage = stage
        self.store = stage.client.store

    async def start(self, *, slots: int = 16) -> Worker:
        return await self.stage.start(app="chaos.pool_tools", slots=slots, solo=1)

    async def submit(
        self, tool: AnyTool, key: str, *, options: dict[str, object] | None = None, **arguments: object
    ) -> str:
        call = tool.bind(book=self.stage.book, key=key, **arguments)
        await self.stage.client.submit(call, request_id=key, **(options or {}))  # type: ignore[arg-type]
        return key

    async def result(self, key: str, timeout_s: float = 20.0) -> object:
        return await self.stage.client.job(key).result(timeout_s)

    def lines(self) -> list[tuple[str, str, float]]:
        """What the book tells: key, what, when."""
        book = Path(self.stage.book)
        told = [line.split() for line in book.read_text(encoding="utf-8").splitlines()] if book.exists() else []
        return sorted(((line[0], line[1], float(line[2])) for line in told if len(line) == 3), key=lambda line: line[2])

    def told(self, key: str, what: str) -> int:
        return sum(line[:2] == (key, what) for line in self.lines())

    async def begun(self, key: str) -> None:
        await until_async(lambda: asyncio.sleep(0, self.told(key, "begin")))

    async def state(self, key: str) -> State:
        return await self.stage.client.job(key).state()

    async def in_state(self, key: str, state: State) -> None:
        await until_async(lambda: self.stage.in_state([key], state))


@pytest.fixture
def pooled(stage: Stage) -> Pool:
    return Pool(stage)


# ── cancel ───────────────────────────────────────────────────────────────────────────────────────────────────────────


async def test_what_has_not_marked_is_cancelled_in_the_middle_of_its_body(pooled: Pool) -> None:
    await pooled.start()
    await pooled.submit(pool.think_and_charge, "k")
    await pooled.begun("k")
    assert (await cancel(pooled.store, "k", by="ana", reason="changed her mind")).word is CancelReply.ASKED
    with pytest.raises(JobCancelledError):
        await pooled.result("k")
    assert pooled.stage.effects["k"] == 0


async def test_what_has_marked_is_not_called_cancelled(pooled: Pool) -> None:
    await pooled.start()
    await pooled.submit(pool.charge_slowly, "k")
    await pooled.begun("k")
    assert (await cancel(pooled.store, "k")).word is CancelReply.ASKED
    with pytest.raises(JobUnknownError):
        await pooled.result("k")
    assert await pooled.state("k") is State.UNKNOWN


async def test_a_body_alone_in_its_process_is_ended_by_a_cancel_and_by_its_timeout(pooled: Pool) -> None:
    gate = pooled.stage.gate()
    await pooled.start()
    await pooled.submit(pool.think_alone, "asked", gate=gate.path)
    await pooled.begun("asked")
    await cancel(pooled.store, "asked")
    with pytest.raises(JobCancelledError):
        await pooled.result("asked")
    # Its place is free again, and the process is a new one.
    await pooled.submit(pool.think_alone, "late", gate=gate.path)
    await until_async(lambda: asyncio.sleep(0, pooled.told("late", "begin") > 1), 30)
    gate.open()
    assert await pooled.result("late") == "late"
    assert (pooled.stage.effects["asked"], pooled.stage.effects["late"]) == (0, 1)


async def test_a_job_that_waits_is_cancelled_at_once_and_can_be_requeued(pooled: Pool) -> None:
    await pooled.submit(pool.think_and_charge, "k", options={"delay_s": 3600}, seconds=0.0)
    assert (await cancel(pooled.store, "k")).word is CancelReply.CANCELLED
    assert (await cancel(pooled.store, "k")).word is CancelReply.ENDED
    await requeue(pooled.store, "k", by="ana", reason="after all")
    await pooled.start()
    assert await pooled.result("k") == "k"
    assert pooled.stage.effects["k"] == 1


# ── progress, time ───────────────────────────────────────────────────────────────────────────────────────────────────


async def test_progress_is_on_record_while_it_runs(pooled: Pool) -> None:
    await pooled.start()
    await pooled.submit(pool.count_up, "k", to=7)

    async def all_done() -> bool:
        told = await read_progress(pooled.store, "k")
        return told is not None and (told.done, told.total, told.note) == (7, 7, "k at 7")

    await until_async(all_done)
    assert await pooled.state("k") is State.ATTEMPTING


async def test_an_attempt_that_falls_silent_is_past_its_time_and_its_timeouts_are_counted_apart(pooled: Pool) -> None:
    await pooled.start()
    await pooled.submit(pool.go_silent, "k")
    with pytest.raises(JobDeadError):
        await pooled.result("k")
    record = await pooled.stage.record("k")
    assert (pooled.told("k", "begin"), record.fails, record.error) == (2, 0, "NoProgress")


async def test_a_deadline_ends_what_runs_and_what_waits_and_the_tool_can_read_it(pooled: Pool) -> None:
    await pooled.start()
    await pooled.submit(pool.tell_what_is_left, "left", options={"deadline": 30.0})
    assert 25 < float(str(await pooled.result("left"))) <= 30
    await pooled.submit(pool.look, "runs", options={"deadline": 1.0}, seconds=60.0)
    await pooled.submit(pool.look, "waits", options={"deadline": 1.0, "delay_s": 0.9}, seconds=60.0)
    await pooled.submit(pool.look, "expires", options={"start_by": 0.5, "queue": "nobody"}, seconds=60.0)
    for key in ("runs", "waits", "expires"):
        with pytest.raises(JobCancelledError):
            await pooled.result(key)
    assert pooled.told("expires", "begin") == 0


# ── limits ───────────────────────────────────────────────────────────────────────────────────────────────────────────


async def test_at_most_two_of_a_mailbox_run_at_once_in_the_whole_fleet(pooled: Pool) -> None:
    await asyncio.gather(pooled.start(), pooled.start())
    keys = [
        await pooled.submit(pool.look_in, f"{box}{number}", mailbox=box, seconds=0.05)
        for number in range(12)
        for box in ("a", "b")
    ]
    for key in keys:
        await pooled.result(key)
    for box in ("a", "b"):
        running = most = 0
        for name, what, _ in pooled.lines():
            if name.startswith(f"{box}/"):
                running += 1 if what == "begin" else -1
                most = max(most, running)
        assert most == 2, box


async def test_a_rate_is_shared_by_the_fleet_and_pays_by_cost(pooled: Pool) -> None:
    await asyncio.gather(pooled.start(), pooled.start())
    keys = [await pooled.submit(pool.spend, f"k{number}", cost=1 + number % 3) for number in range(20)]
    for key in keys:
        await pooled.result(key)
    lines = [(int(what.removeprefix("spent-")), at) for _, what, at in pooled.lines()]
    for first in range(len(lines)):
        for last in range(first, len(lines)):
            spent = sum(cost for cost, _ in lines[first : last + 1])
            # What was granted at the beginning of a stretch may have begun late: a turn and a start later.
            assert spent <= 5 + 20 * (lines[last][1] - lines[first][1] + 0.5)


async def test_a_flood_of_one_tenant_and_of_the_first_priority_holds_nobody_up(pooled: Pool) -> None:
    for number in range(300):
        await pooled.submit(pool.look, f"flood{number}", options={"tenant": "loud", "priority": "critical"})
    await pooled.submit(pool.look, "quiet", options={"tenant": "quiet", "priority": "critical"})
    await pooled.submit(pool.look, "low", options={"tenant": "loud", "priority": Priority.BACKGROUND})
    await pooled.start(slots=1)
    await pooled.result("quiet")
    await pooled.result("low")
    order = [name for name, what, _ in pooled.lines() if what == "begin"]
    assert order.index("quiet") <= 2
    assert order.index("low") <= 40


async def test_a_tool_that_no_worker_knows_stays_ready_and_is_not_charged(pooled: Pool) -> None:
    await pooled.stage.start()
    await pooled.submit(pool.tell_what_is_left, "new")
    await pooled.stage.submit(chaos_look(), "old")
    assert await pooled.result("old") == "old"
    record = await pooled.stage.record("new")
    assert (record.state, record.attempts) == (State.READY, 0)
    await pooled.start()
    assert await pooled.result("new")


def chaos_look() -> AnyTool:
    """A tool that both apps have under one name would be no test: this one is the old app's only."""
    from chaos import tools  # noqa: PLC0415 - beside its use

    return tools.put


# ── retries ──────────────────────────────────────────────────────────────────────────────────────────────────────────


async def test_a_snooze_costs_no_attempt(pooled: Pool) -> None:
    await pooled.start()
    await pooled.submit(pool.wait_for_the_bank, "k", snoozes=6)
    assert await pooled.result("k") == 7
    record = await pooled.stage.record("k")
    assert (record.attempts, record.fails, pooled.stage.effects["k"]) == (1, 0, 1)


async def test_a_proved_refusal_runs_again_when_the_provider_said_and_dies_of_its_attempts(pooled: Pool) -> None:
    await pooled.start()
    for tool in (pool.be_declined, pool.be_told_when):
        await pooled.submit(tool, tool.name, after_s=0.3)
        with pytest.raises(JobDeadError):
            await pooled.result(tool.name)
        asked = [at for name, what, at in pooled.lines() if (name, what) == (tool.name, "asked")]
        assert len(asked) == 3
        assert all(later - earlier >= 0.3 for earlier, later in pairwise(asked))


async def test_an_error_that_is_declared_final_is_not_retried(pooled: Pool) -> None:
    await pooled.start()
    await pooled.submit(pool.fail_for_good, "k")
    with pytest.raises(JobFailedError):
        await pooled.result("k")
    assert pooled.told("k", "asked") == 1
