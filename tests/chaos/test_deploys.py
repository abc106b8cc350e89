"""Public failures of stops and deploys: a signal that cancelled everything at once, old workers that took new jobs."""

from __future__ import annotations

import asyncio
import signal
import time
from collections import Counter
from functools import partial
from itertools import count, product
from pathlib import Path
from random import Random
from typing import Self

from chaos import deploy_new, deploy_old
from chaos import failure_tools as tools
from chaos.failure_tools import told
from chaos.scale import BRISK, FULL, scaled, start
from chaos.stage import SEED, Stage, Worker, staged, until, until_async

from mycelium.actors.load import AnyTool
from mycelium.actors.worker.exits import WorkerExit
from mycelium.ledger.states import HELD, State

ROUNDS = scaled(4, 500)
LANES = scaled(2, 4)
"""So many pools are stopped beside each other."""
GRACE_S = 2.0 if FULL else 0.6
JOB_S = (0.1, 5.0) if FULL else (0.02, 0.8)
JOBS = 8
KINDS = (
    *(tools.charge, tools.charge_slowly, tools.charge_marked, tools.think_and_charge),
    *(tools.put, tools.watch),
)
SLACK_S = 3.0
"""For the end of hosts and for the last turn, on a machine that does other things: 0.2 s on a quiet one."""


async def test_100_a_stop_at_any_moment_settles_what_it_can_and_charges_nothing_else(
    url: str, namespace: str, tmp_path: Path
) -> None:
    """Case 100: the effects are exact, what was not dispatched is not charged, and no death is counted."""
    random = Random(SEED)
    print(f"seed {SEED}")  # noqa: T201 - shown when it fails

    async def lane(number: int) -> list[tuple[int, float]]:
        async with staged(url, f"{namespace}-{number}", tmp_path / f"lane-{number}") as stage:
            ends = [await stopped_at_random(stage, at, random) for at in range(ROUNDS // LANES)]
            await finish(stage)
            return ends

    ends = [end for ends in await asyncio.gather(*[lane(number) for number in range(LANES)]) for end in ends]
    print(Counter(code for code, _ in ends), f"slowest exit {max(s for _, s in ends):.2f} s, grace {GRACE_S} s")  # noqa: T201
    assert {code for code, _ in ends} <= {WorkerExit.STOPPED, WorkerExit.CUT_OFF}
    assert all(seconds <= GRACE_S + SLACK_S for _, seconds in ends), ends


async def stopped_at_random(stage: Stage, at: int, random: Random) -> tuple[int, float]:
    """One worker of a pool: its exit code, and the seconds that its end took."""
    worker = await start(stage, slots=6, grace_s=GRACE_S)
    keys = [f"r{at}-{number}" for number in range(JOBS)]
    for key in keys:
        await stage.submit(random.choice(KINDS), key, seconds=random.uniform(*JOB_S))
    await asyncio.sleep(random.uniform(0.0, JOB_S[1] / 2))
    worker.kill(signal.SIGTERM)
    begun_s = time.monotonic()
    code = await worker.exited(GRACE_S + 10)
    took_s = time.monotonic() - begun_s
    for key in keys:
        record = await stage.record(key)
        assert record.state not in HELD, (key, record)
        assert record.attempts <= 1, (key, record)
        if record.state in {State.READY, State.DELAYED}:
            # Given back, also what was cut off and may run again: a planned stop is neither an attempt nor a death.
            assert (record.attempts, record.deaths) == (0, 0), (key, record)
    return code, took_s


async def finish(stage: Stage) -> None:
    """Whatever was given back is done by the next worker, once."""
    await start(stage, hosts=2, slots=16)
    await stage.ended(60 if FULL else 15)
    records = await stage.check()
    assert {record.state for record in records.values()} <= {State.COMPLETED, State.UNKNOWN}
    for key, record in records.items():
        assert (record.attempts, record.deaths) == (1, 0), (key, record)
    assert (await stage.counters())["host_deaths"] == 0


async def test_100_113_what_a_stop_cuts_off_is_no_death(stage: Stage) -> None:
    """Cases 100, 113: what may run again is given back uncharged, so that no number of deploys uses it up."""
    worker = await start(stage, grace_s=0.2)
    gate = stage.gate()
    kinds = (tools.put, tools.charge)
    free, once = [await stage.submit(kind, kind.name, gate=gate.path) for kind in kinds]
    await until(lambda: stage.effects.total() == len(kinds))
    worker.kill(signal.SIGTERM)
    assert await worker.exited() == WorkerExit.CUT_OFF
    records = await stage.check()
    found = {key: (record.state, record.attempts, record.deaths) for key, record in records.items()}
    assert found == {free: (State.READY, 0, 0), once: (State.UNKNOWN, 1, 0)}
    counters = await stage.counters()
    assert (counters["host_deaths"], counters["sessions_lost"], counters["sessions_closed"]) == (0, 0, 1)
    gate.open()
    await start(stage)
    assert await stage.client.job(free).result(10) == free
    assert (await stage.check())[once].state is State.UNKNOWN


# ── a rolling deploy ─────────────────────────────────────────────────────────────────────────────────────────────────

POOL = 3
FLOW_S = 0.02


class Flow:
    """Jobs of both versions' callers, submitted as long as the block runs."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self._numbers = count()
        self._task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        self._task = asyncio.create_task(self._run())
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._task is not None
        assert not self._task.done(), "the callers went on to the end"
        self._task.cancel()

    async def _run(self) -> None:
        kinds: list[tuple[str, AnyTool]] = [
            ("bill-old", deploy_old.bill),
            ("bill-new", deploy_new.bill),
            ("refund", deploy_new.refund),
        ]
        for number in self._numbers:
            for name, tool in kinds:
                await self._stage.submit(tool, f"{name}-{number}")
            await asyncio.sleep(FLOW_S)

    def keys(self, name: str) -> list[str]:
        return [key for key in self._stage.keys if key.startswith(name)]


async def done(stage: Stage, flow: Flow, name: str, more: int) -> None:
    """Wait until so many more of a kind are completed than now."""

    async def completed() -> int:
        return sum([(await stage.record(key)).state is State.COMPLETED for key in flow.keys(name)])

    wanted = await completed() + more

    async def enough() -> bool:
        return await completed() >= wanted

    await until_async(enough)


async def test_103_a_rolling_deploy_loses_repeats_and_misroutes_nothing(stage: Stage) -> None:
    """Case 103: one by one, while jobs flow that only the new workers know, and that they have declared anew."""
    old = list(await asyncio.gather(*[stage.start(app="chaos.deploy_old") for _ in range(POOL)]))
    async with Flow(stage) as flow:
        await done(stage, flow, "bill-new", 10)
        early = flow.keys("refund")
        for record in [await stage.record(key) for key in early]:
            assert (record.state, record.attempts, len(record.history)) == (State.READY, 0, 1), record
        for worker in old:
            await stage.start(app="chaos.deploy_new")
            worker.kill(signal.SIGTERM)
            assert await worker.exited() == WorkerExit.STOPPED
            await done(stage, flow, "bill", 10)
    await stage.ended(20)
    records, effects = await stage.check(), stage.effects
    for key, record in records.items():
        assert (record.state, record.attempts, effects[key]) == (State.COMPLETED, 1, 1), (key, record)
    # Not even for a moment was a new kind of job in the hands of an old worker: each was claimed once.
    for key in flow.keys("refund"):
        claims = [entry for entry in records[key].history if entry.what == State.CLAIMED]
        assert len(claims) == 1, records[key]
    # Otherwise nothing was deployed while jobs flowed.
    by_old, by_new = told(stage.book, "old"), told(stage.book, "new")
    for name in ("bill-old", "bill-new"):
        assert any(key.startswith(name) for key in by_old), name
        assert any(key.startswith(name) for key in by_new), name


async def test_103_the_stricter_declaration_holds_whoever_runs_the_call(stage: Stage) -> None:
    """Case 103: workers of both versions die with calls of both; only what is declared lax on both sides runs again."""
    kinds = list(product((deploy_old, deploy_new), (deploy_old, deploy_new)))
    fleet = await asyncio.gather(*[stage.start(app=app.__name__, slots=1, session=BRISK) for app, _ in kinds])
    for worker in fleet:
        worker.kill(signal.SIGUSR1)
    for worker in fleet:
        await until(partial(said, worker, "quiet: nothing new"))
    for worker, (app, caller) in zip(fleet, kinds, strict=True):
        worker.kill(signal.SIGUSR2)
        key = await stage.submit(caller.bill, f"{app.__name__}:{caller.__name__}", seconds=60.0)
        await until(partial(begun, stage, key))
    for worker in fleet:
        worker.kill()
    await start(stage)
    await until_async(partial(stage.in_state, stage.keys, State.READY, State.UNKNOWN))
    free = {key for key, record in (await stage.check()).items() if record.state is State.READY}
    assert free == {f"{deploy_old.__name__}:{deploy_old.__name__}"}


def said(worker: Worker, words: str) -> bool:
    return words in worker.log


def begun(stage: Stage, key: str) -> bool:
    return key in told(stage.book, "old") | told(stage.book, "new")
