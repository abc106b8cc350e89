"""The embedded server: a private Valkey or Redis that lives and dies with the process that started it.

`EmbeddedServer.start(directory)` starts one; `join_or_start` connects to the one that another process of this machine
has running on the same directory. Without a directory it keeps its data in memory and leaves nothing behind.

What it promises: one server per data directory (a lock that the server itself holds); no server outlives its launcher,
not even one that was killed; every write acknowledged at `Durability.ALWAYS` is there after a kill of the server or of
the launcher and a start on the same directory; it listens on a private unix socket, or on loopback, and nowhere else.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import threading
from typing import TYPE_CHECKING, Self, TypedDict, TypeVar, Unpack

from .errors import ServerUnavailableError, SettingsError
from .off_loop import off_loop
from .server_binary import ServerBinary, find_server_binary
from .server_config import Durability, choose_url, config_text, default_data_dir
from .server_directory import ServerDirectory
from .server_lock import DirectoryLock, Holder
from .server_process import ServerProcess

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path
    from types import TracebackType

__all__ = ["Durability", "EmbeddedServer", "StartOptions", "default_data_dir"]

STOP_GRACE_S = 10.0
_PORT_TRIES = 3


class StartOptions(TypedDict, total=False):
    """How a server is started.

    Keys:
        durability: what of an acknowledged write survives (default: always). Has no meaning without a data directory.
        port: None (default): a unix socket; 0: a free loopback port; else that loopback port.
        extra: more lines for its configuration file; they win over ours.
        binary: the server program (default: search for one).
    """

    durability: Durability
    port: int | None
    extra: Mapping[str, str]
    binary: ServerBinary | None


class EmbeddedServer:
    """A running server, and the right to end it; or, when it was joined, only its URL.

    Use it as a context manager (`with` or `async with`): leaving it stops a server that was started here and does
    nothing to one that was joined. Made by `start`, `join_or_start` and their `_async` twins, never directly.

    Attributes:
        url: `unix:///…/server.sock` or `redis://127.0.0.1:PORT`; the same for the life of this object.
        data_dir: where its files are.
        binary: the program; None when joined.
    """

    def __init__(self, directory: ServerDirectory, url: str, lock: DirectoryLock | None, joined_pid: int = 0) -> None:
        self.url = url
        self.data_dir = directory.files.directory
        self.binary: ServerBinary | None = None
        self._directory = directory
        self._lock = lock
        self._pid = joined_pid
        self._process: ServerProcess | None = None

    # ── starting ─────────────────────────────────────────────────────────────────────────────────────────────────────

    @classmethod
    def start(cls, data_dir: Path | None = None, **options: Unpack[StartOptions]) -> Self:
        """Start a server and return when it takes commands. Blocks, without limit, while a large AOF loads.

        Args:
            data_dir: where its data lives, made if missing; None: in memory only.
            **options: see `StartOptions`.

        Raises:
            ServerBinaryMissingError: no server program was found.
            SettingsError: another server has the directory, or the settings contradict each other.
            ServerUnavailableError: the server ended before it took commands; the text has the end of its log.
        """
        return cls._open(data_dir, options, threading.Event(), join=False)

    @classmethod
    def join_or_start(cls, data_dir: Path, **options: Unpack[StartOptions]) -> Self:
        """Connect to the server that has the directory, else start one there. Arguments and errors as in `start`.

        A joined server keeps its own settings, and ends with the process that started it.
        """
        return cls._open(data_dir, options, threading.Event(), join=True)

    @classmethod
    async def start_async(cls, data_dir: Path | None = None, **options: Unpack[StartOptions]) -> Self:
        """`start` without blocking the loop. Cancelled, it leaves no server behind."""
        return await _in_thread(lambda abandoned: cls._open(data_dir, options, abandoned, join=False))

    @classmethod
    async def join_or_start_async(cls, data_dir: Path, **options: Unpack[StartOptions]) -> Self:
        """`join_or_start` without blocking the loop. Cancelled, it leaves no server behind."""
        return await _in_thread(lambda abandoned: cls._open(data_dir, options, abandoned, join=True))

    @classmethod
    def _open(cls, data_dir: Path | None, options: StartOptions, abandoned: threading.Event, *, join: bool) -> Self:
        directory = ServerDirectory.temporary() if data_dir is None else ServerDirectory.at(data_dir)
        try:
            found = directory.lock_or_find(abandoned, join=join)
            if isinstance(found, DirectoryLock):
                return cls._start_locked(directory, found, options, abandoned)
        except BaseException:
            directory.leave()
            raise
        return cls(directory, found.url, None, found.server_pid)

    @classmethod
    def _start_locked(
        cls, directory: ServerDirectory, lock: DirectoryLock, options: StartOptions, abandoned: threading.Event
    ) -> Self:
        port = options.get("port")
        tries_left = _PORT_TRIES if port == 0 else 1
        try:
            while True:
                server = cls(directory, choose_url(directory.files.directory, port), lock)
                try:
                    server._first_launch(options, abandoned)
                except ServerUnavailableError:
                    # Between our look and the server's bind anybody may have taken a free port.
                    tries_left -= 1
                    if not tries_left or abandoned.is_set():
                        raise
                else:
                    return server
        except BaseException:
            lock.release()
            raise

    def _first_launch(self, options: StartOptions, abandoned: threading.Event) -> None:
        self.binary = options.get("binary") or find_server_binary()
        durability = options.get("durability", Durability.ALWAYS)
        durability = Durability.NONE if self._directory.is_temporary else durability
        if durability is Durability.NONE:
            self._directory.refuse_kept_data()
        self._directory.write_config(config_text(self._directory.files, self.url, durability, options.get("extra", {})))
        self._directory.write_url(self.url)
        self._launch(abandoned)

    def _launch(self, abandoned: threading.Event) -> None:
        assert self.binary is not None  # noqa: S101 - set before the first launch
        assert self._lock is not None  # noqa: S101 - only owners come here
        self._process = process = ServerProcess(self.binary, self._directory.files, self._lock.fd)
        self._pid = process.pid
        self._lock.name_holder(Holder(os.getpid(), process.pid))
        try:
            process.wait_ready(self.url, abandoned)
        except BaseException:
            process.kill()
            raise

    # ── standing ─────────────────────────────────────────────────────────────────────────────────────────────────────

    @property
    def owned(self) -> bool:
        """Whether it was started here and not stopped yet."""
        return self._lock is not None

    @property
    def pid(self) -> int:
        """Process id of the server (of the last one, after its end)."""
        return self._pid

    @property
    def alive(self) -> bool:
        """Whether the server process runs; for a joined one, whether it answers."""
        return self._process.alive if self._process else self._directory.is_served_by(self.url, self._pid)

    # ── ending ───────────────────────────────────────────────────────────────────────────────────────────────────────

    def stop(self, grace_s: float = STOP_GRACE_S) -> None:
        """SIGTERM, wait up to `grace_s`, then SIGKILL; frees the directory. No-op when joined or stopped already."""
        if self._lock is None:
            return
        lock, self._lock = self._lock, None
        try:
            if self._process:
                self._process.stop(grace_s)
        finally:
            self._directory.forget_address(self.url)
            lock.release()
            self._directory.leave()

    async def stop_async(self, grace_s: float = STOP_GRACE_S) -> None:
        """`stop` without blocking the loop."""
        await off_loop(lambda: self.stop(grace_s))

    def kill(self) -> None:
        """SIGKILL, for fault tests. The directory stays ours: `restart` or `stop` comes next.

        Raises:
            SettingsError: the server was joined, or stopped already.
        """
        self._owned_process().kill()

    def restart(self, grace_s: float = STOP_GRACE_S) -> None:
        """Stop it if it runs, and start it again on the same directory and URL. In memory mode the data is gone.

        Raises:
            SettingsError: the server was joined, or stopped already.
            ServerUnavailableError: the server ended before it took commands; the text has the end of its log.
        """
        self._owned_process().stop(grace_s)
        self._launch(threading.Event())

    async def restart_async(self, grace_s: float = STOP_GRACE_S) -> None:
        """`restart` without blocking the loop."""
        await asyncio.to_thread(self.restart, grace_s)

    def _owned_process(self) -> ServerProcess:
        if self._lock is None or self._process is None:
            message = f"The server at {self.url} is not ours to end: it was joined, or is stopped."
            raise SettingsError(message, next_step="End it through the object that started it, or start a new one.")
        return self._process

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop_async()


_ServerT = TypeVar("_ServerT", bound=EmbeddedServer)


async def _in_thread(opening: Callable[[threading.Event], _ServerT]) -> _ServerT:
    """Run a blocking start in a thread; when we are cancelled, give it up and stop what it may have started."""
    abandoned = threading.Event()
    task = asyncio.create_task(asyncio.to_thread(opening, abandoned))
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        abandoned.set()
        with contextlib.suppress(ServerUnavailableError, SettingsError):
            await (await task).stop_async()
        raise
