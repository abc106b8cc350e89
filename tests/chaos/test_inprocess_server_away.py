"""A ledger in process whose server is away, or whose messages are lost: it fails closed, and forgets nothing."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest
from chaos.inprocess_cast import LAPSED_S, QUICK
from chaos.stage import until

from kit.fixtures import StartServer
from kit.inprocess import Boom, Runs, World, async_tool, tool, world
from kit.proxy import FaultProxy
from mycelium import (
    BoundaryError,
    LedgerHardBlockError,
    ServerError,
    ServerUnavailableError,
)
from mycelium.actors.effect import side_effect
from mycelium.leases.session import SessionSettings
from mycelium.ledger.claim import claim_script
from mycelium.ledger.mark import mark_script
from mycelium.ledger.turn import turn_script

StartProxy = Callable[[str], Awaitable[FaultProxy]]
PATIENT = SessionSettings(ttl_s=10.0, renew_every_s=0.2, call_timeout_s=1.0, margin_s=1.0)
"""It outlives what the server is away for, and soon tells again what was not heard."""


@pytest.fixture
async def near(url: str, namespace: str, start_proxy: StartProxy) -> AsyncIterator[tuple[World, FaultProxy]]:
    """A world behind a proxy; its ledgers are closed before the proxy is."""
    proxy = await start_proxy(url)
    with world(url, namespace) as at:
        yield at, proxy
        await asyncio.to_thread(at.opened.close)


async def test_without_a_server_at_the_claim_nothing_runs_and_nothing_is_held_later(
    near: tuple[World, FaultProxy],
) -> None:
    (at, proxy), ran = near, Runs()
    kept = at.ledger(url=proxy.url, session=QUICK, patience_s=0.3)

    async def body(order: str) -> str:
        ran.note()
        return order

    act = async_tool(kept, body)
    await act("warm", request_id="r0")
    proxy.shut()
    with pytest.raises(ServerError) as away:
        await act("A", request_id="r1")
    assert isinstance(away.value.__cause__, Exception)
    await proxy.reopen()
    await asyncio.to_thread(at.idle)
    assert ran.count == 1
    assert await act("A", request_id="r1") == "A"
    assert ran.count == 2


async def test_the_first_call_without_a_server_keeps_the_cause(near: tuple[World, FaultProxy]) -> None:
    at, proxy = near
    proxy.shut()
    with pytest.raises(ServerUnavailableError) as refused:
        await async_tool(at.ledger(url=proxy.url), never)("A", request_id="r1")
    assert isinstance(refused.value.__cause__, Exception)
    await proxy.reopen()


async def never(order: str) -> str:
    raise AssertionError(order)


@pytest.mark.parametrize("fault", ["drop_close", "drop_hang", "blackhole", "cut_before"])
@pytest.mark.parametrize("script", ["claim", "mark", "settle"])
async def test_a_lost_request_or_reply_costs_no_second_effect(
    near: tuple[World, FaultProxy], script: str, fault: str
) -> None:
    (at, proxy), ran = near, Runs()

    async def body(order: str) -> str:
        async with side_effect():
            ran.note(order)
        return order

    act = async_tool(at.ledger(url=proxy.url, session=QUICK), body, explicit=True)
    await act("warm", request_id="r0")
    sha = {"claim": claim_script.sha, "mark": mark_script.sha, "settle": turn_script.sha}[script]
    arm = getattr(proxy, fault)(sha.encode())
    if fault in {"drop_hang", "blackhole"}:
        # The reply is missed after two seconds only, and the session is quicker: this world is slower than that.
        act = async_tool(at.ledger(url=proxy.url), body, explicit=True)
    assert await act("A", request_id="r1") == "A"
    assert arm.fired.is_set()
    await asyncio.to_thread(at.idle)
    assert (ran.given, at.state("r1")) == (["warm", "A"], "completed")
    assert at.row("r1")["attempts"] == "1"


async def test_a_mark_that_never_left_leaves_no_doubt(near: tuple[World, FaultProxy]) -> None:
    (at, proxy), ran = near, Runs()

    async def body(order: str) -> str:
        if order == "A":
            proxy.shut()
            await asyncio.sleep(0.05)  # until every connection is closed
        async with side_effect():
            ran.note(order)
        return order

    act = async_tool(at.ledger(url=proxy.url, session=PATIENT, patience_s=0.3), body, explicit=True)
    await act("warm", request_id="r0")
    with pytest.raises(BoundaryError):
        await act("A", request_id="r1")
    await proxy.reopen()
    await until(lambda: at.state("r1") == "ready")
    assert ran.given == ["warm"]


async def test_a_claim_whose_reply_never_comes_is_given_back(near: tuple[World, FaultProxy]) -> None:
    (at, proxy), ran = near, Runs()

    async def body(order: str) -> str:
        ran.note()
        return order

    act = async_tool(at.ledger(url=proxy.url, session=PATIENT, patience_s=0.3), body)
    await act("warm", request_id="r0")
    proxy.drop_hang(claim_script.sha.encode())
    with pytest.raises(ServerError):
        await act("A", request_id="r1")
    await asyncio.to_thread(at.idle)
    assert (ran.count, at.state("r1")) == (1, "ready")


@pytest.mark.parametrize("fails", [False, True])
@pytest.mark.parametrize("lost", [False, True])
async def test_an_end_that_could_not_be_recorded_is_recorded_when_the_server_is_back(
    near: tuple[World, FaultProxy], caplog: pytest.LogCaptureFixture, *, fails: bool, lost: bool
) -> None:
    """Also when the session was lost: what its holder saw is evidence. A tool's own error is never hidden."""
    (at, proxy), ran = near, Runs()

    async def body(order: str) -> str:
        if order == "A":
            ran.note()
            proxy.shut()
            if fails:
                raise Boom(order)
        return order

    act = async_tool(at.ledger(url=proxy.url, session=QUICK, patience_s=0.2), body)
    await act("warm", request_id="r0")
    with pytest.raises(Boom if fails else ServerError):
        await act("A", request_id="r1")
    assert ("could not be recorded yet" in caplog.text) is fails
    assert at.state("r1") == "attempting"
    if lost:
        await asyncio.sleep(LAPSED_S)
        # Somebody else finds it, and may not run it.
        with pytest.raises(LedgerHardBlockError):
            await async_tool(at.ledger(session=QUICK), body)("A", request_id="r1")
        assert at.state("r1") == "unknown"
        # That its session is lost is heard before the settlement gets through.
        for nth in range(1, 13):
            proxy.cut_before(turn_script.sha.encode(), nth=nth)
    await proxy.reopen()
    # Tasks of a body that raised may still send, so its end is not told as one.
    told = {"state": "unknown", "ended": "0"} if fails else {"state": "completed", "ended": "1"}
    await until(lambda: told.items() <= at.row("r1").items())
    assert at.row("r1")["boundary"] == ("maybe_crossed" if fails else "crossed")
    await asyncio.to_thread(at.idle)
    assert ran.count == 1


async def test_a_server_that_dies_and_comes_back_costs_no_second_effect(
    start_server: StartServer, namespace: str, tmp_path: Path
) -> None:
    server, ran = start_server(tmp_path / "data"), Runs()

    def body(order: str) -> str:
        ran.note(order)
        if order == "A":
            server.kill()
        return order

    with world(server.url, namespace) as at:
        act = tool(at.ledger(session=QUICK, patience_s=0.5), body)
        await asyncio.to_thread(act, "warm", request_id="r0")
        with pytest.raises(ServerError):
            await asyncio.to_thread(act, "A", request_id="r1")
        await server.restart_async()
        # It is told what it did not hear, and this process goes on under another session.
        await until(lambda: at.state("r1") == "completed")
        assert await asyncio.to_thread(act, "A", request_id="r1") == "A"
        assert await asyncio.to_thread(act, "B", request_id="r2") == "B"
    assert ran.given == ["warm", "A", "B"]
