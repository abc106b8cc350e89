"""The worker's main loop: settles what ended and claims for the free slots, two turns in flight.

An attempt goes through named steps: granted, marked if its class needs it, started in a host, ended, settled. Each step
is taken only while the session that holds it is trusted; whatever has not begun when something goes wrong is given
back.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections import deque
from itertools import count

from ..leases.clock import Clock
from ..leases.errors import ServerError
from ..leases.session import Session
from ..leases.store import Store
from ..ledger.mark import MarkReply
from ..ledger.record import still_held
from ..ledger.states import Boundary, BoundaryMode, EffectClass, Settled
from ..ledger.turn import Grant, Settlement, TurnReply, TurnReport, take_turn
from .attempt import Attempt, Phase
from .hosts.frames import Done
from .messages import (
    CancelRun,
    Died,
    Drain,
    EndHost,
    EpochChanged,
    HostGone,
    HostReady,
    MarkTold,
    MarkWanted,
    NotTaken,
    Ran,
    SessionLost,
    SessionOpened,
    Start,
    Suspect,
    TrustLost,
)
from .runtime import Actor, Ref
from .settings import WorkerSettings
from .settling import died, given_back, out_of_window, settlement_of
from .slots import Slots

log = logging.getLogger(__name__)

LANES = 2
_AWAY_S = 5.0
BATCH = 100

TurnsMessage = (
    SessionOpened
    | SessionLost
    | EpochChanged
    | TrustLost
    | HostReady
    | HostGone
    | MarkTold
    | Ran
    | NotTaken
    | Died
    | Drain
)


class Turns(Actor[TurnsMessage]):
    """Owns every attempt of this worker, and the count of its free slots."""

    def __init__(self, store: Store, settings: WorkerSettings, clock: Clock, rng: random.Random) -> None:
        self._store = store
        self._settings = settings
        self._clock = clock
        self._rng = rng
        self._session: Session | None = None
        self._slots = Slots(rng)
        self._attempts: set[Attempt] = set()
        self._waiting = 0
        """Attempts that are granted and have no host yet."""
        self._asked = 0
        """Slots that turns in flight have asked for."""
        self._in_flight = 0
        self._ended: deque[tuple[Session, Settlement]] = deque()
        self._ops = count(1)
        self._wake = asyncio.Event()
        self._rung = True
        """Something may be ready: told by the bell, by a full answer, or at the start."""
        self._look_at_s = 0.0
        self._drain: Drain | None = None

    async def started(self) -> None:
        """Begin to take turns."""
        for lane in range(LANES):
            self.spawn_task(self._take_turns_for_ever(lane))
        self.spawn_task(self._hear_bell())

    async def receive(self, message: TurnsMessage) -> object:  # noqa: C901 - one branch a message, no logic in it
        """Take one step with one attempt, or learn what stands."""
        match message:
            case SessionOpened(session):
                self._session = session
                self._rung = True
            case SessionLost(session) | TrustLost(session):
                self._cancel(self._running(session))
            case EpochChanged(session):
                self.spawn_task(self._cancel_forgotten(self._running(session)))
            case HostReady(host, slots, tools):
                self._slots.add(host, slots, tools)
                self._rung = True
            case HostGone(host):
                self._slots.remove(host)
            case MarkTold(attempt, word):
                self._marked(attempt, word)
            case Ran(attempt, done):
                self._slots.give_back(attempt.host)
                self._ran(attempt, done)
            case NotTaken(attempt):
                self._slots.give_back(attempt.host)
                self._end(attempt, given_back(attempt.grant))
            case Died(attempt, why):
                self._end(attempt, died(attempt, why))
            case Drain():
                self._begin_drain(message)
        self._wake.set()
        self._tell_idle()
        return None

    # ── turns ────────────────────────────────────────────────────────────────────────────────────────────────────────

    async def _take_turns_for_ever(self, lane: int) -> None:
        while True:
            await self._until_due()
            await self._take_turn(lane)

    async def _until_due(self) -> None:
        while not self._ended:
            left_s = self._look_at_s - self._clock.now_s()
            if self._claimable() and (self._rung or left_s <= 0):
                return
            self._wake.clear()
            try:
                # Without a bell the poll alone makes progress (Q5).
                async with asyncio.timeout(max(left_s, 0.0) if self._claimable() else self._settings.poll_s):
                    await self._wake.wait()
            except TimeoutError:
                continue

    def _claimable(self) -> int:
        if self._session is None or self._drain is not None or not self._session.trusted():
            return 0
        return max(0, min(BATCH, self._slots.free - self._asked - self._waiting))

    async def _take_turn(self, lane: int) -> None:
        session, batch = self._next_ended()
        slots = self._claimable() if session is self._session else 0
        if session is None:
            return
        self._rung = False if slots else self._rung
        self._look_at_s = self._clock.now_s() + self._settings.poll_s * self._rng.uniform(0.75, 1.25)
        self._asked += slots
        self._in_flight += 1
        try:
            report = await take_turn(
                self._store.calls,
                session_id=session.id,
                epoch=session.epoch,
                lane=lane,
                op=str(next(self._ops)),
                slots=slots,
                ended=batch,
                known=self._slots.tools_in_turn() if slots else {},
                patience_s=None,
            )
        finally:
            self._asked -= slots
            self._in_flight -= 1
        self._took(session, slots, batch, report)

    def _next_ended(self) -> tuple[Session | None, list[Settlement]]:
        """The settlements of one session, oldest first; the current session when there are none."""
        if not self._ended:
            return self._session, []
        session = self._ended[0][0]
        batch: list[Settlement] = []
        others: deque[tuple[Session, Settlement]] = deque()
        while self._ended and len(batch) < BATCH:
            held_by, settlement = self._ended.popleft()
            if held_by is session:
                batch.append(settlement)
            else:
                others.append((held_by, settlement))
        self._ended.extendleft(reversed(others))
        return session, batch

    def _took(self, session: Session, slots: int, batch: list[Settlement], report: TurnReport) -> None:
        for settlement, word in zip(batch, report.settled, strict=True):
            if word not in {Settled.SETTLED, Settled.LATE}:
                log.warning("settlement %s of fence %s refused: %s", settlement.verb, settlement.fence, word)
        if report.standing is not TurnReply.OK and session is self._session:
            log.error("the store says %s of session %s", report.standing, session.id)
            self._session = None
            self.find("lease_manager").tell(Suspect(session))
        if slots and len(report.grants) == slots:
            self._rung = True
        for grant in report.grants:
            self._granted(session, grant)
        self._wake.set()
        self._tell_idle()

    async def _hear_bell(self) -> None:
        async for _ in self._store.listen(self._store.keys.bell()):
            self._rung = True
            self._wake.set()

    # ── the steps of one attempt ─────────────────────────────────────────────────────────────────────────────────────

    def _granted(self, session: Session, grant: Grant) -> None:
        facts = self._slots.facts(grant.tool)
        if facts is None:
            self._ended.append((session, given_back(grant)))
            return
        attempt = Attempt(grant, facts.binding, session)
        self._attempts.add(attempt)
        self._waiting += 1
        if not self._may_start(attempt):
            self._end(attempt, given_back(attempt.grant))
        elif window_over(attempt):
            self._end(attempt, out_of_window(attempt))
        elif grant.boundary_mode is BoundaryMode.AUTOMATIC:
            self._want_mark(attempt)
        else:
            self._start(attempt)

    def _may_start(self, attempt: Attempt) -> bool:
        return self._drain is None and attempt.session.trusted()

    def _want_mark(self, attempt: Attempt) -> None:
        attempt.phase = Phase.MARKING
        wanted = MarkWanted(attempt, Boundary.MAYBE_CROSSED)
        wanted.answer.add_done_callback(lambda told: self.ref.tell(MarkTold(attempt, told.result())))
        self.find("marks").tell(wanted)

    def _marked(self, attempt: Attempt, word: MarkReply | None) -> None:
        if attempt.phase is not Phase.MARKING:
            return
        if word is MarkReply.MARKED and self._may_start(attempt):
            attempt.boundary = Boundary.MAYBE_CROSSED
            self._start(attempt)
        elif word in {MarkReply.MARKED, None}:
            # Written or not: this holder has sent nothing and will not, and it alone can know that.
            self._end(attempt, given_back(attempt.grant))
        else:
            log.warning("mark of fence %s refused: %s; its effect does not start", attempt.grant.fence, word)
            self._forget(attempt)

    def _start(self, attempt: Attempt) -> None:
        host = self._slots.take()
        if host is None:
            self._end(attempt, given_back(attempt.grant))
            return
        self._waiting -= 1
        attempt.host = host
        attempt.phase = Phase.RUNNING
        self._host(attempt.host).tell(Start(attempt))

    def _ran(self, attempt: Attempt, done: Done) -> None:
        settlement = settlement_of(attempt, done, self._rng)
        if settlement.error and attempt.phase is not Phase.ENDED:
            # Class and place only: what an exception says may be anybody's secret. The record has its words.
            log.warning(
                "tool %s: %s at %s; %s", attempt.grant.tool, settlement.error, done.where or "?", settlement.verb
            )
        self._end(attempt, settlement)

    def _end(self, attempt: Attempt, settlement: Settlement) -> None:
        if attempt.phase is not Phase.ENDED:
            self._ended.append((attempt.session, settlement))
        self._forget(attempt)

    def _forget(self, attempt: Attempt) -> None:
        if attempt in self._attempts:
            self._attempts.discard(attempt)
            self._waiting -= attempt.phase in {Phase.GRANTED, Phase.MARKING}
        attempt.phase = Phase.ENDED
        self._wake.set()

    # ── when things go wrong, or end ─────────────────────────────────────────────────────────────────────────────────

    def _running(self, session: Session) -> list[Attempt]:
        return [a for a in self._attempts if a.session is session and a.phase is Phase.RUNNING]

    def _cancel(self, attempts: list[Attempt]) -> None:
        for attempt in attempts:
            if attempt.phase is Phase.RUNNING:
                self._host(attempt.host).tell(CancelRun(attempt))

    async def _cancel_forgotten(self, attempts: list[Attempt]) -> None:
        """After a change of epoch: what the store still shows as begun goes on, and settles as if nothing had been."""
        for attempt in attempts:
            grant = attempt.grant
            try:
                stands = await still_held(
                    self._store, grant.request_id, fence=grant.fence, session_id=attempt.session.id
                )
            except ServerError:
                stands = False
            if not stands:
                log.error("the mark of fence %s is forgotten; its attempt is cancelled", grant.fence)
                self._cancel([attempt])

    def _begin_drain(self, drain: Drain) -> None:
        """Give back what cannot have sent anything; give the rest its grace."""
        self._drain = drain
        for attempt in list(self._attempts):
            unsent = attempt.boundary is Boundary.NOT_CROSSED and attempt.phase is Phase.RUNNING
            if unsent:
                self._host(attempt.host).tell(CancelRun(attempt))
                self._end(attempt, given_back(attempt.grant))
        self.timer.call_later(drain.grace_s, self._end_grace)
        self.timer.call_later(min(drain.grace_s, _AWAY_S), self._give_up_on_server)

    def _give_up_on_server(self) -> None:
        """A turn that is not answered by now may never be: nothing runs, and what it claimed runs out."""
        if self._drain is not None and not (self._attempts or self._ended):
            self._drain.idle.set()

    def _end_grace(self) -> None:
        for host in {attempt.host for attempt in self._attempts if attempt.phase is Phase.RUNNING}:
            log.warning("the grace is over: host %s is ended with what it runs", host)
            self._host(host).tell(EndHost())

    def _tell_idle(self) -> None:
        if self._drain is not None and not (self._attempts or self._ended or self._in_flight):
            self._drain.idle.set()

    def _host(self, host: str) -> Ref[Start | CancelRun | EndHost]:
        return self.find(f"hosts/{host}")


def window_over(attempt: Attempt) -> bool:
    """Whether a keyed attempt, if it were sent again now, could reach a provider that has forgotten the key (E6)."""
    window_s, age_s = attempt.binding.key_window_s, attempt.grant.age_ms / 1000
    if attempt.grant.effect_class is not EffectClass.KEYED_MUTATE or window_s is None or not age_s:
        return False
    # Below 0 the server's clock was set back: nobody can say how old the key is.
    return age_s < 0 or age_s + attempt.binding.timeout_s >= window_s
