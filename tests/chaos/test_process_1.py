"""Case 101: a worker that is process 1, as in a container: it hears SIGTERM, and collects what it inherits."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path

import pytest
from chaos import tools
from chaos.stage import Stage, until, until_async

from mycelium.actors.worker.exits import WorkerExit
from mycelium.ledger.states import State

ALONE = ["unshare", *([] if os.geteuid() == 0 else ["-Ur"]), "--pid", "--fork", "--mount-proc", "--kill-child"]
"""Runs a command as process 1 of a space of its own."""


def refused() -> str:
    """Why the kernel, or the machine, has no such space for us; empty: it has."""
    if shutil.which("unshare") is None:
        return "there is no unshare"
    return subprocess.run([*ALONE, "true"], capture_output=True, text=True, check=False).stderr.strip()


pytestmark = pytest.mark.skipif(bool(refused()), reason=f"no process space of our own: {refused()}")


class First:
    """A worker as process 1, with the log that it writes."""

    def __init__(self, stage: Stage, command: list[str]) -> None:
        self.log_file = stage.place / "first.log"
        path = [str(Path(tools.__file__).parents[1]), *filter(None, [os.environ.get("PYTHONPATH")])]
        environment = os.environ | {"PYTHONPATH": os.pathsep.join(path)}
        with self.log_file.open("wb") as out:
            self.outside = subprocess.Popen([*ALONE, *command], stdout=out, stderr=out, env=environment)

    @property
    def log(self) -> str:
        return self.log_file.read_text(encoding="utf-8")

    @property
    def pid(self) -> int:
        """Of process 1, as it is seen from here."""
        return children(self.outside.pid)[0]

    @property
    def host(self) -> int:
        """The process id of its tool host."""
        lines = {pid: Path(f"/proc/{pid}/cmdline").read_text(encoding="utf-8") for pid in children(self.pid)}
        return next(pid for pid, line in lines.items() if "hosts.child" in line)

    def has_started(self, hosts: int) -> bool:
        return self.log.count("runs as process") >= hosts

    async def ready(self) -> First:
        await until(lambda: "runs as process" in self.log or self.outside.poll() is not None, 30)
        assert self.outside.poll() is None, self.log
        return self

    async def exited(self, within_s: float) -> int:
        await until(lambda: self.outside.poll() is not None, within_s)
        return self.outside.returncode


def children(pid: int, state: str = "") -> list[int]:
    """The children of a process, those in one state if it is named."""
    found: list[int] = []
    for place in Path("/proc").glob("[0-9]*"):
        try:
            fields = (place / "stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
        except OSError:
            continue
        if fields[1] == str(pid) and state in {"", fields[0]}:
            found.append(int(place.name))
    return found


def command(stage: Stage) -> list[str]:
    program = str(Path(sys.executable).with_name("mycelium-worker"))
    return [program, "chaos.tools", "--url", stage.url, "--namespace", stage.namespace, "--hosts", "1", "--ttl", "2"]


@pytest.fixture
async def first(stage: Stage) -> AsyncIterator[First]:
    made = First(stage, command(stage))
    try:
        yield await made.ready()
    finally:
        made.outside.kill()
        made.outside.wait()


async def test_process_1_drains_on_sigterm(stage: Stage, first: First) -> None:
    gate = stage.gate()
    running = await stage.submit(tools.charge, "running", gate=gate.path)
    await until(lambda: stage.effects[running])
    os.kill(first.pid, signal.SIGTERM)
    await until(lambda: "stopping" in first.log)
    gate.open()
    assert await first.exited(10) == WorkerExit.STOPPED, first.log
    assert (await stage.record(running)).state is State.COMPLETED


async def test_process_1_is_quiet_when_told(stage: Stage, first: First) -> None:
    os.kill(first.pid, signal.SIGTSTP)
    await until(lambda: "quiet: nothing new" in first.log)
    os.kill(first.pid, signal.SIGUSR2)
    key = await stage.submit(tools.charge, "later")
    await until_async(lambda: stage.in_state([key], State.COMPLETED))


async def test_process_1_collects_what_its_hosts_leave_behind(stage: Stage, first: First) -> None:
    del stage
    for died in range(1, 4):
        os.kill(first.host, signal.SIGKILL)
        await until(partial(first.has_started, 1 + died))
    # Each host had a guardian, which outlives it, and then is a child of process 1 that nobody there has started.
    await until(lambda: children(first.pid, "Z"))
    await until(lambda: not children(first.pid, "Z"), 30)


async def test_a_shell_that_becomes_the_worker_is_no_hindrance(stage: Stage) -> None:
    made = First(stage, ["sh", "-c", f"exec {' '.join(command(stage))}"])
    try:
        await made.ready()
        os.kill(made.pid, signal.SIGTERM)
        assert await made.exited(10) == WorkerExit.STOPPED, made.log
    finally:
        made.outside.kill()
        made.outside.wait()
