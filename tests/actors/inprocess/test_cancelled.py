"""A caller that is cancelled, once or twice, at any await of its call leaves a settled row that nobody holds."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Iterator

import pytest

from kit.inprocess import Runs, Ticks, World, async_tool, tool
from kit.proxy import FaultProxy
from mycelium import PredicateVerdict, register_decision_predicate
from mycelium.actors.effect import side_effect
from mycelium.ledger.claim import claim_script
from mycelium.ledger.decide import decide_script
from mycelium.ledger.mark import mark_script
from mycelium.ledger.turn import turn_script

StartProxy = Callable[[str], Awaitable[FaultProxy]]
SCRIPTS = {
    "claim": claim_script.sha,
    "decide": decide_script.sha,
    "mark": mark_script.sha,
    "settle": turn_script.sha,
}


@pytest.fixture(autouse=True)
def predicate() -> Iterator[None]:
    """So that there is a decision to wait for."""
    take_back = register_decision_predicate("allows", lambda _intent, _now: PredicateVerdict(allowed=True))
    yield
    take_back()


async def cancel(task: asyncio.Task[object], times: int) -> None:
    for _ in range(times):
        task.cancel()
        await asyncio.sleep(0)
    with pytest.raises(asyncio.CancelledError):
        await task


@pytest.mark.parametrize("times", [1, 2])
@pytest.mark.parametrize(
    "at,state", [("claim", "ready"), ("decide", "ready"), ("mark", "unknown"), ("settle", "completed")]
)
async def test_cancelled_while_the_store_has_not_answered(
    here: World, start_proxy: StartProxy, at: str, state: str, times: int
) -> None:
    proxy, runs = await start_proxy(here.url), Runs()

    async def body(order: str) -> str:
        async with side_effect():
            runs.note()
        return order

    kept = here.ledger(url=proxy.url)
    act = async_tool(kept, body, explicit=True)
    await act("warm", request_id="r0")
    arm = proxy.hold(SCRIPTS[at].encode())
    task = asyncio.create_task(act("A", request_id="r1"))
    await arm.fired.wait()
    await cancel(task, times)
    arm.released.set()
    await asyncio.to_thread(here.idle)
    await asyncio.to_thread(kept.close)
    assert here.state("r1") == state
    assert runs.count == (2 if at == "settle" else 1)
    if state == "ready":
        # Nothing was charged and nothing stands in the way of the next one.
        assert here.row("r1")["attempts"] == "0"
        assert await async_tool(here.ledger(), body, explicit=True)("A", request_id="r1") == "A"


@pytest.mark.parametrize("at", ["claim", "settle"])
async def test_cancelled_before_the_thread_that_speaks_to_the_store_has_heard_of_it(here: World, at: str) -> None:
    kept, runs, go = here.ledger(), Runs(), threading.Event()

    async def body(order: str) -> str:
        runs.note(order)
        if order == "A":
            busy()
        return order

    def busy() -> None:
        loop = kept.engine._portal.loop  # pyright: ignore[reportPrivateUsage]
        loop.call_soon_threadsafe(go.wait)

    act = async_tool(kept, body)
    await act("warm", request_id="r0")
    if at == "claim":
        busy()
    task = asyncio.create_task(act("A", request_id="r1"))
    async with Ticks() as ticks:
        while at == "settle" and runs.count < 2:
            await ticks.more(1)
        await ticks.more(2)
    await cancel(task, 1)
    go.set()
    await asyncio.to_thread(here.idle)
    # What would be done in vain is not done; what has to be said is said.
    if at == "claim":
        assert (runs.count, here.state("r1") in {"", "ready"}) == (1, True)
    else:
        assert (runs.count, here.state("r1")) == (2, "completed")


@pytest.mark.parametrize("times", [1, 2])
async def test_cancelled_in_its_body(here: World, times: int) -> None:
    began = asyncio.Event()

    async def body(order: str) -> str:
        began.set()
        await asyncio.Event().wait()
        return order

    task = asyncio.create_task(async_tool(here.ledger(), body)("A", request_id="r1"))
    await began.wait()
    await cancel(task, times)
    await asyncio.to_thread(here.idle)
    assert here.state("r1") == "unknown"


async def test_cancelled_while_it_waits_for_another_holder(here: World) -> None:
    began, go, runs = threading.Event(), threading.Event(), Runs()

    def body(order: str) -> str:
        began.set()
        assert go.wait(20)
        return order

    owner = asyncio.create_task(asyncio.to_thread(tool(here.ledger(), body), "A", request_id="r1"))
    await asyncio.to_thread(began.wait)

    async def second(order: str) -> str:
        runs.note()
        return order

    act = async_tool(here.ledger(), second)
    tasks = [asyncio.create_task(act("A", request_id="r1")) for _ in range(10)]
    for _ in range(200):
        await asyncio.sleep(0)
    for task in tasks:
        await cancel(task, 1)
    await asyncio.to_thread(lambda: here.idle(running={"r1"}))
    go.set()
    assert await owner == "A"
    assert runs.count == 0


async def test_cancelled_at_any_turn_of_its_loop(here: World) -> None:
    """From the first turn on to the one in which it is over."""
    runs, kept = Runs(), here.ledger()

    async def body(order: str) -> str:
        async with side_effect():
            runs.note(order)
            await asyncio.sleep(0)
        return order

    act = async_tool(kept, body, explicit=True)
    await act("warm", request_id="r0")
    turns = over = 0
    while over < 3:
        task = asyncio.create_task(act(f"o{turns}", request_id=f"r{turns + 1}"))
        for _ in range(turns):
            await asyncio.sleep(0)
        task.cancel()
        try:
            await task
            over += 1
        except asyncio.CancelledError:
            over = 0
        turns += 1 + turns // 20
    await asyncio.to_thread(here.idle)
    done = {here.state(key.decode().rpartition(":")[2]) for key in here.direct.keys(here.keys.row("r") + "*")}
    assert done <= {"ready", "unknown", "completed"}
    assert len(set(runs.given)) == runs.count
