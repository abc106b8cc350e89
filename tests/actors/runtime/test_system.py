"""A whole system: hard ends, fatal errors, cancellation, the tree, and a storm of random messages."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import logging
from random import Random

import pytest

from kit.actors import (
    QUICK,
    Background,
    Boom,
    Cling,
    Crash,
    Diary,
    Finish,
    Hold,
    Message,
    Say,
    Worker,
    child,
    custom,
    running,
)
from kit.clock import FakeClock, settle
from mycelium.actors.runtime import ActorState, ActorSystem, ChildSpec, Ref, Restart, StopReason, Strategy, supervise
from mycelium.leases.errors import (
    ActorError,
    ActorStoppedError,
    AskTimeoutError,
    EscalationError,
    MailboxFullError,
)


async def test_run_returns_when_the_system_has_been_stopped() -> None:
    diary = Diary()
    system = ActorSystem(supervise("top", [child(diary, "a")]), timer=FakeClock())
    runner = asyncio.ensure_future(system.run())
    await settle()
    await system.stop()
    assert await runner is StopReason.SHUTDOWN
    assert asyncio.all_tasks() == {asyncio.current_task()}
    with pytest.raises(ActorError):
        await system.start()


async def test_a_busy_child_gets_its_time_and_is_then_cancelled() -> None:
    clock, diary = FakeClock(), Diary()
    async with running(supervise("top", [child(diary, "a", stop_within_s=3)]), clock) as system:
        hold = Hold(asyncio.Event())
        system.find("/top/a").tell(hold)
        await hold.begun.wait()
        stopping = asyncio.ensure_future(system.stop())
        await clock.advance(2.9)
        assert not stopping.done()
        assert system.tree().children[0].state is ActorState.STOPPING
        await clock.advance(0.2)
        assert stopping.done()
        assert diary.lines[-1] == "a stopping: shutdown"


async def test_a_cancel_that_gets_lost_is_sent_again() -> None:
    class Deaf(Worker):
        async def receive(self, message: Message) -> object:
            for _ in range(2):
                try:
                    await self.timer.sleep(10**6)
                except asyncio.CancelledError:
                    self.diary.write("lost a cancel")
            await self.timer.sleep(10**6)
            return None

    clock, diary = FakeClock(), Diary()
    async with running(supervise("top", [custom("a", lambda: Deaf(diary, "a"))]), clock) as system:
        ref = system.find("/top/a")
        ref.tell(Say("x"))
        await settle()
        stopping = asyncio.ensure_future(system.stop())
        await clock.advance(6.1)
        assert stopping.done()
        assert (await ref.stopped()).reason is StopReason.SHUTDOWN
        assert diary.lines == ["a started", "lost a cancel", "lost a cancel", "a stopping: shutdown"]


async def test_a_child_that_does_not_end_is_left_behind_with_one_loud_line(caplog: pytest.LogCaptureFixture) -> None:
    clock, diary = FakeClock(), Diary()
    async with running(supervise("top", [child(diary, "first"), child(diary, "a")]), clock) as system:
        ref = system.find("/top/a")
        cling = Cling(asyncio.Event())
        in_hand = asyncio.ensure_future(ref.ask(cling, timeout_s=10**6))
        await cling.begun.wait()
        stopping = asyncio.ensure_future(system.stop())
        await clock.advance(7.1)
        assert stopping.done()
        assert (await ref.stopped()).reason is StopReason.DETACHED
        assert system.tree().children[1].state is ActorState.DETACHED
        assert "first stopping: shutdown" in diary.lines
        with pytest.raises(ActorStoppedError):
            await in_hand
        loud = [record for record in caplog.records if record.levelno == logging.CRITICAL]
        assert len(loud) == 1
        assert "/top/a" in loud[0].getMessage()
        cling.until.set()
        await settle()


async def test_an_actor_that_does_not_end_is_never_started_beside_itself() -> None:
    clock, diary = FakeClock(), Diary()
    inner = supervise("inner", [child(diary, "a"), child(diary, "b")], strategy=Strategy.ONE_FOR_ALL, backoff=QUICK)
    async with running(supervise("top", [inner]), clock) as system:
        cling = Cling(asyncio.Event())
        system.find("/top/inner/a").tell(cling)
        await cling.begun.wait()
        system.find("/top/inner/b").tell(Crash())
        await clock.advance(20)
        with pytest.raises(EscalationError):
            await system.run()
        assert diary.lives["a"] == 1
        cling.until.set()
        await settle()


@pytest.mark.parametrize("error", [KeyboardInterrupt(), SystemExit(3)])
@pytest.mark.parametrize("in_background", [False, True])
async def test_an_interrupt_in_an_actor_ends_the_whole_system_in_order(
    error: BaseException, *, in_background: bool
) -> None:
    clock, diary = FakeClock(), Diary()
    inner = supervise("inner", [child(diary, "b")])
    async with running(supervise("top", [child(diary, "a"), inner, child(diary, "c")]), clock) as system:
        ref = system.find("/top/inner/b")
        when = asyncio.Event()
        when.set()
        ref.tell(Background(when, error) if in_background else Crash(error))
        with pytest.raises(type(error)) as caught:
            await system.run()
        assert caught.value is error
        assert diary.lines[3:] == ["b stopping: fatal", "c stopping: fatal", "a stopping: fatal"]
        assert not ref.alive


async def test_an_interrupt_during_stop_is_not_lost() -> None:
    class Quitter(Worker):
        async def stopping(self, reason: StopReason) -> None:
            raise SystemExit(4)

    diary = Diary()
    system = ActorSystem(supervise("top", [child(diary, "a"), custom("q", lambda: Quitter(diary, "q"))]))
    await system.start()
    with pytest.raises(SystemExit):
        await system.stop()
    assert diary.lines[-1] == "a stopping: shutdown"


async def test_cancelling_run_stops_everything_in_order_and_stays_a_cancel() -> None:
    diary = Diary()
    system = ActorSystem(supervise("top", [child(diary, "a"), child(diary, "b")]), timer=FakeClock())
    runner = asyncio.ensure_future(system.run())
    await settle()
    runner.cancel()
    with pytest.raises(asyncio.CancelledError):
        await runner
    assert diary.lines[2:] == ["b stopping: cancelled", "a stopping: cancelled"]
    assert asyncio.all_tasks() == {asyncio.current_task()}


@pytest.mark.parametrize("again", [False, True])
async def test_stopping_does_not_wait_for_a_child_that_is_still_starting(*, again: bool) -> None:
    class Stuck(Worker):
        async def started(self) -> None:
            await super().started()
            if not again or self.diary.lives[self.name] > 1:
                await self.timer.sleep(10**6)

    clock, diary = FakeClock(), Diary()
    inner = supervise("inner", [child(diary, "a"), custom("stuck", lambda: Stuck(diary, "stuck"))])
    system = ActorSystem(supervise("top", [inner]), timer=clock)
    runner = asyncio.ensure_future(system.run())
    await settle()
    if again:
        system.find("/top/inner/stuck").tell(Crash())
        await clock.advance(1)
    assert not runner.done()
    runner.cancel()
    await settle()
    with pytest.raises(asyncio.CancelledError):
        await runner
    assert asyncio.all_tasks() == {asyncio.current_task()}
    assert clock.pending == 0


async def test_a_task_cancelled_from_outside_ends_in_order_and_is_restarted() -> None:
    clock, diary = FakeClock(), Diary()
    async with running(supervise("top", [child(diary, "a")]), clock) as system:
        (task,) = (task for task in asyncio.all_tasks() if task.get_name() == "/top/a")
        task.cancel()
        await clock.advance(1)
        assert task.cancelled()
        assert diary.lines == ["a started", "a stopping: cancelled", "a started"]
        assert await system.find("/top/a").ask(Say("x"), timeout_s=1) == ["x"]


async def test_a_cancel_that_a_handler_lost_ends_the_life_all_the_same() -> None:
    clock, diary = FakeClock(), Diary()
    async with running(supervise("top", [child(diary, "a")]), clock) as system:
        cling = Cling(asyncio.Event())
        system.find("/top/a").tell(cling)
        await cling.begun.wait()
        (task,) = (task for task in asyncio.all_tasks() if task.get_name() == "/top/a")
        task.cancel()
        await settle()
        cling.until.set()
        await clock.advance(1)
        assert task.cancelled()
        assert diary.lines == ["a started", "a stopping: cancelled", "a started"]


async def test_hooks_may_use_time_outs_after_a_hard_stop() -> None:
    class Careful(Worker):
        async def stopping(self, reason: StopReason) -> None:
            try:
                async with asyncio.timeout(0):
                    await asyncio.Event().wait()
            except TimeoutError:
                self.diary.write("timed out, not cancelled")

    clock, diary = FakeClock(), Diary()
    async with running(supervise("top", [custom("a", lambda: Careful(diary, "a"))]), clock) as system:
        hold = Hold(asyncio.Event())
        system.find("/top/a").tell(hold)
        await hold.begun.wait()
        stopping = asyncio.ensure_future(system.stop())
        await clock.advance(5)
        await stopping
        assert diary.lines == ["a started", "timed out, not cancelled"]


@pytest.mark.parametrize("error", [Boom(), KeyboardInterrupt()])
async def test_a_background_task_that_fails_while_its_actor_ends_is_not_lost(
    error: BaseException, caplog: pytest.LogCaptureFixture
) -> None:
    clock, diary = FakeClock(), Diary()
    system = ActorSystem(supervise("top", [child(diary, "a")]), timer=clock)
    await system.start()
    ref, when, hold = system.find("/top/a"), asyncio.Event(), Hold(asyncio.Event())
    await ref.ask(Background(when, error), timeout_s=1)
    ref.tell(hold)
    await hold.begun.wait()
    runner = asyncio.ensure_future(_outcome(system))
    await settle()
    when.set()
    await settle()
    hold.until.set()
    outcome = await runner
    assert outcome is (error if isinstance(error, KeyboardInterrupt) else None)
    assert diary.lines[-1].startswith("a stopping")
    assert caplog.records or outcome


async def _outcome(system: ActorSystem) -> BaseException | None:
    try:
        await system.stop()
    except KeyboardInterrupt as error:
        return error
    return None


async def test_a_background_task_that_will_not_end_is_cancelled_again_and_then_left_behind() -> None:
    class Owner(Worker):
        async def receive(self, message: Message) -> object:
            self.spawn_task(self._stay(message), name="stays")
            return None

        async def _stay(self, message: Message) -> None:
            assert isinstance(message, Cling)
            while not message.until.is_set():
                try:
                    await message.until.wait()
                except asyncio.CancelledError:
                    self.diary.write("task lost a cancel")

    clock, diary = FakeClock(), Diary()
    async with running(supervise("top", [custom("a", lambda: Owner(diary, "a"))]), clock) as system:
        ref = system.find("/top/a")
        cling = Cling(asyncio.Event())
        await ref.ask(cling, timeout_s=1)
        await settle()
        stopping = asyncio.ensure_future(system.stop())
        await clock.advance(8)
        assert stopping.done()
        assert (await ref.stopped()).reason is StopReason.DETACHED
        assert diary.lines.count("task lost a cancel") == 5
        cling.until.set()
        await settle()
        assert asyncio.all_tasks() == {asyncio.current_task()}


def test_asyncio_run_ends_cleanly_when_a_system_was_left_running() -> None:
    diary = Diary()

    async def main() -> None:
        await ActorSystem(supervise("top", [child(diary, "a"), child(diary, "b")])).start()

    asyncio.run(main())
    assert sorted(diary.lines[2:]) == ["a stopping: cancelled", "b stopping: cancelled"]


async def test_async_with_raises_the_failure_of_the_root() -> None:
    clock, diary = FakeClock(), Diary()
    root = supervise("top", [child(diary, "a")], max_restarts=0)

    async def block() -> None:
        async with ActorSystem(root, timer=clock) as system:
            system.find("/top/a").tell(Crash())
            await clock.advance(1)

    with pytest.raises(EscalationError):
        await block()


async def test_the_tree_tells_how_every_actor_stands() -> None:
    clock, diary = FakeClock(), Diary()
    root = supervise("top", [child(diary, "a", capacity=9), supervise("inner", [child(diary, "b")])])
    async with running(root, clock) as system:
        ref = system.find("/top/a")
        ref.tell(Crash())
        await clock.advance(1)
        hold = Hold(asyncio.Event())
        ref.tell(hold)
        await hold.begun.wait()
        ref.tell(Say("waits"))
        await clock.advance(2)
        tree = dataclasses.asdict(system.tree())
        assert 2.0 < tree["children"][0].pop("age_s") < 3.0  # of the life that runs, not of the first one
        assert tree["children"][0].pop("failed_s_ago") == 3.0
        assert tree["children"][0] == {
            "path": "/top/a",
            "state": "running",
            "depth": 1,
            "capacity": 9,
            "restarts": 1,
            "last_error": "Boom",
            "children": (),
        }
        assert tree["children"][1]["children"][0]["path"] == "/top/inner/b"
        assert json.loads(json.dumps(tree))["state"] == "running"
        hold.until.set()


@pytest.mark.parametrize("seed", range(30))
async def test_under_random_schedules_every_ask_is_answered_and_nothing_is_left(seed: int) -> None:
    rng, clock, diary = Random(seed), FakeClock(), Diary()

    def branch(name: str) -> list[str]:
        return [f"{name}{number}" for number in range(3)]

    def supervisor(name: str) -> ChildSpec:
        kinds = [
            rng.choice([Restart.PERMANENT, Restart.PERMANENT, Restart.TRANSIENT, Restart.TEMPORARY]) for _ in "123"
        ]
        specs = [child(diary, who, kind, capacity=5) for who, kind in zip(branch(name), kinds, strict=True)]
        return supervise(name, specs, strategy=rng.choice(list(Strategy)), max_restarts=8, within_s=10, backoff=QUICK)

    system = ActorSystem(
        supervise("top", [supervisor("x"), supervisor("y")], max_restarts=6, within_s=20),
        timer=clock,
        rng=Random(seed),
    )
    await system.start()
    refs: list[Ref[Message]] = [system.find(f"/top/{name}/{who}") for name in "xy" for who in branch(name)]
    asks: list[asyncio.Future[object]] = []
    open_event = asyncio.Event()
    messages: list[Message] = [Say("x"), Crash(), Finish(), Hold(open_event), Background(open_event), Cling(open_event)]
    for _ in range(300):
        ref = rng.choice(refs)
        (message,) = rng.choices(messages, [60, 6, 4, 6, 2, seed % 2])
        asks.append(asyncio.ensure_future(ref.ask(message, timeout_s=rng.choice([0.5, 30.0]))))
        match rng.randrange(12):
            case 0:
                await clock.advance(rng.random())
            case 1:
                asks[rng.randrange(len(asks))].cancel()
            case 2:
                ref.watch(rng.choice(refs))
            case 3:
                open_event.set()
                await settle()
                open_event.clear()
            case _:
                await asyncio.sleep(0)
    stopping = asyncio.ensure_future(system.stop())
    await clock.advance(200)
    assert stopping.done()
    open_event.set()
    await settle()
    outcomes = await asyncio.gather(*asks, return_exceptions=True)
    allowed = (ActorStoppedError, AskTimeoutError, MailboxFullError, Boom, asyncio.CancelledError)
    assert all(isinstance(outcome, allowed) for outcome in outcomes if isinstance(outcome, BaseException))
    assert not any(ref.alive for ref in refs)
    assert asyncio.all_tasks() == {asyncio.current_task()}
    assert clock.pending == 0
