"""One worker of several is stopped: whoever waits for a call that it had is told what became of it (case 35)."""

from __future__ import annotations

import asyncio
import signal

from chaos import tools
from chaos.stage import SESSION, TTL_S, Stage, until

from mycelium.leases.errors import JobUnknownError, OwnerLostError
from mycelium.ledger.states import State

SLOTS = 2
LONG_S = 2 * TTL_S
"""Of a session whose end takes two of them to be sure of: what a busy machine adds is small beside the third."""


async def test_each_waiting_call_returns_though_one_of_three_workers_is_stopped(stage: Stage) -> None:
    workers = [await stage.start(slots=SLOTS) for _ in range(3)]
    gate = stage.gate()
    keys = [await stage.submit(tools.look, f"look-{at}", gate=gate.path) for at in range(SLOTS)]
    keys += [await stage.submit(tools.charge, f"charge-{at}", gate=gate.path) for at in range(2 * SLOTS)]
    # Every slot of every worker is taken, and none can end.
    await until(lambda: len(stage.effects) == len(keys))
    waits = [asyncio.create_task(stage.client.job(key).result()) for key in keys]
    held = {key for key, record in (await stage.records()).items() if record.session == workers[0].session}
    assert len(held) == SLOTS
    workers[0].kill(signal.SIGSTOP)
    gate.open()
    told = dict(
        zip(keys, await asyncio.wait_for(asyncio.gather(*waits, return_exceptions=True), 3 * TTL_S), strict=True)
    )
    for key, said in told.items():
        lost_write = key in held and key.startswith("charge")
        assert isinstance(said, JobUnknownError) if lost_write else said == key
    assert {(await stage.record(key)).state for key in held} <= {State.UNKNOWN, State.COMPLETED}


async def test_a_waiting_call_returns_though_the_only_worker_is_stopped(stage: Stage) -> None:
    worker = await stage.start(session=SESSION | {"ttl_s": LONG_S})
    gate = stage.gate()
    key = await stage.submit(tools.charge, "charge", gate=gate.path)
    await until(lambda: len(stage.effects) == 1)
    waiting = asyncio.create_task(stage.client.job(key).result())
    worker.kill(signal.SIGSTOP)
    said = await asyncio.wait_for(asyncio.gather(waiting, return_exceptions=True), 3 * LONG_S)
    assert isinstance(said[0], OwnerLostError)
    # Nothing was written to it: when the worker goes on, the job ends as it would have ended.
    gate.open()
    worker.kill(signal.SIGCONT)
    await stage.ended(10)
    assert (await stage.check())[key].state in {State.COMPLETED, State.UNKNOWN}
