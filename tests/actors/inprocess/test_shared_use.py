"""Threads, tasks, loops, calls inside calls, several ledgers, and a close in the middle of it all."""

from __future__ import annotations

import asyncio
import contextvars
import functools
import threading
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from kit.inprocess import Runs, Ticks, World, async_tool, together, tool
from kit.proxy import FaultProxy
from mycelium import ActionLedger, LedgerHardBlockError, MyceliumError, OutcomeUnrecordedError, ServerUnavailableError
from mycelium.actors.effect import side_effect
from mycelium.ledger.claim import claim_script


def echo(order: object) -> object:
    return order


def counting(runs: Runs) -> Callable[[object], object]:
    def body(order: object) -> object:
        runs.note()
        return order

    return body


# ── many at once ─────────────────────────────────────────────────────────────────────────────────────────────────────


def test_sixty_four_threads_run_one_effect_once_and_their_own_once_each(here: World) -> None:
    runs = Runs()

    def body(order: int) -> int:
        with side_effect():
            return runs.note(order) * 0 + order

    act = tool(here.ledger(), body, explicit=True)
    assert together([lambda: act(7, request_id="one")] * 64) == [7] * 64
    assert together([functools.partial(act, n, request_id=f"r{n}") for n in range(64)]) == list(range(64))
    assert sorted(runs.given) == sorted([7, *range(64)])
    here.idle()


async def test_five_hundred_tasks_run_one_effect_once_and_their_own_once_each(here: World) -> None:
    runs = Runs()

    async def body(order: int) -> int:
        async with side_effect():
            await asyncio.sleep(0)
            runs.note(order)
        return order

    act = async_tool(here.ledger(), body, explicit=True)
    one = [act(7, request_id="one") for _ in range(100)]
    own = [act(n, request_id=f"r{n}") for n in range(400)]
    assert await asyncio.gather(*one, *own) == [7] * 100 + list(range(400))
    assert sorted(runs.given) == sorted([7, *range(400)])
    here.idle()


async def test_the_first_calls_of_a_ledger_start_one_thread(here: World) -> None:
    kept = here.ledger()
    act, plain = async_tool(kept, echo_async), tool(kept, echo, name="plain")
    answers = await asyncio.gather(
        *[act(n, request_id=f"a{n}") for n in range(20)],
        *[asyncio.to_thread(plain, n, request_id=f"p{n}") for n in range(20)],
    )
    assert answers == [*range(20), *range(20)]
    assert len(here.direct.zrange(here.keys.sessions(), 0, -1)) == 1


async def echo_async(order: object) -> object:
    return order


async def test_calls_need_no_thread_of_the_loop_s_own(here: World) -> None:
    """All of the executor's threads may be waiting for calls of ours."""
    act, loop = async_tool(here.ledger(), echo_async), asyncio.get_running_loop()

    def call(n: int) -> object:
        return asyncio.run_coroutine_threadsafe(act(n, request_id=f"r{n}"), loop).result(20)

    assert await asyncio.gather(*[asyncio.to_thread(call, n) for n in range(64)]) == list(range(64))


# ── plain code on a running loop, and calls inside calls ─────────────────────────────────────────────────────────────


async def test_a_plain_tool_may_be_called_on_a_running_loop(here: World) -> None:
    act = tool(here.ledger(), echo)
    assert [act(n, request_id=f"r{n}") for n in range(3)] == [0, 1, 2]


async def test_tools_of_both_kinds_may_call_each_other_on_one_loop(here: World) -> None:
    kept = here.ledger()
    inner = tool(kept, echo, name="inner", explicit=True)

    def plain_body(order: str) -> object:
        with side_effect():
            return inner(order, request_id=f"inner-{order}")

    plain = tool(kept, plain_body, name="plain", explicit=True)

    async def body(order: str) -> object:
        answer = plain(order, request_id=f"plain-{order}")
        async with side_effect():
            return answer

    assert await async_tool(kept, body, explicit=True)("A", request_id="r1") == "A"
    # Each block marked the call that it stands in.
    marks = [("attempting", "maybe_crossed") in here.history(name) for name in ("r1", "plain-A", "inner-A")]
    assert marks == [True, True, False]


def test_a_plain_tool_may_run_a_loop_of_its_own(here: World) -> None:
    kept = here.ledger()
    inner = async_tool(kept, echo_async, name="inner")

    def body(order: str) -> object:
        async def main() -> object:
            async with side_effect():
                return await inner(order, request_id=f"inner-{order}")

        return asyncio.run(main())

    assert tool(kept, body, explicit=True)("A", request_id="r1") == "A"
    assert ("attempting", "maybe_crossed") in here.history("r1")


def test_a_call_from_inside_itself_is_refused_whatever_it_is_called(here: World) -> None:
    kept, runs = here.ledger(), Runs()
    inside: list[BaseException] = []

    def body(order: str) -> str:
        runs.note()
        for name in ({"request_id": "r1"}, {"request_id": "r2"}):
            context = contextvars.copy_context()
            # In a thread of its own as well, where it would wait for itself.
            (answer,) = together([functools.partial(context.run, act, order, dispatch_id="t1", **name)])
            inside.append(answer)
        return order

    act: Any = tool(kept, body)
    assert act("A", request_id="r1", dispatch_id="t1") == "A"
    assert [getattr(error, "why", error) for error in inside] == ["inside_itself"] * 2
    assert all(isinstance(error, LedgerHardBlockError) for error in inside)
    assert runs.count == 1


async def test_a_task_that_a_body_left_behind_is_no_part_of_it_any_more(here: World) -> None:
    kept, left, go = here.ledger(), list[asyncio.Task[object]](), asyncio.Event()

    async def later() -> object:
        await go.wait()
        return await act("A", request_id="r1")

    async def body(order: str) -> str:
        left.append(asyncio.create_task(later()))
        return order

    act: Any = async_tool(kept, body)
    assert await act("A", request_id="r1") == "A"
    go.set()
    assert await left[0] == "A"


def test_two_ledgers_in_one_process_keep_apart(here: World, url: str) -> None:
    with ActionLedger(url, namespace=f"{here.namespace}-2") as second:
        other = tool(second, echo)

        def body(order: str) -> object:
            return other(order, request_id="r1")

        assert tool(here.ledger(), body)("A", request_id="r1") == "A"
    assert here.state("r1") == "completed"


# ── close ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def holding(world: World) -> tuple[threading.Event, threading.Thread]:
    """Another process runs the call until the event is set."""
    began, go = threading.Event(), threading.Event()

    def body(order: str) -> str:
        began.set()
        assert go.wait(20)
        return order

    act = tool(world.ledger(), body)
    thread = threading.Thread(target=lambda: act("A", request_id="r1"))
    thread.start()
    assert began.wait(20)
    return go, thread


def watched(world: World, request_id: str) -> bool:
    return bool(world.row(request_id).get("waiters"))


async def test_a_close_answers_whoever_waits_for_another_holder(here: World) -> None:
    go, owner = await asyncio.to_thread(holding, here)
    kept, runs = here.ledger(), Runs()
    plain = asyncio.create_task(asyncio.to_thread(tool(kept, counting(runs)), "A", request_id="r1"))
    task = asyncio.create_task(async_tool(kept, echo_async)("A", request_id="r1"))
    verb = asyncio.create_task(kept.wait_for_transition_async("r1"))
    async with Ticks() as ticks:
        while not watched(here, "r1"):
            await ticks.more()
    await asyncio.to_thread(kept.close)
    answers = await asyncio.gather(plain, task, verb, return_exceptions=True)
    assert [type(answer) for answer in answers] == [ServerUnavailableError] * 3, answers
    here.idle(running={"r1"})
    go.set()
    await asyncio.to_thread(owner.join)
    assert (runs.count, here.state("r1")) == (0, "completed")


async def test_a_close_gives_back_what_was_just_granted(
    here: World, start_proxy: Callable[[str], Awaitable[FaultProxy]]
) -> None:
    proxy, runs = await start_proxy(here.url), Runs()
    kept = here.ledger(url=proxy.url)
    act = tool(kept, runs.note)
    await asyncio.to_thread(act, "warm", request_id="r0")
    arm = proxy.hold(claim_script.sha.encode())
    call = asyncio.create_task(asyncio.to_thread(act, "A", request_id="r1"))
    await arm.fired.wait()
    closing = asyncio.create_task(asyncio.to_thread(kept.close))
    with pytest.raises(ServerUnavailableError):
        await call
    arm.released.set()
    await closing
    assert (runs.count, here.state("r1"), here.held()) == (1, "ready", set())


def test_a_body_that_outlives_its_ledger_ends_with_an_error_and_as_its_boundary_says(here: World) -> None:
    began, go, runs = threading.Event(), threading.Event(), Runs()

    def body(order: str) -> str:
        began.set()
        assert go.wait(20)
        runs.note()
        return order

    kept = here.ledger()
    act, answers = tool(kept, body), list[object]()
    thread = threading.Thread(target=lambda: answers.extend(together([lambda: act("A", request_id="r1")])))
    thread.start()
    assert began.wait(20)
    kept.close()
    go.set()
    thread.join(20)
    assert isinstance(answers[0], (OutcomeUnrecordedError, ServerUnavailableError))
    # Nobody renews its session any more; when that has lapsed, the next one is told what it left.
    here.lapse(here.session_of("r1"))
    with pytest.raises(LedgerHardBlockError):
        tool(here.ledger(), counting(runs))("A", request_id="r1")
    assert (runs.count, here.state("r1")) == (1, "unknown")


def test_a_ledger_that_was_closed_opens_again_with_the_next_call(here: World) -> None:
    kept = here.ledger()
    act = tool(kept, echo)
    for at in range(3):
        assert act(at, request_id=f"r{at}") == at
        kept.close()
        kept.close()
    assert here.direct.zcard(here.keys.sessions()) == 0


def test_closing_and_calling_from_many_threads_gives_results_or_errors_of_ours_only(here: World) -> None:
    kept, runs = here.ledger(), Runs()
    act = tool(kept, runs.note)

    def call(n: int) -> list[object]:
        return [together([functools.partial(act, n, request_id=f"r{n}-{at}")])[0] for at in range(15)]

    def close() -> list[object]:
        for _ in range(10):
            kept.close()
        return []

    answers = [one for some in together([*[functools.partial(call, n) for n in range(8)], close]) for one in some]
    assert len(answers) == 120
    assert all(isinstance(answer, (int, MyceliumError)) for answer in answers), answers
