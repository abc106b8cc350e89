"""One life of an actor, from its first hook to its last: the loop that takes messages, and how it is made to end."""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Callable
from typing import Any, Final

from ...leases.errors import ActorError
from .actor import Actor, Home
from .ending import Ending
from .mailbox import Mailbox, Reply, stopped_error
from .messages import Exit, Refusal, StopReason
from .ref import Ref
from .spec import ChildSpec, Restart
from .surroundings import Surroundings
from .tasks import OwnedTasks
from .ticking import Ticking

log = logging.getLogger("mycelium.actors.runtime")

# A full mailbox whose handlers never wait would keep the loop from everybody else.
YIELD_AFTER: Final = 64


def described(error: BaseException) -> str:
    """Class of the error and the line that raised it. Never its message, which can quote an actor's message."""
    traceback = error.__traceback__
    while traceback is not None and traceback.tb_next is not None:
        traceback = traceback.tb_next
    if traceback is None:
        return type(error).__name__
    code = traceback.tb_frame.f_code
    return f"{type(error).__name__} in {code.co_qualname} (line {traceback.tb_lineno} of {code.co_filename})"


class Life:
    """Runs one instance in one task. Whatever happens, `ended` gets one Exit and every asker one answer.

    `_leaving` is the flag that the loop looks at between messages. It is set by `end`, by a crash of a background task
    and by a missed start; cancelling only hurries what the flag has decided.
    """

    def __init__(  # noqa: PLR0913, PLR0917 - made by the cell only
        self,
        actor: Actor[Any],
        spec: ChildSpec,
        ref: Ref[Any],
        mailbox: Mailbox,
        around: Surroundings,
        on_end: Callable[[Exit], None],
    ) -> None:
        loop = asyncio.get_running_loop()
        self.started: asyncio.Future[bool] = loop.create_future()
        self.ended: asyncio.Future[Exit] = loop.create_future()
        self._actor = actor
        self._spec = spec
        self._path = ref.path
        self._mailbox = mailbox
        self._around = around
        self._on_end = on_end
        self._leaving: Exit | None = None
        self._reply: Reply | None = None
        self._home = Home(ref, around, OwnedTasks(ref.path, self._crashed), self._leave, self._crashed)
        self._ending = Ending(around.timer, cancel=self._cancel, give_up=self._give_up)
        actor.move_in(self._home)
        self._task = loop.create_task(self._live(), name=ref.path)
        self._task.add_done_callback(self._task_done)
        self._ending.within(spec.start_within_s)

    # ── from outside ─────────────────────────────────────────────────────────────────────────────────────────────────

    def end(self, reason: StopReason) -> None:
        """Ask for the end: after the current message, or at once while it still starts. The first reason counts."""
        # An actor that may take for ever to stop is never cancelled: a supervisor, whose children have their deadlines.
        within_s = self._spec.stop_within_s
        starting = not self.started.done() and not math.isinf(within_s)
        self._ask_to_end(reason, 0.0 if starting else within_s)

    def _ask_to_end(self, reason: StopReason, within_s: float) -> None:
        if self._leaving is None:
            self._leaving = Exit(reason)
            self._actor.asked_to_end()
        self._ending.within(within_s)
        self._mailbox.nudge()

    def _leave(self) -> None:
        self._ask_to_end(StopReason.NORMAL, self._spec.stop_within_s)

    def _crashed(self, error: BaseException) -> None:
        """A background task or a callback of the actor has failed."""
        crash = _crash(error)
        if self._leaving is None:
            self._leaving = crash
            self._ending.within(0.0)
        elif crash.reason is StopReason.FATAL:
            self._leaving = crash
        else:
            log.warning("A task or callback of the ending actor %s failed: %s", self._path, described(error))

    def _cancel(self) -> None:
        if self._leaving is None:  # only the start has a deadline before anybody has asked for the end
            what = f"The actor {self._path} did not start within {self._spec.start_within_s} s."
            self._leaving = _crash(ActorError(what, next_step="See what its started hook waits for."))
        self._task.cancel()

    def _give_up(self) -> None:
        log.critical(
            "The actor %s did not end when cancelled: it is left behind and may still act. What should end it: %s.",
            self._path,
            self._spec.ends,
        )
        self._around.detached.add(self._task)
        self._task.add_done_callback(self._around.detached.discard)
        self._drop_reply(None)
        self._settle(Exit(StopReason.DETACHED, self._leaving.error if self._leaving else None))

    # ── the task ─────────────────────────────────────────────────────────────────────────────────────────────────────

    async def _live(self) -> None:
        end = await self._serve()
        self._leaving = end
        cancelled = end.reason is StopReason.CANCELLED
        cancelled |= await self._say_goodbye(end)
        for ticking in self._home.tickings:
            ticking.cancel()
        cancelled |= await self._home.tasks.end()
        self._settle(self._leaving)
        if cancelled:
            raise asyncio.CancelledError

    async def _serve(self) -> Exit:
        try:
            await self._actor.started()
            self._ready()
            await self._take_messages()
        except asyncio.CancelledError as error:
            end = self._why_cancelled(error)
            self._drop_reply(None)
        except Exception as error:  # noqa: BLE001 - a handler may raise anything; the supervisor decides
            if self._leaving is not None:
                log.warning("The ending actor %s failed: %s", self._path, described(error))
            end = self._leaving or Exit(StopReason.CRASHED, error)
            self._drop_reply(error)
        except GeneratorExit:
            raise
        except BaseException as error:  # noqa: BLE001 - raised again by the system, after an orderly stop
            end = Exit(StopReason.FATAL, error)
            self._drop_reply(None)
        else:
            end = self._leaving or Exit(StopReason.NORMAL)
        return end

    def _ready(self) -> None:
        if self._leaving is None:
            self._ending.disarm()
        if not self.started.done():
            self.started.set_result(True)

    async def _take_messages(self) -> None:
        mailbox, receive, cancelling, home = self._mailbox, self._actor.receive, self._task.cancelling, self._home
        handled = 0
        while self._leaving is None:
            entry = mailbox.take()
            if entry is None:
                await mailbox.wait()
                continue
            message, reply = entry
            self._reply = reply
            home.in_hand = message
            if isinstance(message, Ticking):
                await message.run()
                answer: object = None
            else:
                answer = await receive(message)
            if reply is not None:
                _answer(reply, answer)
                self._reply = None
            home.in_hand = None
            if cancelling():
                raise asyncio.CancelledError  # the handler lost it; it was meant for us
            handled += 1
            if not handled % YIELD_AFTER:
                await asyncio.sleep(0)

    def _why_cancelled(self, error: asyncio.CancelledError) -> Exit:
        cancelled = self._forget_cancels()
        if self._leaving is not None:
            return self._leaving
        # Nobody cancelled this task: the handler awaited something that was cancelled, which is a crash like any other.
        return Exit(StopReason.CANCELLED) if cancelled else Exit(StopReason.CRASHED, error)

    def _forget_cancels(self) -> bool:
        """Let the hooks use time-outs and task groups again, which count the cancels of their task."""
        cancelled = self._task.cancelling() > 0
        while self._task.cancelling():
            self._task.uncancel()
        return cancelled

    async def _say_goodbye(self, end: Exit) -> bool:
        """Run the last hook; True when somebody outside cancelled it."""
        self._ending.within(self._spec.stop_within_s)
        if not self.started.done():
            return False
        try:
            if (
                end.reason is StopReason.CRASHED
                and end.error is not None
                and self._spec.restart is not Restart.TEMPORARY
            ):
                await self._actor.restarting(end.error)
            else:
                await self._actor.stopping(end.reason)
        except asyncio.CancelledError:
            log.warning("The last hook of the actor %s was cancelled.", self._path)
            return not self._ending.begun and self._forget_cancels()
        except Exception as error:  # noqa: BLE001 - the life is over all the same
            log.warning("The last hook of the actor %s failed: %s", self._path, described(error))
        except GeneratorExit:
            raise
        except BaseException as error:  # noqa: BLE001 - raised again by the system
            self._leaving = Exit(StopReason.FATAL, error)
        return False

    # ── answers ──────────────────────────────────────────────────────────────────────────────────────────────────────

    def _drop_reply(self, error: Exception | None) -> None:
        reply, self._reply = self._reply, None
        if reply is not None and not reply.done():
            reply.set_exception(error or stopped_error(self._path))

    def _settle(self, end: Exit) -> None:
        self._ending.disarm()
        if self.ended.done():
            return
        self.ended.set_result(end)
        if not self.started.done():
            self.started.set_result(False)
        self._on_end(end)

    def _task_done(self, task: asyncio.Task[None]) -> None:
        # Reached with nothing settled only if the task was cancelled before its first step, or the loop closed it.
        error = None if task.cancelled() else task.exception()
        self._settle(_crash(error) if error is not None else self._leaving or Exit(StopReason.CANCELLED))


def _crash(error: BaseException) -> Exit:
    # A cancel that nobody sent, of something that was awaited, is a crash like any other.
    ordinary = isinstance(error, (Exception, asyncio.CancelledError))
    return Exit(StopReason.CRASHED if ordinary else StopReason.FATAL, error)


def _answer(reply: Reply, answer: object) -> None:
    if reply.done():  # the asker has gone
        return
    if isinstance(answer, Refusal):
        reply.set_exception(answer.error)
    else:
        reply.set_result(answer)
