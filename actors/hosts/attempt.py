"""One attempt inside a host: how far it has come, and whether it may still go further."""

from __future__ import annotations

import asyncio
import math
import os
from collections.abc import Awaitable, Callable
from concurrent import futures
from typing import Any

from ...leases.clock import BootClock
from ...leases.errors import BoundaryError, NotExecuted
from ...ledger.states import Boundary, BoundaryMode, EffectClass
from ..context import CallContext
from ..load import AnyTool
from .again import again_of
from .frames import NEVER_BEGAN, NO_PROGRESS, Again, Done, MarkReply, Outcome, Progress, Run
from .reporter import Reporter, note_text
from .results import encode_result, name_of, place_of, words_of

_CLOCK = BootClock()
SendMark = Callable[[Run, Boundary, str | None], Awaitable[MarkReply]]
SendProgress = Callable[[Progress], None]


class Attempt:
    """What `side_effect()` and its like find in the context variable.

    Args:
        run: the frame that started it.
        tool: the tool.
        send_mark: sends a mark for a run and awaits the reply.
        send_progress: sends a report of how far it is.
        max_result_bytes: limit on the encoded result.

    Attributes:
        begun: the first line of what runs the body was reached: from now on the body may have begun.
        done: how the body ended, once it has.
    """

    __slots__ = (
        "_closed",
        "_deadline",
        "_ended",
        "_heard",
        "_in_doubt",
        "_marking",
        "_max_result_bytes",
        "_pid",
        "_ref",
        "_reporter",
        "_send_mark",
        "_send_progress",
        "_silent",
        "_timer",
        "_work",
        "begun",
        "boundary",
        "done",
        "loop",
        "run",
        "tasks",
        "threads",
        "tool",
    )

    def __init__(
        self, run: Run, tool: AnyTool, send_mark: SendMark, send_progress: SendProgress, max_result_bytes: int
    ) -> None:
        self.run = run
        self.tool = tool
        self.boundary = run.boundary
        self.threads: set[futures.Future[Any]] = set()
        """Work of the body in threads that has not ended."""
        self.tasks: set[asyncio.Task[Any]] = set()
        """Tasks that the body started and that have not ended."""
        self.begun = False
        self.done: Done | None = None
        self.loop = asyncio.get_running_loop()
        self._pid = os.getpid()
        self._send_mark = send_mark
        self._max_result_bytes = max_result_bytes
        self._send_progress = send_progress
        self._reporter: Reporter | None = None
        self._deadline = math.inf
        self._heard = math.inf
        """When it last told how far it is, or its time began."""
        self._silent = False
        self._timer: asyncio.TimerHandle | None = None
        self._closed = False
        self._ended: Outcome | None = None
        self._in_doubt = False
        self._ref: str | None = None
        self._marking = asyncio.Lock()
        self._work: asyncio.Task[None] | futures.Future[None] | None = None

    def owns(self, work: asyncio.Task[None] | futures.Future[None]) -> None:
        """Say what to cancel when the attempt is over."""
        self._work = work

    def begin_clock(self) -> None:
        """Its time begins now; on the loop."""
        self._set_clock()
        self._look_at_clock()

    def begin_clock_in_thread(self) -> None:
        """Its time begins now, if it has not."""
        if self._deadline == math.inf:
            self._set_clock()
            # The news of the body's end comes to the loop behind this.
            self.loop.call_soon_threadsafe(self._look_at_clock)

    def _set_clock(self) -> None:
        self._heard = self.loop.time()
        self._deadline = self._heard + self.run.timeout_s

    def _look_at_clock(self) -> None:
        if self._closed or self._ended is not None:
            return
        now, idle_s = self.loop.time(), self.run.idle_timeout_s or math.inf
        self._silent = now >= self._heard + idle_s
        if self._silent or now >= self._deadline:
            self.end(Outcome.TIMEOUT)
        else:
            self._timer = self.loop.call_at(min(self._deadline, self._heard + idle_s), self._look_at_clock)

    def end(self, how: Outcome) -> None:
        """Its time is up, or it is cancelled: no mark passes any more, and what can be stopped is stopped."""
        if self._ended is None:
            self._ended = how
            if self._work is not None:
                self._work.cancel()

    def mark_within_s(self) -> float:
        """How many seconds a mark may be waited for: until the attempt's timeout."""
        return max(0.0, min(self._deadline - self.loop.time(), self.run.timeout_s))

    def describe(self) -> CallContext:
        """The call as its tool may see it."""
        run, left_s = self.run, self.mark_within_s()
        return CallContext(
            run.request_id, run.effect_id, run.attempt, run.fence, run.tool, run.key or run.effect_id, left_s
        )

    @property
    def effect_class(self) -> EffectClass:
        """What kind of effect its tool is declared with."""
        return self.tool.binding.effect_class

    @property
    def in_fork(self) -> bool:
        """Whether this is a copy of the attempt, in a process that the tool forked."""
        return os.getpid() != self._pid

    def too_late(self) -> bool:
        """Whether the time in which the body may begin is over: this process was frozen, or its loop was blocked."""
        return _CLOCK.now_s() >= self.run.begin_by_s

    def needs_mark(self) -> bool:
        """Whether an effect that starts now needs a mark first.

        Raises:
            BoundaryError: no effect may start: the attempt is over, the tool is declared as a read, or this is a fork.
        """
        self._check()
        return self.boundary is Boundary.NOT_CROSSED

    async def mark(self, ref: str | None) -> None:
        """Write `maybe_crossed` (and a provider's reference) durably.

        Raises:
            BoundaryError: refused, or no effect may start.
        """
        async with self._marking:
            self._check()
            if ref is None and self.boundary is not Boundary.NOT_CROSSED:
                return
            self._in_doubt = True
            reply = await self._send_mark(self.run, Boundary.MAYBE_CROSSED, ref)
            self._in_doubt = False
            if not reply.ok:
                raise self._refused(f"The mark was refused: {reply.why or 'no reason given'}.")
            if self.boundary is Boundary.NOT_CROSSED:
                self.boundary = Boundary.MAYBE_CROSSED
            if _CLOCK.now_s() >= reply.begin_by_s:
                raise self._refused("The mark was acknowledged too late.")
            # The attempt may have ended while the reply was on its way.
            self._check()

    def note(self, ref: str) -> None:
        """Keep a provider's reference, to travel with the settlement as well."""
        self._ref = ref

    def crossed(self) -> None:
        """Note that the external call returned."""
        self.boundary = Boundary.CROSSED

    def progress(self, done: float, total: float | None, note: str) -> None:
        """Tell how far the body has come, and let its idle time begin anew; from any thread."""
        if self.in_fork:
            return
        self._heard = self.loop.time()
        report = Progress(self.run.slot, self.run.fence, done, total, note_text(note))
        self.loop.call_soon_threadsafe(self._report, report)

    def _report(self, report: Progress) -> None:
        # What a body left behind may still tell something, of a run that is over.
        if self._closed:
            return
        if self._reporter is None:
            self._reporter = Reporter(self.loop, self._send_progress)
        self._reporter.report(report)

    def returned(self, value: object) -> Done:
        """The body returned."""
        body, fault = encode_result(value, self._max_result_bytes)
        return self._done(Outcome.COMPLETED, body=body, error_class=fault)

    def raised(self, error: BaseException) -> Done:
        """The body raised, whatever it was."""
        # What a call inside this one raised speaks of that one.
        proved = isinstance(error, NotExecuted) and error.of_attempt in {"", self.run.fence}
        # By the clock as well: the timer may be late, and a plain tool's wait for its mark ends at the same moment.
        late = Outcome.TIMEOUT if self.loop.time() >= self._deadline else Outcome.FAILED
        outcome = Outcome.NOT_EXECUTED if proved else self._ended or late
        again, after_s, name, words = Again.CLASS, 0.0, name_of(type(error)), words_of(error)
        if outcome in {Outcome.FAILED, Outcome.NOT_EXECUTED}:
            again, after_s = again_of(error, self.tool.non_retryable, proved=proved)
        elif self._silent and outcome is Outcome.TIMEOUT:
            name, words = NO_PROGRESS, f"It told no progress for {self.run.idle_timeout_s:g} s."
        return self._done(outcome, error_class=name, detail=words, where=place_of(error), again=again, after_s=after_s)

    def never_began(self, why: str) -> Done:
        """The body was cancelled before its first line, or came too late."""
        return self._done(Outcome.NOT_EXECUTED, error_class=NEVER_BEGAN, detail=why)

    def ending(self) -> Done:
        """How it ended; asked when nothing of it runs any more, whatever became of the task that ran the body.

        A task may count as cancelled although the body has returned: when its last step cancels it. So only what was
        noted on the way is believed.
        """
        if self.done is not None:
            return self.done
        if self.begun:
            return self.raised(asyncio.CancelledError("The task that ran the body was cancelled."))
        return self.never_began("Cancelled before the body began.")

    def close(self) -> None:
        """The body has ended: its last report goes out, and nothing of it after that."""
        self._closed = True
        if self._timer is not None:
            self._timer.cancel()
        if self._reporter is not None:
            self._reporter.close()
        self._ended = self._ended or Outcome.COMPLETED

    def _done(  # noqa: PLR0913 - an end is told whole
        self,
        outcome: Outcome,
        *,
        body: bytes = b"",
        error_class: str = "",
        detail: str = "",
        where: str = "",
        again: Again = Again.CLASS,
        after_s: float = 0.0,
    ) -> Done:
        boundary = self.boundary
        if (self._in_doubt or self._ref is not None) and boundary is Boundary.NOT_CROSSED:
            boundary = Boundary.MAYBE_CROSSED
        return Done(
            self.run.slot,
            outcome,
            boundary,
            body,
            error_class,
            detail,
            self._ref,
            where,
            self.run.fence,
            again=again,
            after_s=after_s,
        )

    def _check(self) -> None:
        if self.in_fork:
            raise self._refused("This process was forked by the tool, and its host cannot mark an effect in it.")
        if self._ended is not None:
            raise self._refused(f"The attempt is over ({self._ended}).")
        if self.tool.binding.boundary_mode is BoundaryMode.NONE:
            raise self._refused(f"The tool {self.tool.name!r} is declared as a read and may run again at any time.")

    def _refused(self, what: str) -> BoundaryError:
        return BoundaryError(what, next_step="The effect must not start; let this error end the tool.")
