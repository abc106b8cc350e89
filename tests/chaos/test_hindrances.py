"""Wake-ups that never come and scripts that are forgotten: jobs run all the same."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

from chaos import tools
from chaos.stage import plain, staged

from kit.fixtures import StartServer
from mycelium.ledger.states import State

JOBS = 300


@asynccontextmanager
async def for_ever(hinder: Callable[[], Awaitable[object]]) -> AsyncGenerator[None, None]:
    async def loop() -> None:
        while True:
            await hinder()
            await asyncio.sleep(0.005)

    task = asyncio.create_task(loop())
    try:
        yield
        assert not task.done()
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def test_jobs_run_without_any_wake_up(start_server: StartServer, namespace: str, tmp_path: Path) -> None:
    url = start_server().url
    async with (
        plain(url) as direct,
        staged(url, namespace, tmp_path / "stage") as stage,
        for_ever(partial(direct.client_kill_filter, _type="pubsub")),
    ):
        await stage.start()
        await asyncio.gather(*[stage.submit(tools.charge, f"job-{n}") for n in range(50)])
        await stage.ended(10)
        assert {record.state for record in (await stage.check()).values()} == {State.COMPLETED}


async def test_no_job_notices_that_scripts_are_forgotten(
    start_server: StartServer, namespace: str, tmp_path: Path
) -> None:
    url = start_server().url
    async with (
        plain(url) as direct,
        staged(url, namespace, tmp_path / "stage") as stage,
        for_ever(partial(direct.script_flush, "SYNC")),
    ):
        worker = await stage.start()
        kinds = (tools.look, tools.put, tools.charge, tools.charge_marked)
        await asyncio.gather(*[stage.submit(kinds[n % 4], f"job-{n}") for n in range(JOBS)])
        await stage.ended(20)
        records = await stage.check()
        assert {record.state for record in records.values()} == {State.COMPLETED}
        assert sum(stage.effects.values()) == JOBS
        assert "ERROR" not in worker.log
