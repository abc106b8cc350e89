"""The control process's side of one tool host: starts it, talks to it, watches it, and notices its end at once."""

from __future__ import annotations

import asyncio
import logging
import math
import os
import socket
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import msgspec

from ...leases.errors import ActorStoppedError, BadCallError, SettingsError
from ..schedules.facts import ScheduleFacts
from .child_process import Child, ChildProcess
from .due import Due
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
    Progress,
    Run,
    Stop,
    ToControl,
    ToHost,
    ToolFacts,
)
from .link import Link
from .listener import ExitReason, HostExit, HostListener
from .pulse import Pulse
from .spawning import spawn
from .watch import resident_bytes

log = logging.getLogger(__name__)

WATCH_EVERY_S = 0.5
MAX_RESULT_BYTES = FRAME_LIMIT_BYTES // 4
_STOP_MARGIN_S = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class HostSettings:
    """How hosts are run.

    Attributes:
        memory_limit_mb: resident MiB above which a host is ended; None: no limit. Programs of its tools do not count.
        solo: each run has the host to itself: a timeout or a cancel ends it.
        overrun_grace_s: seconds after a run's timeout at which its host is ended, if the run has not ended.
        chance_s: in their place where `solo`: seconds that a coroutine has to end by itself; a plain function has none.
        busy_after_s: a host that has not answered for so many seconds is busy.
        start_within_s: seconds that a host has to import its tools.
        max_result_bytes: limit on one encoded result.
        env: variables given to the tools on purpose.
        store_url: URL of the store, only to keep it out of the host's environment.
        path: directories that the host imports from, besides the working directory.
    """

    memory_limit_mb: float | None = None
    solo: bool = False
    overrun_grace_s: float = 5.0
    chance_s: float = 1.0
    busy_after_s: float = 1.0
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
        schedules: facts of its schedules by name, the same.
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
        self.schedules: dict[str, ScheduleFacts] = {}
        self._due = Due()
        self._pulse = Pulse(self._settings.busy_after_s)
        self._strays = 0
        self._overdue: tuple[int, ...] = ()
        self._held: Done | None = None
        self._why = ExitReason.CRASHED
        self._exit: HostExit | None = None
        self._exited = asyncio.Event()
        self._started = False
        self._next_watch: asyncio.TimerHandle | None = None
        self._end_at: asyncio.TimerHandle | None = None

    async def start(self) -> None:
        """Start the process and wait until its tools are imported.

        Raises:
            SettingsError: the tools cannot be loaded, or not in time. Nothing is left running.
        """
        self._loop = asyncio.get_running_loop()
        self._hello: asyncio.Future[Hello] = self._loop.create_future()
        environment = self._environment()
        ours, theirs = socket.socketpair()
        with theirs:
            self._process = self._start_child(ours, theirs, environment)
        self._link: Link[ToControl] = Link(ours, TO_CONTROL, self._take, self._closed)
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
        if self._exit is not None:
            raise self._not_started("ended as soon as it had started")  # its owner is not told twice, nor never
        self.tools, self.schedules = hello.tools, hello.schedules
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

    @property
    def lag_s(self) -> float:
        """How late its loop was at worst, as its last pong told; or for how long it has not answered."""
        return max(self._pulse.lag_s, self.busy_s)

    @property
    def busy_s(self) -> float:
        """For how long it has been busy; 0: it answers."""
        return self._pulse.silent_s(self._loop.time()) if self._pulse.busy else 0.0

    @property
    def resident_mb(self) -> float:
        """Resident MiB; 0 where the system does not tell."""
        return resident_bytes(self._process.pid) / (1 << 20)

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
        facts = self.tools.get(run.tool)
        self._due.add(
            run,
            self._loop.time(),
            grace_s=self._settings.overrun_grace_s if not self._settings.solo else self._chance_s(run.tool),
            in_line=facts is not None and facts.in_line,
        )
        self._end_in_time()

    def mark_reply(self, mark: Mark, *, ok: bool, why: str = "", begin_by_s: float = math.inf) -> None:
        """Answer a mark: `ok` only after it is written durably. A host that has ended needs no answer."""
        self._link.send(MarkReply(mark.slot, mark.n, ok, why, begin_by_s))

    def cancel(self, slot: int) -> None:
        """Cancel what runs in a slot, if anything does. Its `Done` comes when it has ended, or a solo host ends."""
        run = self._due.run_in(slot)
        if run is None:
            return
        self._link.send(Cancel(slot))
        if self._settings.solo:
            self._loop.call_later(self._chance_s(run.tool), self._end_cancelled, run)

    def _end_cancelled(self, run: Run) -> None:
        if self._due.stands(run.slot, run.fence):
            self.kill(ExitReason.CANCELLED)

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
            self._process.kill()

    async def stop(self, grace_s: float, why: ExitReason = ExitReason.STOPPED) -> HostExit:
        """Let its runs end for `grace_s` seconds, then end it."""
        if self._exit is None:
            self._why = why
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

    def _start_child(self, ours: socket.socket, theirs: socket.socket, environment: Mapping[str, str]) -> Child:
        """Start what runs the tools; `_died` is called when it has ended."""
        return ChildProcess(spawn(self._command(theirs), ours, theirs, environment), self._died)

    def _command(self, theirs: socket.socket) -> list[str]:
        arguments = [theirs.fileno(), os.getpid(), self._slots, self._settings.max_result_bytes, self._spec]
        return ["-m", "mycelium.actors.hosts.child", *map(str, arguments)]

    def _environment(self) -> dict[str, str]:
        settings = self._settings
        return host_environment(os.environ, settings.env, store_url=settings.store_url, path=settings.path)

    async def _abandon(self) -> None:
        self._hello.cancel()
        self.kill()
        await self.wait()

    def _not_started(self, fault: str) -> SettingsError:
        return SettingsError(f"The tool host for {self._spec!r} {fault}.", next_step="Nothing of it is left running.")

    def _died(self) -> None:
        # Programs that its tools started go with it.
        self._process.kill()
        self._link.drain()
        self._link.close()
        code = self._process.collect()
        for timer in (self._next_watch, self._end_at):
            if timer is not None:
                timer.cancel()
        self._exit = HostExit(code, -code if code < 0 else None, self._why, self._overdue)
        if self._held is not None:
            self._listener.on_done(msgspec.structs.replace(self._held, over=True))
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
            case Done() | Mark() | Progress() if not self._due.stands(frame.slot, frame.fence):
                self._stray(frame)
            case Done():
                self._ended(frame)
            case Mark():
                self._listener.on_mark(frame)
            case Progress():
                self._due.hear(frame.slot, self._loop.time())
                self._listener.on_progress(frame)
            case Answer():
                self._listener.on_answer(frame)
            case Pong():
                silent_s = self._pulse.hear(frame, self._loop.time())
                if silent_s is not None:
                    self._listener.on_answers(silent_s)
                self._listener.on_pong(frame)
            case Hello():
                if not self._hello.done():
                    self._hello.set_result(frame)

    def _ended(self, done: Done) -> None:
        self._due.end(done.slot, self._loop.time())
        if self._settings.solo and not done.over:
            # What it left behind would run beside the next one. It is told when that has ended too.
            self._held = done
            self.kill(ExitReason.LEFTOVER)
        else:
            self._listener.on_done(done)

    def _stray(self, frame: Done | Mark | Progress) -> None:
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
        self._end_overdue()
        limit = self._settings.memory_limit_mb
        if limit is not None and self.resident_mb > limit:
            self.kill(ExitReason.MEMORY)
        if self._pulse.falls_silent(now):
            self._listener.on_busy()
        if (number := self._pulse.next_ping(now)) is not None:
            self._link.send(Ping(number))

    def _end_overdue(self) -> None:
        if self._exit is not None:
            return
        self._overdue = self._overdue or self._due.overdue(self._loop.time())
        if self._overdue:
            self.kill(ExitReason.OVERDUE)

    def _end_in_time(self) -> None:
        """A process that one run has to itself is ended to the moment; others when they are next looked at."""
        if not self._settings.solo or self._exit is not None:
            return
        if self._end_at is not None:
            self._end_at.cancel()
        self._end_overdue()
        due_s = self._due.next_s()
        self._end_at = None if due_s == math.inf else self._loop.call_at(due_s, self._end_in_time)

    def _chance_s(self, tool: str) -> float:
        facts = self.tools.get(tool)
        return self._settings.chance_s if facts is not None and facts.is_async else 0.0


MakesHost = Callable[[str, int, HostListener, HostSettings], HostProcess]
"""Makes a host that has not been started: `HostProcess` itself, or one that runs its tools elsewhere."""
