"""Errors outside every handler: of callbacks, of forgotten tasks, and who hears of failures at all."""

from __future__ import annotations

import asyncio
import gc
import logging
from collections.abc import Callable
from functools import partial

import pytest

from kit.actors import Boom, Crash, Diary, Hold, Message, Say, Worker, child, custom, running
from kit.clock import FakeClock, settle
from mycelium.actors.runtime import Actor, ActorSystem, Failed, Ref, StopReason, supervise
from mycelium.leases.errors import EscalationError

SECRET = "hunter2"


def fail(*_: object) -> None:
    raise Boom(SECRET)


async def fail_in_a_task() -> None:
    raise Boom(SECRET)


def forget(awaitable: asyncio.Future[None]) -> None:
    """Let go of something unasked."""
    del awaitable
    gc.collect()


def by_call_soon(loop: asyncio.AbstractEventLoop) -> None:
    loop.call_soon(fail, SECRET)


def by_call_later(loop: asyncio.AbstractEventLoop) -> None:
    loop.call_later(0, fail, SECRET)


def by_done_callback(loop: asyncio.AbstractEventLoop) -> None:
    done = loop.create_future()
    done.add_done_callback(fail)
    done.set_result(SECRET)


def by_forgotten_task(loop: asyncio.AbstractEventLoop) -> None:
    task = loop.create_task(fail_in_a_task())
    task.add_done_callback(lambda _: loop.call_soon(gc.collect))


def by_report(loop: asyncio.AbstractEventLoop) -> None:
    loop.call_exception_handler({"message": SECRET, "exception": Boom(SECRET)})


WAYS = [by_call_soon, by_call_later, by_done_callback, by_forgotten_task, by_report]


@pytest.mark.parametrize("stray", WAYS, ids=lambda way: way.__name__)
async def test_an_error_that_reaches_the_loop_ends_the_system_that_owns_it(
    stray: Callable[[asyncio.AbstractEventLoop], None], caplog: pytest.LogCaptureFixture
) -> None:
    diary = Diary()
    system = ActorSystem(supervise("top", [child(diary, "a"), child(diary, "b")]))
    runner = asyncio.ensure_future(system.run(owns_loop=True))
    await settle()
    stray(asyncio.get_running_loop())
    with pytest.raises(EscalationError, match="Boom") as caught:
        await asyncio.wait_for(runner, 5)
    assert isinstance(caught.value.__cause__, Boom)
    # Stopped in order, as by a signal.
    assert diary.lines == ["a started", "b started", "b stopping: shutdown", "a stopping: shutdown"]
    assert [record.levelno for record in caplog.records] == [logging.CRITICAL]
    assert SECRET not in caplog.text + str(caught.value)
    assert asyncio.get_running_loop().get_exception_handler() is None


async def test_an_error_that_its_user_hears_of_anyway_ends_nothing(caplog: pytest.LogCaptureFixture) -> None:
    diary, loop = Diary(), asyncio.get_running_loop()
    system = ActorSystem(supervise("top", [child(diary, "a")]))
    runner = asyncio.ensure_future(system.run(owns_loop=True))
    await settle()
    loop.call_exception_handler({"message": SECRET, "exception": Boom(SECRET), "transport": object()})
    unasked = loop.create_future()
    unasked.set_exception(Boom(SECRET))
    del unasked
    gc.collect()
    await settle()
    assert diary.lines == ["a started"]
    assert [record.levelno for record in caplog.records] == [logging.ERROR, logging.ERROR]
    assert SECRET not in caplog.text
    await system.stop()
    assert await runner is StopReason.SHUTDOWN


async def test_an_error_while_the_tree_starts_ends_it_too() -> None:
    class Slow(Worker):
        async def started(self) -> None:
            asyncio.get_running_loop().call_soon(fail)
            await asyncio.Event().wait()

    diary = Diary()
    system = ActorSystem(supervise("top", [child(diary, "a"), custom("b", lambda: Slow(diary, "b"))]))
    with pytest.raises(EscalationError, match="Boom"):
        await asyncio.wait_for(system.run(owns_loop=True), 5)
    assert not system.root.alive


async def test_a_system_that_shares_its_loop_leaves_errors_to_the_loop() -> None:
    heard: list[object] = []
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(lambda _, context: heard.append(context["exception"]))
    async with running(supervise("top", [child(Diary(), "a")]), FakeClock()) as system:
        loop.call_soon(fail)
        await settle()
        assert [type(error) for error in heard] == [Boom]
        assert system.root.alive


class Listener(Worker):
    """Gives out a callback; what was cut short in its hand it writes down."""

    async def receive(self, message: Message) -> object:
        if isinstance(message, Say):
            return self.guard(self.hear)
        return await super().receive(message)

    def hear(self, word: str) -> None:
        self.diary.write(word)
        if word == "wrong":
            raise Boom

    async def restarting(self, error: BaseException) -> None:
        self.diary.write(f"{type(error).__name__} with {type(self.in_hand).__name__} in hand")


async def test_an_error_in_a_guarded_callback_crashes_the_actor() -> None:
    clock, diary = FakeClock(), Diary()
    async with running(supervise("top", [custom("a", lambda: Listener(diary, "a"))]), clock) as system:
        hear = await system.find("/top/a").ask(Say("x"), timeout_s=1)
        assert callable(hear)
        hear("fine")
        asyncio.get_running_loop().call_soon(hear, "wrong")
        await clock.advance(1)
        assert diary.lines == ["a started", "fine", "wrong", "Boom with NoneType in hand", "a started"]
        hear("wrong")  # of a life that is over: it harms the next one in no way
        await clock.advance(1)
        assert diary.lives["a"] == 2


async def test_the_message_whose_handling_was_cut_short_is_known_to_the_last_hook() -> None:
    clock, diary = FakeClock(), Diary()
    async with running(supervise("top", [custom("a", lambda: Listener(diary, "a"))]), clock) as system:
        ref = system.find("/top/a")
        hear = await ref.ask(Say("x"), timeout_s=1)
        assert callable(hear)
        hold = Hold(asyncio.Event())
        ref.tell(hold)
        await hold.begun.wait()
        hear("wrong")
        await clock.advance(1)
        ref.tell(Crash())
        await clock.advance(1)
        said = [line for line in diary.lines if "hand" in line]
        assert said == ["Boom with Hold in hand", "Boom with Crash in hand"]


async def test_a_cancelled_answer_in_a_guarded_callback_is_a_crash_and_no_interrupt() -> None:
    class Asker(Worker):
        async def started(self) -> None:
            await super().started()
            if self.diary.lives["a"] == 1:
                answer: asyncio.Future[None] = asyncio.get_running_loop().create_future()
                answer.add_done_callback(self.guard(lambda told: told.result()))
                answer.cancel()

    clock, diary = FakeClock(), Diary()
    async with running(supervise("top", [custom("a", lambda: Asker(diary, "a"))]), clock) as system:
        await clock.advance(1)
        assert diary.lives["a"] == 2
        assert system.root.alive


class Witness(Actor[object]):
    """Writes down who failed, and who lives below it."""

    def __init__(self, diary: Diary) -> None:
        self.diary = diary

    async def started(self) -> None:
        self.watch_failures()

    async def receive(self, message: object) -> object:
        match message:
            case Failed(path, error):
                self.diary.write(f"{path} {error}")
            case str(path):
                return [ref.path for ref in self.below(path)]
            case _:
                return self.tree()
        return None


async def test_who_watches_failures_hears_of_each_in_the_system() -> None:
    clock, diary, seen = FakeClock(), Diary(), Diary()
    inner = supervise("inner", [child(diary, "a"), child(diary, "b")], max_restarts=1, within_s=5)
    witness: Callable[[], Actor[Message]] = partial(Witness, seen)  # type: ignore[assignment]
    async with running(supervise("top", [custom("w", witness), inner]), clock) as system:
        ref: Ref[object] = system.find("/top/w")
        assert await ref.ask("/top/inner", timeout_s=1) == ["/top/inner/a", "/top/inner/b"]
        assert await ref.ask("inner", timeout_s=1) == ["/top/inner/a", "/top/inner/b"]
        assert await ref.ask("/nobody", timeout_s=1) == []
        assert await ref.ask(1, timeout_s=1) == system.tree()
        for _ in range(2):
            system.find("/top/inner/a").tell(Crash())
        await clock.advance(1)
        assert seen.lines == ["/top/inner/a Boom", "/top/inner/a Boom", "/top/inner EscalationError"]
        await system.stop()
        assert len(seen.lines) == 3
