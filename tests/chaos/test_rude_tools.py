"""Tools that block, hold the interpreter or eat memory: they harm what shares their host, and nothing else."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path

from chaos import tools
from chaos.stage import TTL_S, Stage, staged, until, until_async

from mycelium.ledger.states import TERMINAL, State

BLOCKED_S = int(3 * TTL_S)


async def test_rude_tools_cost_neither_a_session_nor_a_second_effect(url: str, namespace: str, tmp_path: Path) -> None:
    async with AsyncExitStack() as rest:

        async def stage(name: str) -> Stage:
            return await rest.enter_async_context(staged(url, f"{namespace}-{name}", tmp_path / name))

        blocking, holding, eating = [await stage(name) for name in ("blocks", "holds", "eats")]
        # Each waits for the same six seconds: at once, so that the test takes them one time.
        await asyncio.gather(
            rude(blocking, lambda: blocking.submit(tools.block_the_loop, "rude", seconds=BLOCKED_S), dies=False),
            rude(holding, lambda: holding.submit(tools.hold_the_gil, "rude", seconds=BLOCKED_S), dies=False),
            rude(eating, lambda: eating.submit(tools.eat_memory, "rude"), dies=True),
        )


async def rude(stage: Stage, submit: Callable[[], Awaitable[object]], *, dies: bool) -> None:
    worker = await stage.start(hosts=2, slots=16, host_memory_mb=256)
    session = worker.session
    gate = stage.gate()
    await asyncio.gather(*[stage.submit(tools.charge, f"beside-{n}", gate=gate.path) for n in range(6)])
    await until(lambda: len(stage.effects) == 6)
    await submit()
    await until(lambda: stage.effects["rude"])
    gate.open()
    later = await asyncio.gather(*[stage.submit(tools.charge, f"later-{n}") for n in range(8)])

    async def goes_on() -> bool:
        """The other host's share is done while the rude one is still at it, or dead."""
        records = await asyncio.gather(*map(stage.record, later))
        return sum(record.state is State.COMPLETED for record in records) >= 4

    await until_async(goes_on, BLOCKED_S - 1)
    if not dies:
        assert (await stage.record("rude")).state is State.ATTEMPTING
    await stage.ended(BLOCKED_S + 10)
    records = await stage.check()
    if dies:
        assert records["rude"].state is State.UNKNOWN
        assert records["rude"].error == "HostMemory"
        await until(lambda: worker.started == 3)
    else:
        assert {record.state for record in records.values()} == {State.COMPLETED}
        assert worker.started == 2
    assert {record.state for record in records.values()} <= {*TERMINAL, State.UNKNOWN}
    assert worker.session == session
    assert worker.log.count("opened in epoch") == 1
