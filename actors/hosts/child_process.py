"""The child process of a tool host, as its owner handles it: ended with all that it started, its status collected."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from collections.abc import Callable
from typing import Protocol

from .deathwatch import DeathWatch


class Child(Protocol):
    """Whatever runs the tools at the other end of a host's socket."""

    @property
    def pid(self) -> int:
        """The process that they run in."""
        ...

    def kill(self) -> None:
        """End it with all that its tools started, now."""
        ...

    def collect(self) -> int:
        """After its death: its exit code, or minus the signal that ended it."""
        ...


class ChildProcess:
    """A process that leads a group of its own.

    Args:
        process: it runs, and nobody else collects its status.
        on_death: called one time, on the loop, when it has ended.
    """

    def __init__(self, process: subprocess.Popen[bytes], on_death: Callable[[], None]) -> None:
        self._process = process
        self._deaths = DeathWatch(process.pid, on_death)

    @property
    def pid(self) -> int:
        """The process id; also the id of its session and process group."""
        return self._process.pid

    def kill(self) -> None:
        """End its group. Only before `collect`: until then the id cannot belong to anybody else."""
        with contextlib.suppress(OSError):
            os.killpg(self._process.pid, signal.SIGKILL)

    def collect(self) -> int:
        """Wait for its exit code."""
        return self._process.wait()
