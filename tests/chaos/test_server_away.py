"""The server goes away, for shorter and for longer than a session lives; the worker goes on by itself."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest
from chaos import tools
from chaos.stage import TTL_S, Stage, Worker, plain, staged, until

from kit.proxy import FaultProxy
from kit.servers import RealServer
from mycelium.leases.session import open_session
from mycelium.ledger.states import State

Pair = tuple[Stage, Stage]


@pytest.fixture
async def pair(durable_server: RealServer, tmp_path: Path) -> AsyncIterator[Pair]:
    """An idle worker and a busy one, on one server."""
    async with (
        staged(durable_server.url, "idle", tmp_path / "idle") as idle,
        staged(durable_server.url, "busy", tmp_path / "busy") as busy,
    ):
        await asyncio.gather(idle.start(), busy.start())
        gate = busy.gate()
        for tool in (tools.look, tools.put, tools.charge, tools.charge_asked, tools.charge_marked):
            await busy.submit(tool, tool.name, gate=gate.path)
        await until(lambda: len(busy.effects) == 5)
        yield idle, busy


async def test_a_server_that_is_silent_for_less_than_the_ttl_costs_nothing(
    pair: Pair, durable_server: RealServer
) -> None:
    before = [stage.workers[0].session for stage in pair]
    os.kill(durable_server.pid, signal.SIGSTOP)
    pair[1].gates[0].open()
    await asyncio.sleep(TTL_S / 2)
    os.kill(durable_server.pid, signal.SIGCONT)
    await takes_jobs(pair)
    assert [stage.workers[0].session for stage in pair] == before
    assert {record.state for record in (await pair[1].check()).values()} == {State.COMPLETED}


@pytest.mark.parametrize("how", ["silent", "killed"])
async def test_a_server_that_is_away_for_longer_costs_a_session(
    pair: Pair, durable_server: RealServer, how: str
) -> None:
    if how == "silent":
        os.kill(durable_server.pid, signal.SIGSTOP)
    else:
        durable_server.kill()
    # A tool host that ends meanwhile is replaced without the server.
    idle = pair[0].workers[0]
    os.kill(idle.hosts[0], signal.SIGKILL)
    await asyncio.sleep(2 * TTL_S)
    assert idle.started == 2
    if how == "silent":
        os.kill(durable_server.pid, signal.SIGCONT)
    else:
        await durable_server.restart_async()
    pair[1].gates[0].open()
    await takes_jobs(pair)
    for stage in pair:
        await stage.check()
        assert stage.workers[0].log.count("opened in epoch") >= 2
    assert [stage.workers[0].started for stage in pair] == [2, 1], "no tool host pays for a server that is away"


async def test_a_session_that_cannot_be_opened_yet_is_opened_later(
    stage: Stage, url: str, start_proxy: Callable[[str], Awaitable[FaultProxy]]
) -> None:
    proxy = await start_proxy(url)
    worker = await stage.start(proxy.url)
    first = worker.session
    async with plain(url) as direct:
        # The session is declared dead, and no other can be opened for longer than one opening is tried.
        for nth in range(1, 200):
            proxy.cut_before(open_session.sha.encode(), nth=nth)
        await direct.hset(stage.client.store.keys.session(first), "dead", "1")
    await until(lambda: "no session yet" in worker.log, 4 * TTL_S)
    proxy._arms.clear()
    await until(lambda: worker.session != first)
    await stage.submit(tools.charge, "afterwards")
    await stage.ended(TTL_S)
    await stage.check()
    assert worker.started == 1


async def takes_jobs(pair: Pair) -> None:
    """The same processes, without anybody's help."""
    for stage in pair:
        await stage.submit(tools.charge, "afterwards")
    await asyncio.gather(*[stage.ended(3 * TTL_S) for stage in pair])
    for stage in pair:
        assert (await stage.record("afterwards")).state is State.COMPLETED
        assert alive(stage.workers[0])


def alive(worker: Worker) -> bool:
    return worker.process.poll() is None
