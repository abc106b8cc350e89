"""The attempts that a worker holds, from the grant to the settlement.

An attempt goes through named steps: granted, marked if its class needs it, started in a host, ended, settled. Each step
is taken only while the session that holds it is trusted; whatever has not begun when something goes wrong is given
back.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections import Counter, deque
from collections.abc import Callable, Iterable
from typing import Any, Protocol

from ...leases.clock import Clock
from ...leases.session import Session
from ...ledger.mark import MarkReply
from ...ledger.states import Boundary, BoundaryMode, EffectClass
from ...ledger.turn import Grant, Settlement
from ..hosts.frames import Done
from ..job_options import RunTerms
from ..runtime import Ref
from ..terms import Isolation
from .attempt import Attempt, Phase
from .messages import CancelRun, EndHost, MarkTold, MarkWanted, Start
from .settling import died, given_back, out_of_window, settlement_of
from .slots import Slots

log = logging.getLogger(__name__)


class Owner(Protocol):
    """The actor that the attempts belong to, as they need it."""

    @property
    def ref(self) -> Ref[Any]:
        """Where answers to marks are told."""
        ...

    def find(self, path: str) -> Ref[Any]:
        """See `Actor.find`."""
        ...

    def guard(self, fn: Callable[..., object]) -> Callable[..., None]:
        """See `Actor.guard`."""
        ...


class Holding:
    """Owns every attempt of a worker, and the settlements that wait for a turn.

    Attributes:
        slots: the free places of the hosts.
        ended: settlements that wait for a turn, with the session that each goes under.
        stopping: nothing starts any more.
    """

    def __init__(self, owner: Owner, slots: Slots, clock: Clock, rng: random.Random) -> None:
        self.slots = slots
        self.ended: deque[tuple[Session, Settlement]] = deque()
        self.stopping = False
        self.cut_off = asyncio.Event()
        self._owner = owner
        self._clock = clock
        self._rng = rng
        self._attempts: set[Attempt] = set()
        self._waiting: Counter[bool] = Counter()
        """Attempts that are granted and have no host yet, by whether they run alone."""

    def __len__(self) -> int:
        return len(self._attempts)

    @property
    def queues(self) -> Counter[str]:
        """How many attempts are held of each queue."""
        return Counter(attempt.grant.queue for attempt in self._attempts)

    @property
    def running(self) -> int:
        """How many attempts run in hosts."""
        return sum(attempt.phase is Phase.RUNNING for attempt in self._attempts)

    def room(self, *, solo: bool) -> int:
        """How many more attempts could start, of those that share a host or of those that run alone."""
        return self.slots.room(solo=solo) - self._waiting[solo]

    # ── steps ────────────────────────────────────────────────────────────────────────────────────────────────────────

    def grant(self, session: Session, grant: Grant) -> None:
        """Begin an attempt: its mark, or at once its body."""
        facts = self.slots.facts(grant.tool)
        if facts is None:
            self.ended.append((session, given_back(grant)))
            return
        alone = facts.isolation is Isolation.PROCESS
        attempt = Attempt(grant, facts.binding, session, terms=RunTerms.read(grant.run), alone=alone)
        if grant.left_ms is not None:
            attempt.due_s = self._clock.now_s() + grant.left_ms / 1000
        self._attempts.add(attempt)
        self._waiting[alone] += 1
        if not self._may_start(attempt):
            self.end(attempt, given_back(grant))
        elif window_over(attempt):
            self.end(attempt, out_of_window(attempt))
        elif grant.boundary_mode is BoundaryMode.AUTOMATIC:
            self._want_mark(attempt)
        else:
            self._start(attempt)

    def _may_start(self, attempt: Attempt) -> bool:
        return not self.stopping and not attempt.cancelled and attempt.session.trusted()

    def _want_mark(self, attempt: Attempt) -> None:
        attempt.phase = Phase.MARKING
        wanted = MarkWanted(attempt, Boundary.MAYBE_CROSSED)

        def answer(told: asyncio.Future[MarkReply | None]) -> None:
            self._owner.ref.tell(MarkTold(attempt, told.result()))

        wanted.answer.add_done_callback(self._owner.guard(answer))
        self._owner.find("marks").tell(wanted)

    def marked(self, attempt: Attempt, word: MarkReply | None) -> None:
        """The store has answered its mark; None: it could not be asked in time."""
        if attempt.phase is not Phase.MARKING:
            return
        if word is MarkReply.MARKED and self._may_start(attempt):
            attempt.boundary = Boundary.MAYBE_CROSSED
            self._start(attempt)
        elif word in {MarkReply.MARKED, MarkReply.STOPPED, None}:
            # Written or not: this holder has sent nothing and will not, and it alone can know that.
            self.end(attempt, given_back(attempt.grant))
        else:
            log.warning("mark of fence %s refused: %s; its effect does not start", attempt.grant.fence, word)
            self._forget(attempt)

    def _start(self, attempt: Attempt) -> None:
        attempt.timeout_s = self._time_for(attempt)
        host = self.slots.take(solo=attempt.alone) if attempt.timeout_s > 0 else None
        if host is None:
            self.end(attempt, given_back(attempt.grant))
            return
        self._waiting[attempt.alone] -= 1
        attempt.host = host
        attempt.phase = Phase.RUNNING
        self._host(host).tell(Start(attempt))

    def _time_for(self, attempt: Attempt) -> float:
        """Seconds that the body may take: until its timeout, or until the deadline of its transition."""
        declared_s = attempt.terms.timeout_s or attempt.binding.timeout_s
        return min(declared_s, attempt.due_s - self._clock.now_s())

    def not_taken(self, attempt: Attempt) -> None:
        """Its host did not take it: nothing of it began."""
        self.slots.give_back(attempt.host)
        self.end(attempt, given_back(attempt.grant))

    def died(self, attempt: Attempt, why: str) -> None:
        """Its process ended under it: the host may go on with another one, so that its slot is free."""
        self.slots.give_back(attempt.host)
        self.end(attempt, died(attempt, why))

    def ran(self, attempt: Attempt, done: Done) -> None:
        """Its host has told how it ended."""
        self.slots.give_back(attempt.host)
        settlement = settlement_of(attempt, done, self._rng)
        if settlement.error and attempt.phase is not Phase.ENDED:
            # Class and place only: what an exception says may be anybody's secret. The record has its words.
            log.warning(
                "tool %s: %s at %s; %s", attempt.grant.tool, settlement.error, done.where or "?", settlement.verb
            )
        self.end(attempt, settlement)

    def end(self, attempt: Attempt, settlement: Settlement) -> None:
        """Queue its settlement, once."""
        if attempt.phase is not Phase.ENDED:
            self.ended.append((attempt.session, settlement))
        self._forget(attempt)

    def _forget(self, attempt: Attempt) -> None:
        if attempt in self._attempts:
            self._attempts.discard(attempt)
            self._waiting[attempt.alone] -= attempt.phase in {Phase.GRANTED, Phase.MARKING}
        attempt.phase = Phase.ENDED

    # ── when things go wrong, or end ─────────────────────────────────────────────────────────────────────────────────

    def cancel_asked(self, asked: Iterable[tuple[str, str]]) -> None:
        """Somebody asked for the cancel of these; told again until each has ended."""
        wanted = set(asked)
        for attempt in [a for a in self._attempts if (a.grant.request_id, a.grant.fence) in wanted and not a.cancelled]:
            attempt.cancelled = True
            log.info("asked to cancel fence %s, which is %s", attempt.grant.fence, attempt.phase)
            if attempt.phase is Phase.RUNNING:
                self._host(attempt.host).tell(CancelRun(attempt))
            else:
                # Nothing of it was sent, mark or no mark: the store cancels what is given back.
                self.end(attempt, given_back(attempt.grant))

    def running_under(self, session: Session) -> list[Attempt]:
        """The attempts of a session that run in hosts."""
        return [a for a in self._attempts if a.session is session and a.phase is Phase.RUNNING]

    def cancel(self, attempts: Iterable[Attempt]) -> None:
        """Cancel what still runs of these; what comes of each is told by its host."""
        for attempt in attempts:
            if attempt.phase is Phase.RUNNING:
                self._host(attempt.host).tell(CancelRun(attempt))

    def give_back_unsent(self) -> None:
        """Nothing starts any more, and what cannot have sent anything is given back."""
        self.stopping = True
        for attempt in list(self._attempts):
            unsent = attempt.boundary is Boundary.NOT_CROSSED and attempt.phase is Phase.RUNNING
            if unsent:
                self._host(attempt.host).tell(CancelRun(attempt))
                self.end(attempt, given_back(attempt.grant))

    def end_hosts(self) -> bool:
        """End the hosts with what they run; True: something ran."""
        hosts = {attempt.host for attempt in self._attempts if attempt.phase is Phase.RUNNING}
        for host in hosts:
            log.warning("the grace is over: host %s is ended with what it runs", host)
            self._host(host).tell(EndHost())
        return bool(hosts)

    def _host(self, host: str) -> Ref[Start | CancelRun | EndHost]:
        return self._owner.find(f"hosts/{host}")


def window_over(attempt: Attempt) -> bool:
    """Whether a keyed attempt, if it were sent again now, could reach a provider that has forgotten the key (E6)."""
    window_s, age_s = attempt.binding.key_window_s, attempt.grant.age_ms / 1000
    if attempt.grant.effect_class is not EffectClass.KEYED_MUTATE or window_s is None or not age_s:
        return False
    # Below 0 the server's clock was set back: nobody can say how old the key is.
    # Until then its body may begin, and so long it may take.
    longest_s = attempt.session.remaining_trust_s() + (attempt.terms.timeout_s or attempt.binding.timeout_s)
    return age_s < 0 or age_s + longest_s >= window_s
