"""A process that has run enough is replaced between jobs: nothing is lost, and no slot is ever missing."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import msgspec
import pytest

from kit.host_stage import HostStage, attempt_of, hosts_on_stage
from kit.hosting import TESTS, gate_in
from kit.launching import ProcessEnd
from mycelium.actors.hosts.frames import Outcome
from mycelium.actors.worker.messages import CancelRun, Died, HostGone, HostReady, Ran, ToolsChanged
from mycelium.leases.errors import SettingsError

VERSION = """
from mycelium.actors.tool import tool

@tool(effect_class="read")
async def pid() -> int:
    import os
    return os.getpid()

@tool(effect_class="{effect_class}")
def changing() -> None: ...
"""


@pytest.fixture(autouse=True)
def _tools_are_found(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    path = [str(TESTS), str(tmp_path), *filter(None, [os.environ.get("PYTHONPATH")])]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(path))
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")


async def until_replaced(stage: HostStage, old: int) -> int:
    """Run jobs until one runs in another process."""
    while (new := await stage.pid_in()) == old:
        pass
    return new


async def test_a_process_that_has_run_enough_takes_nothing_new_and_ends_what_it_runs(
    url: str, namespace: str, tmp_path: Path
) -> None:
    gate = gate_in(tmp_path)
    async with hosts_on_stage(url, namespace, recycle_jobs=2) as stage:
        await stage.hear(HostReady)
        old = await stage.pid_in()
        held = stage.start(attempt_of("wait_in_thread", "1", args={"gate": str(gate)}))
        new = await until_replaced(stage, old)
        with ProcessEnd(old) as end:
            assert not end.comes_within(0.2)
            # It is still reached: by a cancel, say, which it can only heed at its end.
            stage.tell("host-1", CancelRun(held))
            gate.unlink()
            ran = await stage.hear(Ran)
            assert end.comes_within(10)
        assert (ran.attempt, ran.done.outcome) == (held, Outcome.COMPLETED)
        assert msgspec.json.decode(ran.done.body) == old != new
        # Neither a death nor a gap was told.
        assert (await stage.vitals("host-1")).running == 0
        assert stage.turns.empty()
        assert "crashed" not in (await stage.vitals("host-1")).ends


async def test_a_process_that_was_replaced_and_dies_takes_only_what_it_ran(url: str, namespace: str) -> None:
    async with hosts_on_stage(url, namespace, recycle_jobs=1) as stage:
        await stage.hear(HostReady)
        held = stage.start(attempt_of("hang_in_thread", "1"))
        old = await stage.pid_in()
        new = await until_replaced(stage, old)
        os.kill(old, signal.SIGKILL)
        assert (await stage.hear(Died)).attempt is held
        # The current process went on.
        del new
        assert stage.turns.empty()


async def test_what_a_replaced_process_still_runs_keeps_its_slot(url: str, namespace: str) -> None:
    async with hosts_on_stage(url, namespace, recycle_jobs=2) as stage:
        await stage.hear(HostReady)
        stage.start(attempt_of("hang_in_thread", "1"))
        old = await stage.pid_in()
        new = await until_replaced(stage, old)
        os.kill(new, signal.SIGKILL)
        await stage.hear(HostGone)
        assert (await stage.hear(HostReady)).slots == 2


async def test_a_limit_below_the_size_of_a_fresh_process_is_refused(url: str, namespace: str) -> None:
    big = "kit.isolated_tools,kit.big_tools"
    with pytest.raises(SettingsError, match="recycle_memory_mb is 64, and a host of"):
        async with hosts_on_stage(url, namespace, app=big, recycle_memory_mb=64):
            pass


async def test_a_process_that_has_grown_is_replaced(url: str, namespace: str) -> None:
    async with hosts_on_stage(url, namespace, app="kit.growing_tools", recycle_memory_mb=150) as stage:
        await stage.hear(HostReady)
        first = await stage.pid_in(tool="grow")
        assert await until_replaced(stage, first) != first
        assert stage.turns.empty()


async def test_new_code_that_a_replacement_has_loaded_is_told(url: str, namespace: str, tmp_path: Path) -> None:
    module = tmp_path / "versioned_tools.py"
    module.write_text(VERSION.format(effect_class="read"))
    async with hosts_on_stage(url, namespace, app="versioned_tools", recycle_jobs=1) as stage:
        await stage.hear(HostReady)
        module.write_text(VERSION.format(effect_class="irreversible"))
        stage.start(attempt_of("pid", "1"))
        await stage.hear(Ran)
        changed = await stage.hear(ToolsChanged)
    assert changed.tools["changing"].binding.effect_class == "irreversible"


async def test_a_process_is_kept_when_no_new_one_starts(url: str, namespace: str, tmp_path: Path) -> None:
    module = tmp_path / "versioned_tools.py"
    module.write_text(VERSION.format(effect_class="read"))
    async with hosts_on_stage(url, namespace, app="versioned_tools", recycle_jobs=1) as stage:
        await stage.hear(HostReady)
        module.write_text("no python")
        pids = {await stage.pid_in() for _ in range(5)}
        while (await stage.vitals("host-1")).starts != 1:
            pass
        assert len(pids | {await stage.pid_in()}) == 1
