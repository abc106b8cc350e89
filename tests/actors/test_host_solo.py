"""Hosts that run one attempt at a time, each with a process to itself."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path

import pytest
from chaos.stage import until

from kit.host_stage import HOSTS, HostStage, attempt_of, hosts_on_stage
from kit.hosting import TESTS, soon
from mycelium.actors.hosts.frames import Outcome
from mycelium.actors.worker.messages import CancelRun, Died, HostGone, HostReady, Ran, TellReady

BOTH = ("host-1", "solo-1")


@pytest.fixture(autouse=True)
def _tools_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(TESTS), *filter(None, [os.environ.get("PYTHONPATH")])]))


async def both_ready(stage: HostStage) -> None:
    shared, solo = await stage.hear(HostReady), await stage.hear(HostReady)
    assert (shared.host, shared.slots, shared.solo) == ("host-1", 3, False)
    assert (solo.host, solo.slots, solo.solo) == ("solo-1", 1, True)


@pytest.mark.parametrize("names", [BOTH, ("solo-1", "host-1")])
async def test_a_process_is_started_for_tools_that_want_one_whoever_starts_first(
    url: str, namespace: str, names: tuple[str, str]
) -> None:
    async with hosts_on_stage(url, namespace, names) as stage:
        await both_ready(stage)
        assert await stage.pid_in("solo-1", "pid_apart") != await stage.pid_in()
        # Questions go to hosts that nobody ends in the middle of an answer.
        stage.tell("solo-1", TellReady("/worker/reconciler"))
        stage.tell("host-1", TellReady("/worker/reconciler"))
        told = [await soon(stage.reconciler.get()) for _ in range(2)]
        assert [each.host for each in told if isinstance(each, HostReady)] == ["host-1", "host-1"]


async def test_without_such_tools_no_process_is_started(url: str, namespace: str) -> None:
    async with hosts_on_stage(url, namespace, BOTH, app="mycelium.examples.airline.tools") as stage:
        assert (await stage.hear(HostReady)).host == "host-1"
        assert ((await stage.vitals("solo-1")).starts, (await stage.vitals("solo-1")).running) == (0, None)
        assert stage.turns.empty()


@pytest.mark.parametrize("outcome", [Outcome.TIMEOUT, Outcome.CANCELLED])
async def test_the_end_of_its_process_is_told_as_a_timeout_or_a_cancel_that_is_over(
    url: str, namespace: str, outcome: Outcome, tmp_path: Path
) -> None:
    told = tmp_path / "told"
    async with hosts_on_stage(url, namespace, BOTH, overdue_s=600.0) as stage:
        await both_ready(stage)
        before = await stage.pid_in("solo-1", "pid_apart")
        timeout_s = 0.5 if outcome is Outcome.TIMEOUT else 60.0
        args = {"tell": str(told)}
        held = stage.start(attempt_of("hang_apart", "1", host="solo-1", timeout_s=timeout_s, args=args))
        if outcome is Outcome.CANCELLED:
            await until(told.exists)  # before it begins, it is told as never begun, and the process goes on
            stage.tell("solo-1", CancelRun(held))
        # The slot goes first, with the process; then it is told; then there is a new one.
        assert (await stage.hear(HostGone)).host == "solo-1"
        ran = await stage.hear(Ran)
        assert (ran.attempt, ran.done.outcome, ran.done.over, ran.done.fence) == (held, outcome, True, "1")
        with pytest.raises(ProcessLookupError):
            os.kill(before, 0)
        assert (await stage.hear(HostReady)).host == "solo-1"
        assert await stage.pid_in("solo-1", "pid_apart") != before


async def test_a_worker_without_such_processes_says_which_tools_it_leaves_to_others(
    url: str, namespace: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with hosts_on_stage(url, namespace, solo=0) as stage:
        await stage.hear(HostReady)
    assert [record for record in caplog.records if "pid_apart" in record.getMessage()]


async def test_a_new_life_of_the_actor_asks_again_whether_it_is_wanted(url: str, namespace: str) -> None:
    async with hosts_on_stage(url, namespace, BOTH) as stage:
        await both_ready(stage)
        for task in asyncio.all_tasks():
            if task.get_name() == f"{HOSTS}/solo-1":
                task.cancel()
        assert (await stage.hear(HostGone)).host == "solo-1"
        assert (await stage.hear(HostReady)).host == "solo-1"


async def test_a_process_that_dies_by_itself_is_a_death(url: str, namespace: str) -> None:
    async with hosts_on_stage(url, namespace, BOTH) as stage:
        await both_ready(stage)
        pid = await stage.pid_in("solo-1", "pid_apart")
        held = stage.start(attempt_of("hang_apart", "1", host="solo-1"))
        # Messages are taken in turn: the answer says that the run was sent.
        await stage.vitals("solo-1")
        os.kill(pid, signal.SIGKILL)
        await stage.hear(HostGone)
        died = await stage.hear(Died)
        assert (died.attempt, died.why) == (held, "HostCrashed")


async def test_a_shared_host_does_not_run_what_wants_a_process_to_itself(url: str, namespace: str) -> None:
    async with hosts_on_stage(url, namespace) as stage:
        await stage.hear(HostReady)
        stage.start(attempt_of("pid_apart", "1"))
        done = (await stage.hear(Ran)).done
    assert (done.outcome, done.error_class) == (Outcome.REFUSED, "mycelium.DeclaredAnew")
