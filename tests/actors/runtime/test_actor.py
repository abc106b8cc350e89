"""One actor: messages, answers, ticks, background tasks and its end."""

from __future__ import annotations

import asyncio
import gc
from itertools import pairwise

import pytest

from kit.actors import Background, Boom, Crash, Diary, Finish, Hold, Message, Say, Worker, child, custom, running
from kit.clock import FakeClock, settle
from mycelium.actors.runtime import Actor, ActorState, ActorSystem, Refusal, Restart, StopReason, supervise
from mycelium.leases.errors import ActorStoppedError, AskTimeoutError, MailboxFullError, SettingsError


async def test_messages_are_handled_one_at_a_time_in_order() -> None:
    diary = Diary()
    async with running(supervise("top", [child(diary, "a")]), FakeClock()) as system:
        ref = system.find("/top/a")
        ref.tell(Say("one"))
        ref.tell(Say("two"))
        assert await ref.ask(Say("three"), timeout_s=1, reply_type=list) == ["one", "two", "three"]


async def test_an_answer_of_another_type_than_asked_for_is_an_error() -> None:
    async with running(supervise("top", [child(Diary(), "a")]), FakeClock()) as system:
        with pytest.raises(TypeError, match="list"):
            await system.find("/top/a").ask(Say("x"), timeout_s=1, reply_type=str)


async def test_tell_is_refused_by_a_full_mailbox_and_put_waits_for_room() -> None:
    async with running(supervise("top", [child(Diary(), "a", capacity=1)]), FakeClock()) as system:
        ref = system.find("/top/a")
        hold = Hold(asyncio.Event())
        ref.tell(hold)
        await hold.begun.wait()
        ref.tell(Say("fits"))
        with pytest.raises(MailboxFullError):
            ref.tell(Say("does not"))
        waiting = asyncio.ensure_future(ref.put(Say("waits")))
        await settle()
        assert not waiting.done()
        assert ref.depth == 1
        hold.until.set()
        await waiting
        assert await ref.ask(Say("last"), timeout_s=1) == ["fits", "waits", "last"]


async def test_an_ask_ends_at_its_deadline_and_the_message_is_handled_all_the_same() -> None:
    clock = FakeClock()
    async with running(supervise("top", [child(Diary(), "a")]), clock) as system:
        ref = system.find("/top/a")
        hold = Hold(asyncio.Event())
        ref.tell(hold)
        asked = asyncio.ensure_future(ref.ask(Say("late"), timeout_s=2.0))
        await clock.advance(1.9)
        assert not asked.done()
        await clock.advance(0.2)
        with pytest.raises(AskTimeoutError, match="/top/a"):
            await asked
        hold.until.set()
        assert await ref.ask(Say("next"), timeout_s=1) == ["late", "next"]


async def test_an_answered_ask_leaves_no_timer_behind() -> None:
    clock = FakeClock()
    async with running(supervise("top", [child(Diary(), "a")]), clock) as system:
        await system.find("/top/a").ask(Say("x"), timeout_s=1)
        assert clock.pending == 0


async def test_an_exception_of_the_handler_reaches_the_asker() -> None:
    async with running(supervise("top", [child(Diary(), "a")]), FakeClock()) as system:
        with pytest.raises(Boom):
            await system.find("/top/a").ask(Crash(), timeout_s=1)


async def test_a_refusal_reaches_the_asker_and_does_not_restart_the_actor() -> None:
    class Refuser(Worker):
        async def receive(self, message: Message) -> object:
            return Refusal(Boom("not this"))

    diary = Diary()
    async with running(supervise("top", [custom("a", lambda: Refuser(diary, "a"))]), FakeClock()) as system:
        with pytest.raises(Boom):
            await system.find("/top/a").ask(Say("x"), timeout_s=1)
        await settle()
        assert diary.lives == {"a": 1}


async def test_a_crash_loses_only_its_own_message() -> None:
    clock, diary = FakeClock(), Diary()
    async with running(supervise("top", [child(diary, "a")]), clock) as system:
        ref = system.find("/top/a")
        ref.tell(Say("before"))
        ref.tell(Crash())
        asked = asyncio.ensure_future(ref.ask(Say("after"), timeout_s=60))
        await clock.advance(1)
        # A fresh instance on the same mailbox, reached by the same Ref: what the first one had seen is gone with it.
        assert await asked == ["after"]
        assert diary.lines == ["a started", "a restarting: Boom", "a started"]
        assert system.find("/top/a") is ref


async def test_stop_answers_every_waiting_message_at_once() -> None:
    clock = FakeClock()
    async with running(supervise("top", [child(Diary(), "a")]), clock) as system:
        ref = system.find("/top/a")
        hold = Hold(asyncio.Event())
        in_hand = asyncio.ensure_future(ref.ask(hold, timeout_s=60))
        waiting = [asyncio.ensure_future(ref.ask(Say("x"), timeout_s=60)) for _ in range(3)]
        await hold.begun.wait()
        stopping = asyncio.ensure_future(system.stop())
        await settle()
        for asked in waiting:
            with pytest.raises(ActorStoppedError):
                await asked
        assert not in_hand.done()
        with pytest.raises(ActorStoppedError):
            ref.tell(Say("late"))
        hold.until.set()
        assert await in_hand is None
        await stopping
        assert not ref.alive


async def test_a_message_cut_off_by_a_hard_stop_is_answered_too() -> None:
    clock = FakeClock()
    async with running(supervise("top", [child(Diary(), "a", stop_within_s=2)]), clock) as system:
        hold = Hold(asyncio.Event())
        in_hand = asyncio.ensure_future(system.find("/top/a").ask(hold, timeout_s=60))
        await hold.begun.wait()
        stopping = asyncio.ensure_future(system.stop())
        await clock.advance(2.1)
        await stopping
        with pytest.raises(ActorStoppedError):
            await in_hand


async def test_a_watcher_is_told_once_even_if_its_mailbox_is_full() -> None:
    clock, diary = FakeClock(), Diary()
    specs = [child(diary, "watcher", capacity=1), child(diary, "a", Restart.TEMPORARY)]
    async with running(supervise("top", specs), clock) as system:
        watcher, watched = system.find("/top/watcher"), system.find("/top/a")
        watched.watch(watcher)
        hold = Hold(asyncio.Event())
        watcher.tell(hold)
        await hold.begun.wait()
        watcher.tell(Say("fills it"))
        watched.tell(Crash())
        news = await watched.stopped()
        assert (news.ref, news.reason, news.error) == (watched, StopReason.CRASHED, "Boom")
        hold.until.set()
        await settle()
        heard = "watcher heard that a ended: crashed Boom"
        assert diary.lines.count(heard) == 1
        watched.watch(watcher)  # who comes too late hears at once
        await settle()
        assert diary.lines.count(heard) == 2


async def test_a_restart_is_no_end_and_an_unwatched_end_is_not_told() -> None:
    clock, diary = FakeClock(), Diary()
    async with running(supervise("top", [child(diary, "watcher"), child(diary, "a")]), clock) as system:
        watcher, watched = system.find("/top/watcher"), system.find("/top/a")
        watched.watch(watcher)
        watched.tell(Crash())
        await clock.advance(1)
        assert diary.lives["a"] == 2
        watched.unwatch(watcher)
        await system.stop()
        assert not [line for line in diary.lines if "heard" in line]


async def test_a_crash_of_a_background_task_is_a_crash_of_the_actor() -> None:
    clock, diary = FakeClock(), Diary()
    async with running(supervise("top", [child(diary, "a")]), clock) as system:
        ref = system.find("/top/a")
        when = asyncio.Event()
        await ref.ask(Background(when), timeout_s=1)
        hold = Hold(asyncio.Event())
        in_hand = asyncio.ensure_future(ref.ask(hold, timeout_s=60))
        await hold.begun.wait()
        when.set()
        with pytest.raises(ActorStoppedError):
            await in_hand
        await clock.advance(1)
        assert diary.lines == ["a started", "a restarting: Boom", "a started"]


async def test_a_background_task_that_awaits_something_cancelled_is_a_crash_not_a_silent_end() -> None:
    clock, diary = FakeClock(), Diary()
    async with running(supervise("top", [child(diary, "a")]), clock) as system:
        when = asyncio.Event()
        await system.find("/top/a").ask(Background(when, asyncio.CancelledError()), timeout_s=1)
        when.set()
        await clock.advance(1)
        assert diary.lines == ["a started", "a restarting: CancelledError", "a started"]
        assert system.tree().children[0].last_error == "CancelledError"


async def test_a_background_task_that_its_actor_cancels_just_ends() -> None:
    class Changeable(Worker):
        async def receive(self, message: Message) -> object:
            task = self.spawn_task(asyncio.Event().wait())
            await asyncio.sleep(0)
            task.cancel()
            return await super().receive(message)

    clock, diary = FakeClock(), Diary()
    async with running(supervise("top", [custom("a", lambda: Changeable(diary, "a"))]), clock) as system:
        await system.find("/top/a").ask(Say("x"), timeout_s=1)
        await clock.advance(1)
        assert diary.lines == ["a started"]


async def test_background_tasks_are_held_and_end_with_the_actor() -> None:
    clock, diary = FakeClock(), Diary()
    async with running(supervise("top", [child(diary, "a")]), clock) as system:
        await system.find("/top/a").ask(Background(asyncio.Event()), timeout_s=1)
        gc.collect()
        await settle()
        assert any(task.get_name() == "/top/a:task" for task in asyncio.all_tasks())
        await system.stop()
        assert asyncio.all_tasks() == {asyncio.current_task()}


async def test_ticks_come_in_turn_and_end_with_their_life() -> None:
    class Ticker(Worker):
        async def started(self) -> None:
            await super().started()
            self.every(10.0, self.tick, jitter=0)

        async def tick(self) -> None:
            self.diary.write("tick")

    clock, diary = FakeClock(), Diary()
    async with running(supervise("top", [custom("a", lambda: Ticker(diary, "a"))]), clock) as system:
        ref = system.find("/top/a")
        await clock.advance(35)
        assert diary.lines.count("tick") == 3
        hold = Hold(asyncio.Event())
        ref.tell(hold)
        await clock.advance(100)
        assert diary.lines.count("tick") == 3
        hold.until.set()
        await settle()
        assert diary.lines.count("tick") == 4  # the missed ones do not pile up
        ref.tell(Crash())
        await clock.advance(1)
        diary.clear()
        await clock.advance(20)
        assert diary.lines == ["tick", "tick"]  # of the new life only
        await system.stop()
        assert clock.pending == 0


async def test_jitter_spreads_ticks_around_their_interval() -> None:
    class Ticker(Worker):
        async def started(self) -> None:
            self.every(10.0, self.tick, jitter=0.5)
            with pytest.raises(SettingsError):
                self.every(0.0, self.tick)

        async def tick(self) -> None:
            self.diary.write(f"{self.timer.monotonic():.3f}")

    clock, diary = FakeClock(0), Diary()
    async with running(supervise("top", [custom("a", lambda: Ticker(diary, "a"))]), clock):
        await clock.advance(1000)
    times = [float(line) for line in diary.lines if line[0].isdigit()]
    gaps = [after - before for before, after in pairwise(times)]
    assert all(5 <= gap <= 15.001 for gap in gaps)
    assert max(gaps) - min(gaps) > 5


async def test_awaiting_something_cancelled_is_a_crash_not_a_stop() -> None:
    clock, diary = FakeClock(), Diary()
    async with running(supervise("top", [child(diary, "a")]), clock) as system:
        with pytest.raises(ActorStoppedError):
            await system.find("/top/a").ask(Crash(asyncio.CancelledError()), timeout_s=1)
        await clock.advance(1)
        assert diary.lines == ["a started", "a restarting: CancelledError", "a started"]


async def test_a_handler_that_never_waits_does_not_keep_the_loop() -> None:
    class Selfish(Worker):
        async def receive(self, message: Message) -> object:
            self.ref.tell(message)
            return None

    async with running(supervise("top", [custom("a", lambda: Selfish(Diary(), "a"))]), FakeClock()) as system:
        system.find("/top/a").tell(Say("again"))
        await settle()  # would never return


async def test_actors_find_each_other_by_path_before_they_have_started() -> None:
    class Caller(Worker):
        async def started(self) -> None:
            self.find("b").tell(Say("from a"))
            assert self.find("/top/b") is self.find("b")
            with pytest.raises(ActorStoppedError):
                self.find("nobody")

    diary = Diary()
    specs = [custom("a", lambda: Caller(diary, "a")), child(diary, "b")]
    async with running(supervise("top", specs), FakeClock()) as system:
        assert await system.find("/top/b").ask(Say("x"), timeout_s=1) == ["from a", "x"]


async def test_the_runtime_is_refused_to_an_actor_that_does_not_run() -> None:
    stray = Worker(Diary(), "stray")
    with pytest.raises(ActorStoppedError, match="not running"):
        _ = stray.ref


async def test_an_actor_may_stop_itself() -> None:
    diary = Diary()
    async with running(supervise("top", [child(diary, "a", Restart.TRANSIENT)]), FakeClock()) as system:
        ref = system.find("/top/a")
        ref.tell(Finish())
        assert (await ref.stopped()).reason is StopReason.NORMAL
        assert diary.lines == ["a started", "a stopping: normal"]
        assert system.tree().children[0].state is ActorState.STOPPED


async def test_a_single_actor_can_be_the_root() -> None:
    class Once(Actor[Message]):
        async def receive(self, message: Message) -> object:
            self.stop()
            return "done"

    system = ActorSystem(custom("once", Once))
    await system.start()
    assert await system.root.ask(Say("x"), timeout_s=1) == "done"
    assert await system.run() is StopReason.NORMAL
