"""D7: whatever the server does, the program's event loop goes on turning. The server is stopped meanwhile."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from kit.inprocess import Ticks, World, async_tool
from kit.servers import RealServer
from mycelium import ActionLedger, Binding, BoundaryError, EffectClass
from mycelium.actors.effect import record_external_operation, side_effect

BINDING = Binding(effect_class=EffectClass.NON_IDEMPOTENT_MUTATE)
ALLOWED = {"allowed": True, "verdicts": [], "denied_reasons": []}


@asynccontextmanager
async def stopped(server: RealServer) -> AsyncGenerator[Ticks, None]:
    """The server takes no instruction while the block runs; the loop has to turn all the same."""
    os.kill(server.pid, signal.SIGSTOP)
    try:
        async with Ticks() as ticks:
            yield ticks
    finally:
        os.kill(server.pid, signal.SIGCONT)


async def turns_while(server: RealServer, work: Callable[[], Awaitable[Any]]) -> Any:  # noqa: ANN401
    """The loop turns while the work waits for a server that stands still; the work ends when the server goes on."""
    async with stopped(server) as ticks:
        task = asyncio.ensure_future(work())
        await ticks.more(3000)
        assert not task.done()
    return await task


async def echo(order: str) -> str:
    return order


async def test_d7_while_the_first_call_connects(alone: World, own_server: RealServer) -> None:
    act = async_tool(alone.ledger(), echo)
    assert await turns_while(own_server, lambda: act("A", request_id="r1")) == "A"
    # The verbs connect as well.
    kept = alone.ledger()
    entry = await turns_while(own_server, lambda: kept.claim_async("act", ("B",), {}, BINDING, request_id="r2"))
    assert entry.attempt == 1


async def test_d7_while_a_call_is_claimed_and_while_its_result_is_known(alone: World, own_server: RealServer) -> None:
    act = async_tool(alone.ledger(), echo)
    await act("warm", request_id="r0")
    assert await turns_while(own_server, lambda: act("A", request_id="r1")) == "A"
    assert await turns_while(own_server, lambda: act("A", request_id="r1")) == "A"


async def in_body(
    world: World, server: RealServer, part: Callable[[], Awaitable[object]], *, explicit: bool = False
) -> dict[str, str]:
    """Stop the server before one part of a body, and let the rest of the loop turn."""
    halted, turned = asyncio.Event(), asyncio.Event()

    async def body(order: str) -> str:
        halted.set()
        await turned.wait()
        await part()
        return order

    act = async_tool(world.ledger(), body, explicit=explicit)
    call = asyncio.create_task(act("A", request_id="r1"))
    await halted.wait()
    async with stopped(server) as ticks:
        turned.set()
        await ticks.more(3000)
        assert not call.done()
    assert await call == "A"
    return world.row("r1")


async def test_d7_while_a_mark_is_written(alone: World, own_server: RealServer) -> None:
    async def part() -> None:
        async with side_effect():
            pass

    row = await in_body(alone, own_server, part, explicit=True)
    assert ("attempting", "maybe_crossed") in alone.history("r1")
    assert row["boundary"] == "crossed"


@pytest.mark.parametrize("explicit", [False, True])
async def test_d7_while_a_reference_is_written(alone: World, own_server: RealServer, *, explicit: bool) -> None:
    async def part() -> None:
        await record_external_operation("ref-1")

    assert (await in_body(alone, own_server, part, explicit=explicit))["ref"] == "ref-1"


async def test_d7_while_the_end_is_recorded(alone: World, own_server: RealServer) -> None:
    assert (await in_body(alone, own_server, lambda: asyncio.sleep(0)))["state"] == "completed"


async def test_d7_while_the_verbs_write_and_read(alone: World, own_server: RealServer) -> None:
    kept: ActionLedger = alone.ledger()
    entry = await kept.claim_async("act", ("A",), {}, BINDING, request_id="r1")
    await turns_while(own_server, lambda: kept.record_decision_async(entry, ALLOWED))
    await turns_while(own_server, lambda: kept.complete_async(entry, "done"))
    record = await turns_while(own_server, lambda: kept.wait_for_transition_async("r1"))
    assert record.state == "completed"


async def test_a_reference_that_nobody_awaits_still_travels_with_the_settlement(here: World) -> None:
    async def body(order: str) -> str:
        record_external_operation("ref-1")
        return order

    assert await async_tool(here.ledger(), body, explicit=True)("A", request_id="r1") == "A"
    assert here.row("r1")["ref"] == "ref-1"


async def test_a_plain_block_in_an_async_body_is_refused_where_it_would_stop_the_loop(here: World) -> None:
    async def body(order: str) -> str:
        with side_effect():
            return order

    with pytest.raises(BoundaryError, match="async with"):
        await async_tool(here.ledger(), body, explicit=True)("A", request_id="r1")
    assert here.state("r1") == "failed"
    # Where the runtime wrote the mark, there is nothing to wait for.
    assert await async_tool(here.ledger(), body)("B", request_id="r2") == "B"
