"""Public failures about the end of a call that others see: cancels that were no stops, and waits that never ended."""

from __future__ import annotations

import asyncio
import signal
import time
from collections import Counter
from random import Random

from chaos import failure_tools as tools
from chaos.scale import TTL_S, scaled, start
from chaos.stage import SEED, Stage, until

from mycelium.actors.client import ClientSettings, connect
from mycelium.actors.job import Job
from mycelium.leases.errors import JobUnknownError, MyceliumError
from mycelium.ledger.cancel import CancelReply
from mycelium.ledger.states import State

JOBS = scaled(150, 1000)
AT_ONCE = 50
KINDS = (
    *(tools.charge, tools.charge_marked, tools.charge_at_once, tools.charge_slowly),
    *(tools.think_and_charge, tools.think_alone, tools.watch),
)
BODY_S = 0.1


async def test_34_what_is_called_cancelled_had_no_effect_wherever_the_cancel_met_it(stage: Stage) -> None:
    """Case 34: cancels at random moments, from before the claim to after the end; nothing overwrites a cancel."""
    random = Random(SEED)
    print(f"seed {SEED}")  # noqa: T201 - shown when it fails
    await asyncio.gather(*[start(stage, solo=1, slots=8) for _ in range(2)])
    replies: Counter[CancelReply] = Counter()
    room = asyncio.Semaphore(AT_ONCE)

    async def one(number: int) -> None:
        tool = random.choice(KINDS)
        told = {"gate": ""} if tool is tools.think_alone else {"seconds": random.uniform(0, BODY_S)}
        after_s = random.choice((0.0, random.uniform(0, BODY_S), random.uniform(0, 5 * BODY_S)))
        async with room:
            key = await stage.submit(tool, f"k{number}", **told)
            await asyncio.sleep(after_s)
            replies[(await stage.client.job(key).cancel()).word] += 1

    await asyncio.gather(*[one(number) for number in range(JOBS)])
    await stage.ended(20)
    records, effects = await stage.check(), stage.effects
    found = Counter(record.state for record in records.values())
    print(dict(found), dict(replies))  # noqa: T201 - (the same)
    for key, record in records.items():
        assert record.state in {State.CANCELLED, State.COMPLETED, State.UNKNOWN}, (key, record)
        assert record.attempts <= 1, (key, record)
        if record.state is State.CANCELLED and stage.keys[key] is not tools.watch:
            assert effects[key] == 0, (key, record)
        moves = [entry.what for entry in record.history if entry.what != "note"]
        assert State.CANCELLED not in moves[:-1], (key, record)
    # Otherwise the cancels met nothing, and the test would prove nothing.
    assert min(found[State.CANCELLED], found[State.COMPLETED], replies[CancelReply.ASKED]) >= JOBS // 20


async def test_35_one_frozen_worker_of_three_keeps_no_caller_waiting(stage: Stage) -> None:
    """Case 35: each wait ends within three TTLs: with a result, from elsewhere if need be, or with "unknown"."""
    fleet = await asyncio.gather(*[start(stage, slots=4) for _ in range(3)])
    gate = stage.gate()
    async with connect(stage.url, namespace=stage.namespace, settings=ClientSettings(poll_s=0.2)) as client:
        jobs = [client.job(await stage.submit(tools.charge, f"charge-{n}", gate=gate.path)) for n in range(6)]
        jobs += [client.job(await stage.submit(tools.watch, f"watch-{n}", seconds=TTL_S)) for n in range(6)]
        await until(lambda: stage.effects.total() >= len(jobs) / 2)
        holders = Counter([(await stage.record(job.request_id)).session for job in jobs])
        frozen = max(fleet, key=lambda worker: holders[worker.session])
        assert holders[frozen.session] >= 2
        frozen.kill(signal.SIGSTOP)
        begun_s = time.monotonic()
        waits = [asyncio.create_task(waited(job)) for job in jobs]
        # Those of the living are let go; those of the frozen one have to be told.
        gate.open()
        said = await asyncio.wait_for(asyncio.gather(*waits), 3 * TTL_S)
    print(f"{Counter(said)} after {time.monotonic() - begun_s:.2f} s at a TTL of {TTL_S:g} s")  # noqa: T201 - a figure
    for job, word in zip(jobs, said, strict=True):
        record = await stage.record(job.request_id)
        assert word == "result" or (record.effect_class == "non_idempotent_mutate" and word == "unknown"), record
    assert set(said) == {"result", "unknown"}


async def waited(job: Job) -> str:
    """How a wait ended."""
    try:
        await job.result(on_unknown="raise")
    except JobUnknownError:
        return "unknown"
    except MyceliumError as error:
        return type(error).__name__
    return "result"
