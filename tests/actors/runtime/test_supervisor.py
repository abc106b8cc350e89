"""Supervisors: order, strategies, kinds of restart, intensity with escalation, back-off, children that come and go."""

from __future__ import annotations

import asyncio
import logging
from random import Random

import pytest

from kit.actors import QUICK, Boom, Crash, Diary, Finish, Say, Worker, child, custom, running
from kit.clock import FakeClock, settle
from mycelium.actors.runtime import (
    ActorState,
    ActorSystem,
    Backoff,
    ChildSpec,
    Restart,
    StopReason,
    Strategy,
    start_child,
    stop_child,
    supervise,
)
from mycelium.leases.errors import ActorError, ActorStoppedError, EscalationError, SettingsError

SLOW = Backoff(first_s=1.0, factor=1.0, most_s=1.0)


async def test_children_start_in_order_and_stop_in_reverse() -> None:
    diary = Diary()
    inner = supervise("inner", [child(diary, "b"), child(diary, "c")])
    async with running(supervise("top", [child(diary, "a"), inner, child(diary, "d")]), FakeClock()) as system:
        assert diary.lines == ["a started", "b started", "c started", "d started"]
        diary.clear()
        await system.stop()
        assert diary.lines == [f"{name} stopping: shutdown" for name in "dcba"]


@pytest.mark.parametrize(
    "strategy, taken_along",
    [
        (Strategy.ONE_FOR_ONE, []),
        (Strategy.ONE_FOR_ALL, ["a", "c"]),
        (Strategy.REST_FOR_ONE, ["c"]),
    ],
)
async def test_a_strategy_says_who_is_restarted_with_the_failed(strategy: Strategy, taken_along: list[str]) -> None:
    clock, diary = FakeClock(), Diary()
    specs = [child(diary, name) for name in "abc"]
    async with running(supervise("top", specs, strategy=strategy), clock) as system:
        refs = [system.find(f"/top/{name}") for name in "abc"]
        diary.clear()
        refs[1].tell(Crash())
        await clock.advance(1)
        stopped = [f"{name} stopping: restart" for name in reversed(taken_along)]
        started = [f"{name} started" for name in sorted([*taken_along, "b"])]
        assert diary.lines == ["b restarting: Boom", *stopped, *started]
        assert [system.find(f"/top/{name}") for name in "abc"] == refs
        assert [await ref.ask(Say("x"), timeout_s=1) for ref in refs] == [["x"]] * 3


async def test_a_failure_during_a_groups_back_off_widens_the_group_and_starts_nobody_twice() -> None:
    clock, diary = FakeClock(), Diary()
    specs = [child(diary, name, backoff=SLOW) for name in "abc"]
    root = supervise("top", specs, strategy=Strategy.REST_FOR_ONE)
    async with running(root, clock) as system:
        system.find("/top/c").tell(Crash())
        await settle()
        system.find("/top/a").tell(Crash())
        await clock.advance(1.1)
        assert diary.lines[-3:] == ["a started", "b started", "c started"]
        assert diary.lives == {"a": 2, "b": 2, "c": 2}


@pytest.mark.parametrize(
    "restart, message, lives",
    [
        (Restart.PERMANENT, Crash(), 2),
        (Restart.PERMANENT, Finish(), 2),
        (Restart.TRANSIENT, Crash(), 2),
        (Restart.TRANSIENT, Finish(), 1),
        (Restart.TEMPORARY, Crash(), 1),
        (Restart.TEMPORARY, Finish(), 1),
    ],
)
async def test_the_kind_of_restart_says_which_ends_are_followed_by_a_life(
    restart: Restart, message: Crash | Finish, lives: int
) -> None:
    clock, diary = FakeClock(), Diary()
    async with running(supervise("top", [child(diary, "a", restart)]), clock) as system:
        ref = system.find("/top/a")
        ref.tell(message)
        await clock.advance(1)
        assert diary.lives["a"] == lives
        assert ref.alive is (lives == 2)
        names = [snapshot.path for snapshot in system.tree().children]
        assert names == ([] if restart is Restart.TEMPORARY else ["/top/a"])


async def test_a_temporary_child_is_not_taken_into_a_groups_next_life() -> None:
    clock, diary = FakeClock(), Diary()
    specs = [child(diary, "a"), child(diary, "b", Restart.TEMPORARY)]
    async with running(supervise("top", specs, strategy=Strategy.ONE_FOR_ALL), clock) as system:
        temporary = system.find("/top/b")
        system.find("/top/a").tell(Crash())
        await clock.advance(1)
        assert diary.lives == {"a": 2, "b": 1}
        assert (await temporary.stopped()).reason is StopReason.RESTART


async def test_back_off_grows_with_crashes_in_a_row_and_is_reset_by_a_healthy_life() -> None:
    clock, diary = FakeClock(), Diary()
    backoff = Backoff(first_s=1.0, factor=2.0, most_s=4.0, reset_after_s=30.0)
    expected = Random(7)  # the seed of the system under test
    async with running(supervise("top", [child(diary, "a", backoff=backoff)], within_s=100), clock) as system:
        ref = system.find("/top/a")
        for crash, ceiling in enumerate([1.0, 2.0, 4.0], start=1):
            ref.tell(Crash())
            delay = expected.uniform(0, ceiling)
            await clock.advance(delay - 0.001)
            assert diary.lives["a"] == crash
            assert system.tree().children[0].state is ActorState.WAITING
            await clock.advance(0.002)
            assert diary.lives["a"] == crash + 1
        await clock.advance(100)
        ref.tell(Crash())
        await clock.advance(expected.uniform(0, 1.0) + 0.001)
        assert diary.lives["a"] == 5


async def test_messages_sent_during_back_off_wait_for_the_next_life() -> None:
    clock, diary = FakeClock(), Diary()
    async with running(supervise("top", [child(diary, "a", backoff=SLOW)]), clock) as system:
        ref = system.find("/top/a")
        ref.tell(Crash())
        await settle()
        ref.tell(Say("patient"))
        await clock.advance(1)
        assert await ref.ask(Say("x"), timeout_s=1) == ["patient", "x"]


async def test_a_storm_escalates_and_fails_a_root_that_has_nobody_above() -> None:
    clock, diary = FakeClock(), Diary()
    root = supervise("top", [child(diary, "a"), child(diary, "b")], max_restarts=2, within_s=5)
    async with running(root, clock) as system:
        ref = system.find("/top/a")
        for _ in range(3):
            ref.tell(Crash())
        await clock.advance(5)
        assert diary.lives == {"a": 3, "b": 1}
        with pytest.raises(EscalationError, match="/top/a") as caught:
            await system.run()
        assert isinstance(caught.value.__cause__, Boom)
        assert diary.lines[-1] == "b stopping: crashed"
        assert not ref.alive


async def test_restarts_that_are_far_apart_are_no_storm() -> None:
    clock, diary = FakeClock(), Diary()
    async with running(supervise("top", [child(diary, "a")], max_restarts=1, within_s=5), clock) as system:
        for _ in range(10):
            system.find("/top/a").tell(Crash())
            await clock.advance(6)
        assert diary.lives["a"] == 11


async def test_a_child_that_fails_too_slowly_for_a_storm_escalates_after_so_many_in_a_row() -> None:
    clock, diary = FakeClock(), Diary()
    root = supervise("top", [child(diary, "a"), child(diary, "b")], max_restarts=1, within_s=5, in_a_row=3)
    async with running(root, clock) as system:
        for _ in range(3):
            system.find("/top/a").tell(Crash())
            await clock.advance(20)
        assert diary.lives == {"a": 4, "b": 1}
        system.find("/top/a").tell(Crash())
        await clock.advance(20)
        with pytest.raises(EscalationError, match="/top/a has failed 4 times in a row"):
            await system.run()
        assert diary.lives == {"a": 4, "b": 1}


async def test_a_healthy_life_in_between_begins_the_count_anew() -> None:
    clock, diary = FakeClock(), Diary()
    async with running(supervise("top", [child(diary, "a")], max_restarts=1, within_s=5, in_a_row=1), clock) as system:
        for _ in range(5):
            system.find("/top/a").tell(Crash())
            await clock.advance(70)
        assert diary.lives["a"] == 6


async def test_one_that_fails_slowly_in_a_branch_brings_the_root_down_in_the_end() -> None:
    clock, diary = FakeClock(), Diary()
    inner = supervise("inner", [child(diary, "a")], max_restarts=1, within_s=5, in_a_row=2)
    async with running(supervise("top", [inner], max_restarts=1, within_s=5, in_a_row=2), clock) as system:
        for _ in range(5):
            system.find("/top/inner/a").tell(Crash())
            await clock.advance(50)
        with pytest.raises(EscalationError, match="/top/inner has failed 3 times"):
            await system.run()


async def test_escalation_restarts_the_branch_and_every_ref_in_it_lives_on() -> None:
    clock, diary = FakeClock(), Diary()
    inner = supervise("inner", [child(diary, "a"), child(diary, "b")], max_restarts=1, within_s=5, backoff=QUICK)
    async with running(supervise("top", [inner, child(diary, "c")]), clock) as system:
        a, b = system.find("/top/inner/a"), system.find("/top/inner/b")
        a.tell(Crash())
        a.tell(Crash())
        a.tell(Say("kept"))
        await clock.advance(2)
        assert diary.lives == {"a": 3, "b": 2, "c": 1}
        assert await a.ask(Say("x"), timeout_s=1) == ["kept", "x"]
        assert await b.ask(Say("y"), timeout_s=1) == ["y"]
        branch = system.tree().children[0]
        assert (branch.restarts, branch.last_error) == (1, "EscalationError")


async def test_escalation_goes_up_two_levels_to_the_root() -> None:
    clock, diary = FakeClock(), Diary()
    inner = supervise("inner", [child(diary, "a")], max_restarts=1, within_s=5, backoff=QUICK)
    async with running(supervise("top", [inner, child(diary, "c")], max_restarts=1, within_s=5), clock) as system:
        for _ in range(4):
            system.find("/top/inner/a").tell(Crash())
        await clock.advance(5)
        with pytest.raises(EscalationError, match="/top restarted"):
            await system.run()
        assert diary.lives == {"a": 4, "c": 1}


async def test_a_start_that_fails_the_first_time_fails_the_tree_with_its_own_error() -> None:
    diary = Diary()
    diary.fail_starts["b"] = 1
    inner = supervise("inner", [child(diary, "b")])
    system = ActorSystem(supervise("top", [child(diary, "a"), inner, child(diary, "c")]), timer=FakeClock())
    with pytest.raises(Boom):
        await system.start()
    assert diary.lines == ["a started", "a stopping: restart"]
    assert not system.root.alive


async def test_an_error_on_its_way_up_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    diary = Diary()
    diary.fail_starts["b"] = 1
    inner = supervise("inner", [child(diary, "b")])
    system = ActorSystem(supervise("top", [inner]), timer=FakeClock())
    with pytest.raises(Boom):
        await system.start()
    assert [record.args[0] for record in caplog.records if record.args] == ["/top/inner/b"]  # type: ignore[index]
    assert system.tree().last_error == "Boom"


async def test_a_factory_that_fails_is_a_start_that_fails() -> None:
    def broken() -> object:
        raise Boom

    system = ActorSystem(supervise("top", [ChildSpec("a", broken)]), timer=FakeClock())  # type: ignore[arg-type]
    with pytest.raises(Boom):
        await system.start()


async def test_a_restart_whose_start_fails_counts_as_one_more_crash() -> None:
    clock, diary = FakeClock(), Diary()
    async with running(supervise("top", [child(diary, "a")]), clock) as system:
        diary.fail_starts["a"] = 2
        system.find("/top/a").tell(Crash())
        await clock.advance(2)
        assert diary.lives["a"] == 4
        assert diary.lines == ["a started", "a restarting: Boom", "a started"]
        system.find("/top/a").tell(Crash())
        await clock.advance(2)
        with pytest.raises(EscalationError):
            await system.run()


async def test_a_group_whose_middle_fails_to_start_again_still_starts_its_rest() -> None:
    clock, diary = FakeClock(), Diary()
    specs = [child(diary, name) for name in "abc"]
    async with running(supervise("top", specs, strategy=Strategy.ONE_FOR_ALL), clock) as system:
        diary.fail_starts["b"] = 1
        system.find("/top/c").tell(Crash())
        await clock.advance(2)
        assert diary.lines[-3:] == ["a started", "b started", "c started"]
        assert diary.lives == {"a": 3, "b": 3, "c": 2}


async def test_children_come_and_go_at_run_time() -> None:
    clock, diary = FakeClock(), Diary()
    async with running(supervise("pool", []), clock) as system:
        ref = await start_child(system.root, child(diary, "a"), timeout_s=1)
        assert ref.path == "/pool/a"
        with pytest.raises(ActorError, match="'a'"):
            await start_child(system.root, child(diary, "a"), timeout_s=1)
        ref.tell(Crash())
        await clock.advance(1)
        assert diary.lives["a"] == 2
        assert (await stop_child(system.root, "a", timeout_s=1)).reason is StopReason.SHUTDOWN
        assert not ref.alive
        assert system.tree().children == ()
        with pytest.raises(ActorError, match="no child"):
            await stop_child(system.root, "a", timeout_s=1)
        assert (await start_child(system.root, child(diary, "a"), timeout_s=1)) is not ref


async def test_a_child_stopped_during_its_back_off_is_not_started_again() -> None:
    clock, diary = FakeClock(), Diary()
    async with running(supervise("top", [child(diary, "a", backoff=SLOW), child(diary, "b")]), clock) as system:
        system.find("/top/a").tell(Crash())
        await settle()
        await stop_child(system.root, "a", timeout_s=1)
        await clock.advance(5)
        assert diary.lives == {"a": 1, "b": 1}
        assert await system.find("/top/b").ask(Say("x"), timeout_s=1) == ["x"]


async def test_a_new_child_that_fails_to_start_is_refused_and_harms_nobody() -> None:
    diary = Diary()
    diary.fail_starts["new"] = 1
    async with running(supervise("pool", [child(diary, "old")]), FakeClock()) as system:
        with pytest.raises(Boom):
            await start_child(system.root, child(diary, "new"), timeout_s=1)
        with pytest.raises(ActorStoppedError):
            system.find("/pool/new")
        assert diary.lives == {"old": 1, "new": 1}
        assert system.tree().restarts == 0


async def test_children_added_at_run_time_are_lost_when_their_supervisor_fails() -> None:
    clock, diary = FakeClock(), Diary()
    inner = supervise("inner", [child(diary, "a")], max_restarts=0, backoff=QUICK)
    async with running(supervise("top", [inner]), clock) as system:
        pool = system.find("/top/inner")
        added = await start_child(pool, child(diary, "added"), timeout_s=1)
        system.find("/top/inner/a").tell(Crash())
        await clock.advance(1)
        assert not added.alive
        assert diary.lives == {"a": 2, "added": 1}


async def test_a_supervisor_refuses_messages_that_are_none_of_its() -> None:
    async with running(supervise("top", []), FakeClock()) as system:
        with pytest.raises(ActorError, match="does not take"):
            await system.root.ask("hello", timeout_s=1)


def test_specs_that_cannot_hold_are_refused() -> None:
    diary = Diary()
    with pytest.raises(SettingsError, match="one name"):
        supervise("top", [child(diary, "a"), child(diary, "a")])
    with pytest.raises(SettingsError, match="crash for ever"):
        supervise("top", [child(diary, "a", backoff=Backoff(first_s=10))])
    for name in ("", "a/b"):
        with pytest.raises(SettingsError):
            child(diary, name)
    with pytest.raises(SettingsError):
        child(diary, "a", capacity=0)


async def test_a_crash_is_logged_once_by_class_and_path_without_its_message(caplog: pytest.LogCaptureFixture) -> None:
    clock, diary = FakeClock(), Diary()
    async with running(supervise("top", [child(diary, "a")]), clock) as system:
        with caplog.at_level(logging.DEBUG, logger="mycelium"):
            system.find("/top/a").tell(Crash(Boom("card 4242")))
            await clock.advance(1)
    lines = [record.getMessage() for record in caplog.records]
    assert len(lines) == 1
    assert "/top/a" in lines[0]
    assert "Boom" in lines[0]
    assert "4242" not in caplog.text


async def test_a_start_has_a_deadline() -> None:
    class Stuck(Worker):
        async def started(self) -> None:
            await self.timer.sleep(10**6)

    clock, diary = FakeClock(), Diary()
    stuck = custom("stuck", lambda: Stuck(diary, "stuck"), start_within_s=3.0)
    system = ActorSystem(supervise("top", [child(diary, "a"), stuck]), timer=clock)
    starting = asyncio.ensure_future(system.start())
    await clock.advance(2.9)
    assert not starting.done()
    await clock.advance(0.2)
    with pytest.raises(ActorError, match="did not start within"):
        await starting
