"""One process of a host actor, with the attempts and questions that it has: what becomes of them when it ends."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from contextlib import suppress
from functools import wraps
from itertools import count
from typing import Any, Concatenate, ParamSpec, Protocol

from ...leases.errors import ActorStoppedError, PayloadTooLargeError
from ...ledger.mark import MarkReply
from ...ledger.states import Boundary
from ...reconcilers.verdict import Verdict, VerdictWord
from ..hosts.frames import Answer, Ask, Done, Mark, Outcome, Pong, Progress, Run
from ..hosts.host import HostSettings, MakesHost
from ..hosts.listener import ExitReason, HostExit
from ..runtime import Ref
from ..terms import Isolation
from .attempt import Attempt, Phase
from .messages import AskAdapter, Died, MarkWanted, NotTaken, Progressed, Ran

P = ParamSpec("P")

TURNS = "/worker/control/turns"


class Owner(Protocol):
    """The host actor, as its processes need it."""

    def find(self, path: str) -> Ref[Any]:
        """See `Actor.find`."""
        ...

    def guard(self, fn: Callable[P, object]) -> Callable[P, None]:
        """See `Actor.guard`."""
        ...

    def look_at(self, hosted: Hosted) -> None:
        """Something of the process has ended, or it has told that it lives."""

    def fell_silent(self, hosted: Hosted) -> None:
        """The process is busy."""

    def answers(self, hosted: Hosted, silent_s: float) -> None:
        """The process was busy for so long, and answers."""

    def ended(self, hosted: Hosted, reason: HostExit) -> None:
        """The process has ended; what it had has not been told of yet: see `tell_dead`."""


def _guarded(method: Callable[Concatenate[Hosted, P], object]) -> Callable[Concatenate[Hosted, P], None]:
    """A call from the event loop: what it raises crashes the owner."""

    @wraps(method)
    def run(self: Hosted, /, *args: P.args, **kwargs: P.kwargs) -> None:
        self.owner.guard(method)(self, *args, **kwargs)

    return run


class Hosted:
    """Its listener methods run on the loop, in the order in which things happened.

    Args:
        owner: the actor that the process belongs to.
        make_process: makes the process.
        app: where its tools are.
        slots: how many attempts it may have.
        settings: how it is run.

    Attributes:
        process: the process.
        attempts: what runs in it, by slot.
        ran: how many attempts have ended in it.
        spared: it is not replaced, however much it has run.
    """

    def __init__(self, owner: Owner, make_process: MakesHost, app: str, slots: int, settings: HostSettings) -> None:
        self.owner = owner
        self.process = make_process(app, slots, self, settings)
        self.attempts: dict[int, Attempt] = {}
        self.ran = 0
        self.spared = False
        self._solo = settings.solo
        self._slot_of: dict[Attempt, int] = {}
        self._free = list(range(slots))
        self._questions: dict[int, AskAdapter] = {}
        self._numbers = count(1)

    @property
    def empty(self) -> bool:
        """Whether nothing is lost if it ends now."""
        return not self.attempts and not self._questions

    # ── attempts ─────────────────────────────────────────────────────────────────────────────────────────────────────

    def take(self, attempt: Attempt) -> None:
        """Run an attempt, or tell that it was not taken."""
        facts = self.process.tools.get(attempt.grant.tool)
        # The last look before the body may begin (L7): the clock is read here, not when the mark was asked for.
        if not self._free or self.process.busy_s or not attempt.session.trusted():
            self._tell(NotTaken(attempt))
            return
        if facts is not None and facts.isolation is Isolation.PROCESS and not self._solo:
            self._tell(Ran(attempt, _refused(attempt)))
            return
        idle_timeout_s = attempt.terms.idle_timeout_s or (facts and facts.idle_timeout_s) or 0.0
        run = _run_of(attempt, self._free.pop(), idle_timeout_s)
        # Before it is sent: whatever goes wrong from here on, the attempt is told to have died with the process.
        self.attempts[run.slot], self._slot_of[attempt] = attempt, run.slot
        try:
            self.process.run(run)
        except ActorStoppedError:
            self._free_slot(run.slot)
            self._tell(NotTaken(attempt))
        except PayloadTooLargeError as error:
            self._free_slot(run.slot)
            self._tell(Ran(attempt, _not_sent(run, error)))

    def cancel(self, attempt: Attempt) -> None:
        """Cancel an attempt, if it runs here."""
        if attempt in self._slot_of:
            self.process.cancel(self._slot_of[attempt])

    def tell_dead(self, why: str, reason: HostExit | None = None) -> None:
        """The process has ended: tell what became of all that it had.

        What it was ended for is told as a timeout or a cancel that is over, for nothing of it can send any more. The
        others have died with it. Each is forgotten as it is told, so that this may be done again.
        """
        for slot, attempt in list(self.attempts.items()):
            outcome = _ended_for(slot, reason)
            attempt.gone = True
            self._tell(Died(attempt, why) if outcome is None else Ran(attempt, _ended(slot, attempt, outcome)))
            self._free_slot(slot)
        for question in self._questions.values():
            tell_verdict(question, Verdict.unknown("the host of the adapter ended"))
        self._questions.clear()

    def _free_slot(self, slot: int) -> None:
        del self._slot_of[self.attempts.pop(slot)]
        self._free.append(slot)

    def _tell(self, message: object) -> None:
        self.owner.find(TURNS).tell(message)

    # ── what the process tells ───────────────────────────────────────────────────────────────────────────────────────

    @_guarded
    def on_done(self, done: Done) -> None:
        """An attempt has ended; its slot is free."""
        attempt = self.attempts.get(done.slot)
        if attempt is None:
            return
        self._tell(Ran(attempt, done))
        self._free_slot(done.slot)
        self.ran += 1
        self.owner.look_at(self)

    @_guarded
    def on_mark(self, mark: Mark) -> None:
        """A tool waits for its mark: yes only while its session is trusted and its attempt stands."""
        attempt = self.attempts.get(mark.slot)
        if attempt is None:
            return
        before = attempt.boundary
        # From now on the mark may be on record; told so before it is, so that no shutdown takes the attempt for unsent.
        attempt.boundary = max(before, mark.boundary, key=tuple(Boundary).index)
        attempt.ref = mark.ref or attempt.ref
        wanted = MarkWanted(attempt, mark.boundary, mark.ref or "")

        def answer(told: asyncio.Future[MarkReply | None]) -> None:
            word = told.result()
            ok = word is MarkReply.MARKED and attempt.phase is Phase.RUNNING and attempt.session.trusted()
            if not ok:
                attempt.boundary = before
                attempt.mark_missed = word in {MarkReply.STOPPED, None}
            why = "" if ok else str(word or "not trusted")
            self.process.mark_reply(mark, ok=ok, why=why, begin_by_s=attempt.session.trusted_until_s)

        wanted.answer.add_done_callback(self.owner.guard(answer))
        self.owner.find("/worker/control/marks").tell(wanted)

    @_guarded
    def on_progress(self, progress: Progress) -> None:
        """An attempt has told how far it is. It is for people: where nobody keeps it, it is dropped."""
        attempt = self.attempts.get(progress.slot)
        if attempt is not None:
            with suppress(ActorStoppedError):
                told = Progressed(attempt, progress.done, progress.total, progress.note)
                self.owner.find("/worker/control/progress").tell(told)

    @_guarded
    def on_pong(self, pong: Pong) -> None:
        """The process's loop is alive; its lag is kept by the process."""
        del pong
        self.owner.look_at(self)

    @_guarded
    def on_busy(self) -> None:
        """The process's loop does not answer."""
        self.owner.fell_silent(self)

    @_guarded
    def on_answers(self, silent_s: float) -> None:
        """The process's loop answers again."""
        self.owner.answers(self, silent_s)

    @_guarded
    def on_exit(self, reason: HostExit) -> None:
        """The process has ended, and nothing of it runs."""
        self.owner.ended(self, reason)

    # ── questions ────────────────────────────────────────────────────────────────────────────────────────────────────

    def ask(self, question: AskAdapter) -> None:
        """Ask an adapter in this process."""
        doubt, number = question.doubt, next(self._numbers)
        self._questions[number] = question
        ask = Ask(
            slot=number,
            tool=doubt.tool,
            request_id=doubt.request_id,
            effect_id=doubt.effect_id,
            idempotency_key=doubt.key or None,
            external_operation_ref=doubt.ref or None,
            args=doubt.args,
            unknown_since_s=doubt.unknown_for_ms / 1000,
            attempt=doubt.attempt,
            timeout_s=question.timeout_s,
        )
        try:
            self.process.ask(ask)
        except (ActorStoppedError, PayloadTooLargeError) as error:
            del self._questions[number]
            tell_verdict(question, Verdict.unknown(error.what))

    @_guarded
    def on_answer(self, answer: Answer) -> None:
        """An adapter has answered."""
        question = self._questions.pop(answer.slot, None)
        if question is not None:
            tell_verdict(question, _verdict(answer))
            self.owner.look_at(self)


def _run_of(attempt: Attempt, slot: int, idle_timeout_s: float) -> Run:
    grant = attempt.grant
    return Run(
        slot=slot,
        request_id=grant.request_id,
        effect_id=grant.effect_id,
        tool=grant.tool,
        fence=grant.fence,
        attempt=grant.attempt,
        args=grant.args,
        timeout_s=attempt.timeout_s,
        boundary=attempt.boundary,
        effect_class=grant.effect_class,
        mode=grant.boundary_mode,
        begin_by_s=attempt.session.trusted_until_s,
        key=grant.key,
        idle_timeout_s=idle_timeout_s,
    )


def _not_sent(run: Run, error: PayloadTooLargeError) -> Done:
    """The end of a run that cannot be sent, told here in its host's place: no other host could be sent it either."""
    return Done(
        run.slot,
        Outcome.NOT_EXECUTED,
        Boundary.NOT_CROSSED,
        error_class="mycelium.PayloadTooLarge",
        detail=str(error),
        fence=run.fence,
    )


def _refused(attempt: Attempt) -> Done:
    """A host that is shared has it declared for a process of its own: it is granted to one that has."""
    what = "This host is shared, and has the tool declared for a process of its own."
    return Done(
        0,
        Outcome.REFUSED,
        attempt.boundary,
        error_class="mycelium.DeclaredAnew",
        detail=what,
        fence=attempt.grant.fence,
    )


def _ended_for(slot: int, reason: HostExit | None) -> Outcome | None:
    """What the process was ended for in this slot; None: for something else."""
    if reason is None:
        return None
    if slot in reason.overdue:
        return Outcome.TIMEOUT
    # A stop is no death: what may run again is given back uncharged, however often its worker is deployed anew.
    return Outcome.CANCELLED if reason.why in {ExitReason.CANCELLED, ExitReason.STOPPED} else None


def _ended(slot: int, attempt: Attempt, outcome: Outcome) -> Done:
    return Done(slot, outcome, attempt.boundary, ref=attempt.ref or None, fence=attempt.grant.fence)


def tell_verdict(question: AskAdapter, verdict: Verdict) -> None:
    """Answer a question, if nobody has."""
    if not question.answer.done():
        question.answer.set_result(verdict)


def _verdict(answer: Answer) -> Verdict:
    match answer.verdict:
        case VerdictWord.COMPLETED:
            return Verdict.completed(json.loads(answer.body), json.loads(answer.evidence))
        case VerdictWord.NOT_EXECUTED:
            return Verdict.not_executed(json.loads(answer.evidence))
        case VerdictWord.UNKNOWN:
            return Verdict.unknown(answer.reason)
