"""One run of a server program: started, awaited until it takes commands, ended."""

from __future__ import annotations

import contextlib
import os
import queue
import subprocess
import sys
import threading
from concurrent.futures import Future
from pathlib import Path
from typing import TYPE_CHECKING

from .errors import ServerUnavailableError
from .server_probe import serves

if TYPE_CHECKING:
    from collections.abc import Callable

    from .server_binary import ServerBinary
    from .server_config import ServerFiles

HAS_PARENT_DEATH_SIGNAL = sys.platform == "linux"

_SHIM = Path(__file__).with_name("server_shim.py")
_FIRST_LOOK_S = 0.002
_LONGEST_LOOK_S = 0.1
_LOG_LINES = 8


class _Spawner:
    """A thread that starts every server and lives as long as this process.

    Linux sends the parent-death signal when the *thread* that started the child ends, not the process. A server started
    from a pool's thread, or from the thread of a loop that somebody closes, would die with that thread.
    """

    def __init__(self) -> None:
        self._work: queue.SimpleQueue[tuple[Callable[[], subprocess.Popen[bytes]], Future[subprocess.Popen[bytes]]]]
        self._work = queue.SimpleQueue()
        threading.Thread(target=self._run, name="mycelium-server-spawner", daemon=True).start()

    def spawn(self, start: Callable[[], subprocess.Popen[bytes]]) -> subprocess.Popen[bytes]:
        done: Future[subprocess.Popen[bytes]] = Future()
        self._work.put((start, done))
        return done.result()

    def _run(self) -> None:
        while True:
            start, done = self._work.get()
            try:
                done.set_result(start())
            except BaseException as error:  # noqa: BLE001 - the caller gets it; this thread must outlive it
                done.set_exception(error)
            # The handle must not stay alive in this frame until the next start.
            del start, done


_spawner: dict[int, _Spawner] = {}
_spawner_made = threading.Lock()


def _spawner_here() -> _Spawner:
    """The spawner of this process: a forked child has none of its parent's threads."""
    with _spawner_made:
        pid = os.getpid()
        if pid not in _spawner:
            _spawner.clear()
            _spawner[pid] = _Spawner()
        return _spawner[pid]


class ServerProcess:
    """A server that was started and has not been reaped.

    Args:
        binary: the program.
        files: its data directory; the configuration file is already there.
        lock_fd: the held lock, which the server inherits: it stays locked as long as either lives.
        watch_by_pipe: tie its life to ours by a pipe instead of the kernel's parent-death signal.
    """

    def __init__(
        self,
        binary: ServerBinary,
        files: ServerFiles,
        lock_fd: int,
        *,
        watch_by_pipe: bool = not HAS_PARENT_DEATH_SIGNAL,
    ) -> None:
        self._files = files
        self._log_from = files.log.stat().st_size if files.log.exists() else 0
        watch_fd, self._hold_fd = os.pipe() if watch_by_pipe else (-1, -1)
        try:
            self._popen = _spawner_here().spawn(lambda: self._spawn(binary, lock_fd, watch_fd))
        except BaseException:
            self._let_go()
            raise
        finally:
            if watch_fd >= 0:
                os.close(watch_fd)

    def _spawn(self, binary: ServerBinary, lock_fd: int, watch_fd: int) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-I", "-S", str(_SHIM), str(os.getpid()), str(watch_fd)]
        log_fd = os.open(self._files.log, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        with os.fdopen(log_fd, "ab") as log, self._files.config.open("rb") as config:
            return subprocess.Popen(
                [*command, str(binary.path)],
                # As input, not by name: the server takes a name with `*?[` in it for a pattern; when that matches no
                # file it starts with its defaults, which listen on every address.
                stdin=config,
                stdout=log,
                stderr=log,
                cwd=self._files.directory,
                close_fds=True,
                pass_fds=[fd for fd in (lock_fd, watch_fd) if fd >= 0],
                # Ctrl-C in a terminal goes to its process group: the workers must still find a server to settle with.
                start_new_session=True,
                umask=0o077,
            )

    @property
    def pid(self) -> int:
        """The server's process id (the shim becomes the server)."""
        return self._popen.pid

    @property
    def alive(self) -> bool:
        """Whether it still runs."""
        return self._popen.poll() is None

    def wait_ready(self, url: str, abandoned: threading.Event | None = None) -> None:
        """Wait until it takes commands, however long it loads; its end ends the wait.

        Raises:
            ServerUnavailableError: it ended, with the last lines of its log; or the wait was abandoned.
        """
        look_s = _FIRST_LOOK_S
        while not serves(url, self.pid):
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._popen.wait(look_s)
            if not self.alive:
                raise self._ended_early()
            if abandoned is not None and abandoned.is_set():
                message = "The start of the embedded server was abandoned."
                raise ServerUnavailableError(message, next_step="Start it again when it is wanted.")
            look_s = min(look_s * 1.5, _LONGEST_LOOK_S)

    def stop(self, grace_s: float) -> None:
        """SIGTERM, wait, then SIGKILL. Returns when it is reaped."""
        self._popen.terminate()
        try:
            self._popen.wait(grace_s)
        except subprocess.TimeoutExpired:
            self._popen.kill()
        self._popen.wait()
        self._let_go()

    def kill(self) -> None:
        """SIGKILL. Returns when it is reaped."""
        self._popen.kill()
        self._popen.wait()
        self._let_go()

    def _let_go(self) -> None:
        if self._hold_fd >= 0:
            os.close(self._hold_fd)
            self._hold_fd = -1

    def _ended_early(self) -> ServerUnavailableError:
        with self._files.log.open("rb") as log:
            log.seek(self._log_from)
            lines = log.read().decode(errors="replace").strip().splitlines()[-_LOG_LINES:]
        told = "\n".join(lines) or "(it said nothing)"
        return ServerUnavailableError(
            f"The embedded server ended with exit code {self._popen.returncode} before it took commands. "
            f"The last lines of {self._files.log}:\n{told}\n",
            next_step="Repair what the log names, then start again; the data directory was left as it was.",
        )
