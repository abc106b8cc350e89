"""The control process's side of one tool host: starts it, talks to it, watches it, and notices its end at once."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol

from ...leases.errors import ActorStoppedError, BadCallError, SettingsError
from .deathwatch import DeathWatch
from .environment import host_environment
from .frames import (
    FRAME_LIMIT_BYTES,
    TO_CONTROL,
    Answer,
    Ask,
    Cancel,
    Done,
    Hello,
    Mark,
    MarkReply,
    Ping,
    Pong,
    Run,
    Stop,
    ToControl,
    ToHost,
    ToolFacts,
)
from .link import Link
from .watch import resident_bytes

log = logging.getLogger(__name__)

WATCH_EVERY_S = 0.5
MAX_RESULT_BYTES = FRAME_LIMIT_BYTES // 4
_STOP_MARGIN_S = 1.0


class ExitReason(StrEnum):
    """Why a host ended, as far as the control process knows."""

    CRASHED = "crashed"
    """By itself, or by somebody else's signal."""
    MEMORY = "memory"
    """Ended by us: above its memory limit."""
    OVERDUE = "overdue"
    """Ended by us: a run did not end within its timeout and the grace."""
    GARBLED = "garbled"
    """Ended by us: it sent something that is no frame."""
    KILLED = "killed"
    """Ended by us: `kill()`."""
    STOPPED = "stopped"
    """Ended by us: `stop()`."""


@dataclass(frozen=True, slots=True)
class HostExit:
    """The end of a host. Its process group is gone: nothing of it runs any more.

    Attributes:
        returncode: exit code, or minus the signal.
        signal: the signal that ended it, or None.
        why: who ended it.
        overdue: slots whose runs were past timeout and grace; for the others the host's end is an accident.
    """

    returncode: int
    signal: int | None
    why: ExitReason
    overdue: tuple[int, ...] = ()


class HostListener(Protocol):
    """Whoever owns a host. All calls come on the loop, in the order in which things happened."""

    def on_done(self, done: Done) -> None:
        """A run has ended; its slot is free."""

    def on_mark(self, mark: Mark) -> None:
        """A tool waits until `mark_reply` answers this mark."""

    def on_answer(self, answer: Answer) -> None:
        """A reconciler has answered an `Ask`."""

    def on_pong(self, pong: Pong) -> None:
        """The host's loop is alive."""

    def on_exit(self, reason: HostExit) -> None:
        """The host has ended. Called one time, after everything that it sent. Not called if `start` raised."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HostSettings:
    """How hosts are run.

    Attributes:
        memory_limit_mb: resident MiB above which a host is ended; None: no limit. Programs of its tools do not count.
        overrun_grace_s: seconds after a run's timeout at which its host is ended, if the run has not ended.
        start_within_s: seconds that a host has to import its tools.
        max_result_bytes: limit on one encoded result.
        env: variables given to the tools on purpose.
        store_url: URL of the store, only to keep it out of the host's environment.
        path: directories that the host imports from, besides the working directory.
    """

    memory_limit_mb: float | None = None
    overrun_grace_s: float = 5.0
    start_within_s: float = 30.0
    max_result_bytes: int = 1 << 20
    env: Mapping[str, str] = field(default_factory=dict[str, str])
    store_url: str | None = None
    path: Sequence[str] = ()


class HostProcess:
    """One tool host.

    Start it from a thread that outlives it: the host gets its parent-death signal when that thread ends.

    Args:
        tools_spec: what `load_tools` understands; imported by the host only.
        slots: how many runs it may have at a time.
        listener: told of everything that comes.
        settings: how it is run.

    Attributes:
        tools: facts of the host's tools by name, once it has started.
        lag_s: how late its loop was at worst, as its last pong told.
    """

    def __init__(
        self, tools_spec: str, slots: int, listener: HostListener, settings: HostSettings | None = None
    ) -> None:
        if slots < 1:
            raise SettingsError(f"A host cannot have {slots} slots.", next_step="Give it at least one.")
        self._settings = settings or HostSettings()
        if not 0 < self._settings.max_result_bytes <= MAX_RESULT_BYTES:
            what = f"max_result_bytes is {self._settings.max_result_bytes:,}."
            raise SettingsError(what, next_step=f"Choose 1 to {MAX_RESULT_BYTES:,}.")
        self._spec = tools_spec
        self._slots = slots
        self._listener = listener
        self.tools: dict[str, ToolFacts] = {}
        self.lag_s = 0.0
        self._due: dict[int, tuple[str, float]] = {}
        """Of each slot that is not free: the fence of its run, and when that is overdue."""
        self._strays = 0
        self._overdue: tuple[int, ...] = ()
        self._why = ExitReason.CRASHED
        self._exit: HostExit | None = None
        self._exited = asyncio.Event()
        self._started = False
        self._pings = 0
        self._pinged_at: float | None = None
        self._next_watch: asyncio.TimerHandle | None = None

    async def start(self) -> None:
        """Start the process and wait until its tools are imported.

        Raises:
            SettingsError: the tools cannot be loaded, or not in time. Nothing is left running.
        """
        self._loop = asyncio.get_running_loop()
        self._hello: asyncio.Future[Hello] = self._loop.create_future()
        ours, theirs = socket.socketpair()
        with theirs:
            self._process = self._spawn(ours, theirs)
        self._link: Link[ToControl] = Link(ours, TO_CONTROL, self._take, self._closed)
        self._deaths = DeathWatch(self._process.pid, self._died)
        try:
            hello = await asyncio.wait_for(asyncio.shield(self._hello), self._settings.start_within_s)
        except TimeoutError:
            await self._abandon()
            raise self._not_started(f"did not start within {self._settings.start_within_s:g} s") from None
        except BaseException:
            await self._abandon()
            raise
        if hello.problem:
            await self._abandon()
            raise self._not_started(f"cannot load its tools: {hello.problem.rstrip('.')}")
        self.tools = hello.tools
        self._started = True
        self._watch_later()

    @property
    def pid(self) -> int:
        """The process id; also the id of its session and process group."""
        return self._process.pid

    @property
    def exited(self) -> HostExit | None:
        """How it ended, or None while it lives."""
        return self._exit

    @property
    def running(self) -> int:
        """How many runs it has."""
        return len(self._due)

    def run(self, run: Run) -> None:
        """Send a run into a free slot; `on_done` will tell how it ended, or `on_exit`.

        Raises:
            ActorStoppedError: the host has ended; nothing was sent.
            BadCallError: the slot is not free.
            PayloadTooLargeError: the frame is above the limit; nothing was sent.
        """
        if run.slot in self._due:
            what = f"Slot {run.slot} of host {self.pid} is not free."
            raise BadCallError(what, next_step="Wait for its Done before you use it again.")
        self._send(run)
        self._due[run.slot] = run.fence, self._loop.time() + run.timeout_s + self._settings.overrun_grace_s

    def mark_reply(self, mark: Mark, *, ok: bool, why: str = "", begin_by_s: float = math.inf) -> None:
        """Answer a mark: `ok` only after it is written durably. A host that has ended needs no answer."""
        self._link.send(MarkReply(mark.slot, mark.n, ok, why, begin_by_s))

    def cancel(self, slot: int) -> None:
        """Cancel what runs in a slot, if anything does; its `Done` comes when it has ended."""
        self._link.send(Cancel(slot))

    def ask(self, ask: Ask) -> None:
        """Ask a tool's reconciler; `on_answer` will tell.

        Raises:
            ActorStoppedError: the host has ended; nothing was sent.
            PayloadTooLargeError: the frame is above the limit; nothing was sent.
        """
        self._send(ask)

    def kill(self, why: ExitReason = ExitReason.KILLED) -> None:
        """End the host and every program that its tools started, now. `on_exit` follows."""
        if self._exit is None:
            if self._why is ExitReason.CRASHED:
                self._why = why
            # Its exit status is not collected before `_died`, so the id cannot belong to anybody else.
            with contextlib.suppress(OSError):
                os.killpg(self._process.pid, signal.SIGKILL)

    async def stop(self, grace_s: float) -> HostExit:
        """Let its runs end for `grace_s` seconds, then end it."""
        if self._exit is None:
            self._why = ExitReason.STOPPED
            self._link.send(Stop(grace_s))
            try:
                await asyncio.wait_for(self._exited.wait(), grace_s + _STOP_MARGIN_S)
            except TimeoutError:
                self.kill()
        return await self.wait()

    async def wait(self) -> HostExit:
        """Wait for its end."""
        await self._exited.wait()
        if self._exit is None:
            raise AssertionError
        return self._exit

    # ── start and end ──

    def _spawn(self, ours: socket.socket, theirs: socket.socket) -> subprocess.Popen[bytes]:
        settings = self._settings
        arguments = [theirs.fileno(), os.getpid(), self._slots, settings.max_result_bytes, self._spec]
        try:
            return subprocess.Popen(
                [sys.executable, "-m", "mycelium.actors.hosts.child", *map(str, arguments)],
                stdin=subprocess.DEVNULL,
                stdout=2,  # what a tool prints must not get into the output of a command
                pass_fds=[theirs.fileno()],
                start_new_session=True,  # Ctrl-C goes to the control process only, and a kill takes the tools' programs
                env=host_environment(os.environ, settings.env, store_url=settings.store_url, path=settings.path),
            )
        except BaseException:
            ours.close()
            raise

    async def _abandon(self) -> None:
        self._hello.cancel()
        self.kill()
        await self.wait()

    def _not_started(self, fault: str) -> SettingsError:
        return SettingsError(f"The tool host for {self._spec!r} {fault}.", next_step="Nothing of it is left running.")

    def _died(self) -> None:
        # Programs that its tools started go with it; its id is still taken, because its status is not collected yet.
        with contextlib.suppress(OSError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._link.drain()
        self._link.close()
        code = self._process.wait()
        if self._next_watch is not None:
            self._next_watch.cancel()
        self._exit = HostExit(code, -code if code < 0 else None, self._why, self._overdue)
        self._due.clear()
        self._exited.set()
        if not self._hello.done():
            self._hello.set_exception(self._not_started(f"ended while it started (exit code {code})"))
        elif self._started:
            self._listener.on_exit(self._exit)

    def _closed(self, why: str) -> None:
        # Without its socket it can report nothing more. An ending process closes it as well: then its own end counts.
        self.kill(ExitReason.GARBLED if why.startswith("garbled") else ExitReason.CRASHED)

    # ── frames ──

    def _send(self, frame: ToHost) -> None:
        if self._exit is not None:
            what = f"The tool host {self._process.pid} has ended."
            raise ActorStoppedError(what, next_step="Nothing was sent. Use another host.")
        self._link.send(frame)

    def _take(self, frame: ToControl) -> None:
        match frame:
            case Done() | Mark() if not self._stands(frame):
                self._stray(frame)
            case Done():
                del self._due[frame.slot]
                self._listener.on_done(frame)
            case Mark():
                self._listener.on_mark(frame)
            case Answer():
                self._listener.on_answer(frame)
            case Pong():
                self.lag_s = frame.lag_s
                self._pinged_at = None
                self._listener.on_pong(frame)
            case Hello():
                if not self._hello.done():
                    self._hello.set_result(frame)

    def _stands(self, frame: Done | Mark) -> bool:
        """Whether it is of the run that its slot has now."""
        return self._due.get(frame.slot, ("", 0.0))[0] == frame.fence != ""

    def _stray(self, frame: Done | Mark) -> None:
        self._strays += 1
        if self._strays == 1:
            told = type(frame).__name__
            log.warning("host %d told a %s of no run that it has: ignored, like any more of them", self.pid, told)

    # ── watch ──

    def _watch_later(self) -> None:
        if self._exit is None:
            self._next_watch = self._loop.call_later(WATCH_EVERY_S, self._watch)

    def _watch(self) -> None:
        self._watch_later()
        now = self._loop.time()
        self._overdue = self._overdue or tuple(slot for slot, (_, due) in self._due.items() if due < now)
        if self._overdue:
            self.kill(ExitReason.OVERDUE)
        limit = self._settings.memory_limit_mb
        if limit is not None and resident_bytes(self._process.pid) > limit * (1 << 20):
            self.kill(ExitReason.MEMORY)
        if self._pinged_at is None:
            self._pings += 1
            # Each second: every other watch.
            if self._pings % 2:
                self._pinged_at = now
                self._link.send(Ping(self._pings))
