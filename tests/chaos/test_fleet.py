"""Two workers, five hundred jobs of every kind, and kill -9 at random: the book, the records and the counts agree."""

from __future__ import annotations

import asyncio
import os
import signal
from contextlib import suppress
from random import Random

from chaos import tools
from chaos.stage import SEED, Stage, Worker, until, until_async

from mycelium.ledger.states import State

KINDS = (
    tools.look,
    tools.put,
    tools.charge,
    tools.charge_asked,
    tools.charge_marked,
    tools.charge_marked_asked,
    tools.refuse,
)
BATCHES = 25
BATCH = 20


async def test_five_hundred_jobs_under_random_kills(stage: Stage) -> None:
    random = Random(SEED)
    print(f"seed {SEED}")  # noqa: T201 - shown when it fails
    living = [await stage.start(hosts=2, slots=8) for _ in range(2)]
    for batch in range(BATCHES):
        keys = [f"job-{batch}-{number}" for number in range(BATCH)]
        await asyncio.gather(
            *[stage.submit(random.choice(KINDS), key, seconds=random.uniform(0.0, 0.3)) for key in keys]
        )
        await asyncio.sleep(random.uniform(0.0, 0.1))
        await strike(stage, living, random)
        if batch in {8, 16}:
            # Whatever chance has hit: two workers that had their session are killed for certain.
            await until(lambda: living[0].started >= 2 or living[0].process.poll() is not None)
            await stand_up(stage, living)
            living[0].kill(signal.SIGKILL)
            living[0] = await stage.start(hosts=2, slots=8)
        await asyncio.sleep(random.uniform(0.0, 0.3))
    await until(lambda: all(worker.started >= 2 or worker.process.poll() is not None for worker in living))
    await stand_up(stage, living)
    await stage.ended(40)
    records = await stage.check()
    assert len(records) == BATCHES * BATCH

    async def swept() -> bool:
        return (await stage.counters())["sessions_lost"] >= 2

    await until_async(swept)
    counters = await stage.counters()
    # Otherwise the kills met nothing, and the test would prove nothing.
    print(dict(counters), stage.effects.total())  # noqa: T201 - (the same)
    assert counters["host_deaths"] >= 5
    assert counters["sessions_lost"] >= 2
    assert counters["unknown"] >= 2
    for key, record in records.items():
        tool = stage.keys[key]
        if tool is tools.refuse:
            assert record.state in {State.FAILED, State.UNKNOWN, State.DEAD}, (key, record)
        elif tool.reconciler is not None:
            assert record.state in {State.COMPLETED, State.DEAD}, (key, record)


async def stand_up(stage: Stage, living: list[Worker]) -> None:
    """Start again what has ended: a worker does, when a host is killed before it ran for the first time."""
    for at, worker in enumerate(living):
        if worker.process.poll() is not None:
            living[at] = stage.spawn(hosts=2, slots=8)


async def strike(stage: Stage, living: list[Worker], random: Random) -> None:
    await stand_up(stage, living)
    at = random.randrange(len(living))
    if random.random() < 0.25:
        living[at].kill()
        await living[at].exited()
        living[at] = stage.spawn(hosts=2, slots=8)
    elif hosts := living[at].hosts:
        with suppress(ProcessLookupError):
            os.kill(random.choice(hosts), signal.SIGKILL)
