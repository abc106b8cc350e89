"""The host's side of the conversation: runs what comes, and answers. Nothing that a tool raises ends it."""

from __future__ import annotations

import asyncio
import contextvars
import itertools
import os
import socket
import sys
from collections.abc import Awaitable, Callable, Coroutine
from concurrent import futures
from functools import partial
from typing import Any, cast

import msgspec

from ...leases.errors import MyceliumError
from ...leases.tool_host import this_is_a_tool_host
from ...ledger.binding import Binding
from ...ledger.states import Boundary, BoundaryMode, EffectClass
from ..context import RUNNING
from ..load import AnyTool, App, load_app
from ..terms import Isolation
from .asking import answer
from .attempt import Attempt
from .forks import cut_off_forks, end_fork
from .frames import (
    TO_HOST,
    Ask,
    Cancel,
    Done,
    Hello,
    Mark,
    MarkReply,
    Outcome,
    Ping,
    Pong,
    Run,
    Stop,
    ToHost,
    ToolFacts,
)
from .link import Link
from .results import name_of, words_of
from .threads import TrackedThreads, tracked_task

_TICK_S = 0.25


def serve(descriptor: int, spec: str, *, slots: int, max_result_bytes: int) -> None:
    """Load the tools, say hello, and run until the control process says stop or is gone. Never returns."""
    this_is_a_tool_host()
    os.set_inheritable(descriptor, False)  # programs that a tool starts must not hold the socket open
    sock = socket.socket(fileno=descriptor)
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    loop.run_until_complete(_begin(sock, spec, slots, max_result_bytes))
    while True:
        # A task that a tool left behind may raise SystemExit through the loop, or stop it.
        try:
            loop.run_forever()
        except (SystemExit, KeyboardInterrupt):
            continue


async def _begin(sock: socket.socket, spec: str, slots: int, max_result_bytes: int) -> None:
    app, problem = App(), ""
    try:
        app = load_app(spec)
    except MyceliumError as error:
        problem = str(error)
    host = Serving(sock, app.tools, slots, max_result_bytes)
    cut_off_forks(asyncio.get_running_loop(), host.link.abandon)
    tools = {name: facts_of(tool) for name, tool in app.tools.items()}
    schedules = {name: each.facts for name, each in app.schedules.items()}
    host.link.send(Hello(os.getpid(), tools, problem, schedules))
    host.link.flush()
    if problem:
        leave(1)


def facts_of(tool: AnyTool) -> ToolFacts:
    """What the control process is told of a tool."""
    lag_s = None if tool.reconciler is None else float(tool.reconciler.lag_s)
    return ToolFacts(tool.binding, lag_s, tool.isolation, tool.terms.idle_timeout_s, tool.is_async)


def leave(code: int) -> None:
    """End this process now, whatever its threads do."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError, AttributeError):
            continue
    os._exit(code)


class Serving:
    """One host at work.

    Args:
        sock: the socket to the control process.
        tools: what can be run, by name.
        slots: threads for plain functions.
        max_result_bytes: limit on one encoded result.
        leave: ends this process; another thing where tools are tested in the process of their tests.
    """

    def __init__(
        self,
        sock: socket.socket,
        tools: dict[str, AnyTool],
        slots: int,
        max_result_bytes: int,
        leave: Callable[[int], None] = leave,
    ) -> None:
        self._leave = leave
        self.link: Link[ToHost] = Link(sock, TO_HOST, self._take, lambda _why: leave(0))
        self._loop = asyncio.get_running_loop()
        self._tools = tools
        self._max_result_bytes = max_result_bytes
        self._threads = futures.ThreadPoolExecutor(slots, thread_name_prefix="tool")
        # A line with one thread at its head, always the same: for code that cannot have several.
        self._one_thread = futures.ThreadPoolExecutor(1, thread_name_prefix="tool-alone")
        self._loop.set_default_executor(TrackedThreads(thread_name_prefix="to_thread"))
        self._loop.set_task_factory(tracked_task)
        self._attempts: dict[int, Attempt] = {}
        self._marks: dict[int, asyncio.Future[MarkReply]] = {}
        self._mark_numbers = itertools.count(1)
        self._tasks: set[asyncio.Task[None]] = set()
        self._idle = asyncio.Event()
        self._lag_s = 0.0
        self._tick(self._loop.time())

    def abandon(self) -> None:
        """Let go of everything, where there is no process that could be killed: nothing more is told.

        What can be cancelled is; threads go on, and can mark nothing.
        """
        self.link.close()
        self._next_tick.cancel()
        for attempt in self._attempts.values():
            attempt.end(Outcome.CANCELLED)
        for reply in self._marks.values():
            reply.cancel()
        for task in self._tasks:
            task.cancel()
        for threads in (self._threads, self._one_thread):
            threads.shutdown(wait=False, cancel_futures=True)

    def _take(self, frame: ToHost) -> None:
        match frame:
            case Run():
                self._run(frame)
            case MarkReply():
                self._marked(frame)
            case Cancel():
                if attempt := self._attempts.get(frame.slot):
                    attempt.end(Outcome.CANCELLED)
            case Ask():
                self._spawn(self._answer(frame))
            case Stop():
                self._spawn(self._stop(frame.grace_s))
            case Ping():
                self.link.send(Pong(frame.n, self._lag_s))
                self._lag_s = 0.0

    # ── runs ──

    def _run(self, run: Run) -> None:
        if run.slot in self._attempts:
            # The control process and this one disagree about what runs here: nothing can be told truthfully.
            self._leave(70)
        try:
            tool = self._tools[run.tool]
            if _laxer(run, tool.binding):
                self._refuse(run, "mycelium.DeclaredAnew", "This host has it declared stricter than it was granted.")
                return
            values = tool.from_wire(run.args, idempotency_key=_key_of(tool, run))
        except KeyError:
            self._refuse(run, "mycelium.UnknownToolError", f"This host has no tool {run.tool!r}.")
        except BaseException as error:  # noqa: BLE001 - a validator of the tool's own may raise anything
            self._refuse(run, name_of(type(error)), words_of(error))
        else:
            attempt = Attempt(run, tool, self._send_mark, self.link.send, self._max_result_bytes)
            self._attempts[run.slot] = attempt
            begin = self._begin_async if tool.is_async else self._begin_in_thread
            begin(attempt, partial(tool.fn, **values))

    def _refuse(self, run: Run, error_class: str, detail: str) -> None:
        # What does not fit this host's tool may fit another version of it; what is no JSON object fits none.
        outcome = Outcome.REFUSED if _is_object(run.args) else Outcome.NOT_EXECUTED
        self.link.send(Done(run.slot, outcome, run.boundary, error_class=error_class, detail=detail, fence=run.fence))

    def _begin_async(self, attempt: Attempt, body: Callable[[], object]) -> None:
        attempt.begin_clock()
        task = self._loop.create_task(_run_async(attempt, body))
        attempt.owns(task)
        task.add_done_callback(lambda _task: self._finish(attempt))

    def _begin_in_thread(self, attempt: Attempt, body: Callable[[], object]) -> None:
        context = contextvars.copy_context()
        threads = self._threads
        if attempt.tool.isolation is Isolation.HOST:
            threads = self._one_thread  # its time begins when its turn comes
        else:
            attempt.begin_clock()
        work = threads.submit(context.run, _run_plain, attempt, body)
        attempt.owns(work)
        work.add_done_callback(lambda _work: self._loop.call_soon_threadsafe(self._finish, attempt))

    def _finish(self, attempt: Attempt) -> None:
        done = attempt.ending()
        if done.outcome is not Outcome.COMPLETED:
            # A result was seen, whatever still runs; without one nothing may be told as over that can still send.
            if threads := list(attempt.threads):
                self._spawn(self._finish_after(attempt, threads))
                return
            if attempt.tasks:
                done = msgspec.structs.replace(done, over=False)
        attempt.close()
        del self._attempts[attempt.run.slot]
        self.link.send(done)
        if not self._attempts:
            self._idle.set()

    async def _finish_after(self, attempt: Attempt, threads: list[futures.Future[Any]]) -> None:
        # The slot stays taken meanwhile, and an attempt that never ends is ended with its host.
        await asyncio.wait([asyncio.wrap_future(work) for work in threads])
        self._finish(attempt)

    # ── marks ──

    async def _send_mark(self, run: Run, boundary: Boundary, ref: str | None) -> MarkReply:
        # Numbered: a slot is used again, and a late reply must never pass for the answer to a newer attempt's mark.
        number = next(self._mark_numbers)
        reply: asyncio.Future[MarkReply] = self._loop.create_future()
        self._marks[number] = reply
        try:
            self.link.send(Mark(run.slot, number, boundary, ref, run.fence))
            return await reply
        finally:
            del self._marks[number]

    def _marked(self, frame: MarkReply) -> None:
        reply = self._marks.get(frame.n)
        if reply is not None and not reply.done():
            reply.set_result(frame)

    # ── the rest ──

    async def _answer(self, ask: Ask) -> None:
        self.link.send(await answer(self._tools.get(ask.tool), ask, self._max_result_bytes))

    async def _stop(self, grace_s: float) -> None:
        self._idle.clear()
        if self._attempts:
            try:
                await asyncio.wait_for(self._idle.wait(), grace_s)
            except TimeoutError:
                self._leave(75)  # runs are cut off: what becomes of them is told by their boundary
        self.link.flush()
        self._leave(0)

    def _spawn(self, work: Coroutine[object, object, None]) -> None:
        task = self._loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _tick(self, due: float) -> None:
        now = self._loop.time()
        self._lag_s = max(self._lag_s, now - due)
        self._next_tick = self._loop.call_at(now + _TICK_S, self._tick, now + _TICK_S)


_CLASSES = tuple(EffectClass)
_MODES = (BoundaryMode.NONE, BoundaryMode.EXPLICIT, BoundaryMode.AUTOMATIC)


def _laxer(run: Run, binding: Binding) -> bool:
    """Whether a call was granted under a laxer declaration than this host's, as when only some hosts have new code."""
    mode = BoundaryMode(str(binding.boundary_mode))
    return _CLASSES.index(run.effect_class) < _CLASSES.index(binding.effect_class) or _MODES.index(
        run.mode
    ) < _MODES.index(mode)


def _is_object(body: bytes) -> bool:
    try:
        msgspec.json.decode(body, type=dict[str, msgspec.Raw])
    except (msgspec.DecodeError, RecursionError):
        return False
    return True


_TOO_LATE = "The session's trusted time was over before the body began."


async def _run_async(attempt: Attempt, body: Callable[[], object]) -> None:
    # Nothing is awaited before the body, so no cancellation can come between this line and its first one.
    attempt.begun = True
    if attempt.too_late():
        attempt.done = attempt.never_began(_TOO_LATE)
        return
    RUNNING.set(attempt)
    try:
        value = await cast("Callable[[], Awaitable[object]]", body)()
    except BaseException as error:  # noqa: BLE001 - whatever a tool raises is an outcome
        attempt.done = attempt.raised(error)
    else:
        attempt.done = attempt.returned(value)
    if attempt.in_fork:
        end_fork()


def _run_plain(attempt: Attempt, body: Callable[[], object]) -> None:
    attempt.begun = True
    attempt.begin_clock_in_thread()
    if attempt.too_late():
        attempt.done = attempt.never_began(_TOO_LATE)
        return
    RUNNING.set(attempt)
    try:
        value = body()
        if asyncio.iscoroutine(value):
            value.close()
            said = "a plain `def` tool returned a coroutine, which nothing awaits: declare it with `async def`"
            raise TypeError(said)  # noqa: TRY301 - the same path as what the body raises
    except BaseException as error:  # noqa: BLE001 - whatever a tool raises is an outcome
        attempt.done = attempt.raised(error)
    else:
        attempt.done = attempt.returned(value)
    if attempt.in_fork:
        end_fork()


def _key_of(tool: AnyTool, run: Run) -> str | None:
    """What the key parameter gets, where the caller gave none: what the row says was sent, else the effect id."""
    return run.key or (run.effect_id if tool.binding.propagate_effect_id_as_provider_key else None)
