"""A process that starts an embedded server and then waits to be killed: what a worker with the default settings is."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from select import select
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from collections.abc import Generator

PLAIN = """
import sys
from pathlib import Path
from mycelium.leases.embedded import EmbeddedServer
server = EmbeddedServer.start(Path(sys.argv[1]) if sys.argv[1] else None)
print(server.url, server.pid, server.data_dir, flush=True)
sys.stdin.read()
"""
"""Starts the server of the directory named in its argument; ends, without stopping it, when its input ends."""

BY_PIPE = """
import sys, threading
from pathlib import Path
from mycelium.leases.server_binary import find_server_binary
from mycelium.leases.server_config import Durability, choose_url, config_text
from mycelium.leases.server_directory import ServerDirectory
from mycelium.leases.server_process import ServerProcess
directory = ServerDirectory.at(Path(sys.argv[1]))
lock = directory.lock_or_find(threading.Event(), join=False)
url = choose_url(directory.files.directory, None)
directory.write_config(config_text(directory.files, url, Durability.ALWAYS, {}))
process = ServerProcess(find_server_binary(), directory.files, lock.fd, watch_by_pipe=True)
process.wait_ready(url)
print(url, process.pid, directory.files.directory, flush=True)
sys.stdin.read()
"""
"""The same, with the server tied to its launcher as on systems without a parent-death signal."""


@dataclass(frozen=True, slots=True)
class Launched:
    """A launcher whose server takes commands."""

    launcher: subprocess.Popen[str]
    url: str
    server_pid: int
    data_dir: Path


@contextmanager
def launching(data_dir: Path | None, program: str = PLAIN) -> Generator[Launched]:
    """Run `program`; at the end its launcher is killed if it still runs."""
    command = [sys.executable, "-c", program, str(data_dir or "")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as launcher:
        assert launcher.stdout is not None
        try:
            url, pid, directory = launcher.stdout.readline().split()
            yield Launched(launcher, url, int(pid), Path(directory))
        finally:
            launcher.kill()


class ProcessEnd:
    """Waits for the end of a process that is not our child. Make it while the process lives."""

    def __init__(self, pid: int) -> None:
        self._fd = os.pidfd_open(pid)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._fd)

    def comes_within(self, wait_s: float) -> bool:
        """Whether it ends in that time."""
        return bool(select([self._fd], [], [], wait_s)[0])

    def force(self) -> None:
        """Do not leave it behind when the test has failed."""
        if not self.comes_within(0):
            signal.pidfd_send_signal(self._fd, signal.SIGKILL)
