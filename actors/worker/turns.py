"""The worker's main loop: settles what ended and claims for the free slots, two turns in flight."""

from __future__ import annotations

import asyncio
import logging
import random
from collections import Counter, deque
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from itertools import count

from ...leases.clock import Clock
from ...leases.errors import ServerError
from ...leases.session import Session
from ...leases.store import Store
from ...leases.subscription import Heard
from ...ledger.cancel import CANCEL_BELL
from ...ledger.record import still_held
from ...ledger.states import Settle, Settled
from ...ledger.turn import QueueItem, Settlement, TurnReply, TurnReport, take_turn
from ..health.vitals import SessionState, TurnsVitals
from ..runtime import Actor
from .attempt import Attempt
from .holding import Holding
from .messages import (
    Died,
    Drain,
    EpochChanged,
    HostAnswers,
    HostBusy,
    HostGone,
    HostReady,
    MarkTold,
    NotTaken,
    Quiet,
    Ran,
    SessionLost,
    SessionOpened,
    Suspect,
    TakeAgain,
    TellVitals,
    TellWhenDone,
    ToolsChanged,
    TrustLost,
)
from .queues_in_turn import QueuesInTurn
from .settings import WorkerSettings
from .slots import Slots

log = logging.getLogger(__name__)

LANES = 2
BATCH = 50
"""Settlements and claims of one turn: so many keep a script below 10 ms."""
_AWAY_S = 5.0
_MOMENT_S = 1.0
"""What is due within it is waited for by a worker that ends with its work."""

TurnsMessage = (
    SessionOpened
    | SessionLost
    | EpochChanged
    | TrustLost
    | HostReady
    | HostGone
    | HostBusy
    | HostAnswers
    | ToolsChanged
    | MarkTold
    | Ran
    | NotTaken
    | Died
    | Quiet
    | TakeAgain
    | Drain
    | TellWhenDone
    | TellVitals
)


class Turns(Actor[TurnsMessage]):
    """Takes the turns. The attempts that they bring are kept by `Holding`."""

    def __init__(self, store: Store, settings: WorkerSettings, clock: Clock, rng: random.Random) -> None:
        self._store = store
        self._settings = settings
        self._clock = clock
        self._rng = rng
        self._session: Session | None = None
        self._slots = Slots(rng)
        self._held = Holding(self, self._slots, clock, rng)
        self._queues = QueuesInTurn(settings.queues, rng)
        self._asked: Counter[bool] = Counter()
        """Slots that turns in flight have asked for, by whether their attempts run alone."""
        self._in_flight = 0
        self._ops = count(1)
        self._wake = asyncio.Event()
        self._rung = True
        """Something may be ready: told by the bell, by a full answer, or at the start."""
        self._look_at_s = 0.0
        self._cancels_rung = False
        """Somebody may have asked for the cancel of what runs here: a turn tells, also one that claims nothing."""
        self._quiet = False
        self._drain: Drain | None = None
        self._when_done: TellWhenDone | None = None
        self._answered_at_s = clock.now_s()
        self._held_back = False
        self._counts: Counter[str] = Counter()
        self._settled: Counter[Settle] = Counter()

    async def started(self) -> None:
        """Begin to take turns."""
        for lane in range(LANES):
            self.spawn_task(self._take_turns_for_ever(lane))
        self.spawn_task(self._hear_bell())

    async def receive(self, message: TurnsMessage) -> object:  # noqa: C901 - one branch a message, no logic in it
        """Take one step with one attempt, or learn what stands."""
        if isinstance(message, TellVitals):
            return self._vitals()
        match message:
            case MarkTold(attempt, word):
                self._held.marked(attempt, word)
            case Ran(attempt, done):
                self._held.ran(attempt, done)
            case NotTaken(attempt):
                self._held.not_taken(attempt)
            case Died(attempt, why):
                self._held.died(attempt, why)
            case SessionOpened() | SessionLost() | TrustLost() | EpochChanged():
                self._hear_of_session(message)
            case HostReady() | HostGone() | HostBusy() | HostAnswers() | ToolsChanged():
                self._hear_of_host(message)
            case Quiet() | TakeAgain():
                self._quiet = isinstance(message, Quiet)
                self._rung = True
            case TellWhenDone():
                self._when_done = message
                self._rung = True
            case Drain():
                self._begin_drain(message)
        self._wake.set()
        self._tell_idle()
        return None

    def _hear_of_session(self, message: SessionOpened | SessionLost | TrustLost | EpochChanged) -> None:
        match message:
            case SessionOpened(session):
                self._session = session
                self._rung = True
            case SessionLost(session) | TrustLost(session):
                self._held.cancel(self._held.running_under(session))
            case EpochChanged(session):
                self.spawn_task(self._cancel_forgotten(self._held.running_under(session)))

    def _hear_of_host(self, message: HostReady | HostGone | HostBusy | HostAnswers | ToolsChanged) -> None:
        match message:
            case HostReady(host, slots, tools, solo):
                self._slots.add(host, slots, tools, solo=solo)
                self._rung = True
            case HostGone(host):
                self._slots.remove(host)
            case HostBusy(host):
                self._slots.close(host)
            case HostAnswers(host):
                self._slots.open(host)
                self._rung = True
            case ToolsChanged(_, tools):
                self._slots.know(tools)
                self._rung = True

    # ── turns ────────────────────────────────────────────────────────────────────────────────────────────────────────

    async def _take_turns_for_ever(self, lane: int) -> None:
        while True:
            await self._until_due()
            await self._take_turn(lane)

    async def _until_due(self) -> None:
        while not self._held.ended:
            left_s = self._look_at_s - self._clock.now_s()
            if self._claimable() and (self._rung or left_s <= 0):
                return
            self._wake.clear()
            try:
                # Without a bell the poll alone makes progress (Q5). A worker that is full looks as often, for it may be
                # asked to cancel what it runs.
                async with asyncio.timeout(max(left_s, 0.0) if self._claimable() else self._settings.poll_s):
                    await self._wake.wait()
            except TimeoutError:
                self._cancels_rung = not self._claimable()
            if self._cancels_rung and len(self._held) and self._session is not None and not self._in_flight:
                return

    def _may_claim(self) -> bool:
        session = self._session
        return session is not None and not self._quiet and self._drain is None and session.trusted()

    def _room(self, *, solo: bool) -> int:
        if not self._may_claim():
            return 0
        return max(0, min(BATCH, self._held.room(solo=solo) - self._asked[solo]))

    def _claimable(self) -> bool:
        return self._room(solo=False) > 0 or self._room(solo=True) > 0

    async def _take_turn(self, lane: int) -> None:
        session, batch = self._next_ended()
        if session is None:
            return
        current = session is self._session
        slots, solo = (self._room(solo=False), self._room(solo=True)) if current else (0, 0)
        held = self._held.queues if self._queues.bounded else Counter[str]()
        queues = self._queues.items(slots + solo, held) if slots + solo else []
        if queues:
            self._rung = False
        self._cancels_rung = False
        self._look_at_s = self._clock.now_s() + self._settings.poll_s * self._rng.uniform(0.75, 1.25)
        with self._flying(slots, solo, queues):
            report = await take_turn(
                self._store.calls,
                session_id=session.id,
                epoch=session.epoch,
                lane=lane,
                op=str(next(self._ops)),
                slots=slots if queues else 0,
                solo=solo if queues else 0,
                ended=batch,
                known=self._slots.tools_in_turn() if queues else {},
                queues=queues,
                patience_s=None,
            )
        self._took(session, slots + solo if queues else 0, batch, report)

    @contextmanager
    def _flying(self, slots: int, solo: int, queues: Sequence[QueueItem]) -> Generator[None]:
        """What a turn in flight may bring is asked for by no other one."""
        self._asked.update({False: slots, True: solo})
        self._queues.reserve(queues)
        self._in_flight += 1
        try:
            yield
        finally:
            self._asked.subtract({False: slots, True: solo})
            self._queues.unreserve(queues)
            self._in_flight -= 1

    def _next_ended(self) -> tuple[Session | None, list[Settlement]]:
        """The settlements of one session, oldest first; the current session when there are none."""
        ended = self._held.ended
        if not ended:
            return self._session, []
        session = ended[0][0]
        batch: list[Settlement] = []
        others: deque[tuple[Session, Settlement]] = deque()
        while ended and len(batch) < BATCH:
            held_by, settlement = ended.popleft()
            if held_by is session:
                batch.append(settlement)
            else:
                others.append((held_by, settlement))
        ended.extendleft(reversed(others))
        return session, batch

    def _took(self, session: Session, slots: int, batch: list[Settlement], report: TurnReport) -> None:
        self._note(batch, report)
        if report.standing is not TurnReply.OK and session is self._session:
            log.error("the store says %s of session %s", report.standing, session.id)
            self._session = None
            self.find("lease_manager").tell(Suspect(session))
        if slots:
            self._look_again(slots, report)
        for grant in report.grants:
            self._held.grant(session, grant)
        self._held.cancel_asked(report.cancels)
        self._wake.set()
        self._tell_idle()

    def _note(self, batch: list[Settlement], report: TurnReport) -> None:
        for settlement, word in zip(batch, report.settled, strict=True):
            if word in {Settled.SETTLED, Settled.LATE}:
                self._settled[settlement.verb] += 1
            else:
                log.warning("settlement %s of fence %s refused: %s", settlement.verb, settlement.fence, word)
        self._answered_at_s = self._clock.now_s()
        self._counts["ok" if report.standing is TurnReply.OK else "refused"] += 1
        self._counts["claimed"] += len(report.grants)

    def _look_again(self, slots: int, report: TurnReport) -> None:
        """When the next look is due: at once after a full answer, else when the store said that there may be more."""
        self._held_back = report.held_back
        if len(report.grants) == slots:
            self._rung = True
        elif report.wait_s is not None:
            self._look_at_s = min(self._look_at_s, self._clock.now_s() + report.wait_s)
        nothing = report.standing is TurnReply.OK and not report.grants
        idle = not (len(self._held) or self._held.ended or self._in_flight)
        later = report.wait_s is None or report.wait_s > _MOMENT_S
        # A bucket fills by itself, and a host that is still to come, or back, may run what waits.
        settled = later and not report.metered and self._slots.all_there(self._settings.hosts, self._settings.solo)
        if self._when_done is not None and nothing and idle and settled:
            self._when_done.done.set()

    async def _hear_bell(self) -> None:
        async for told in self._store.listen(self._store.keys.bell()):
            asks = isinstance(told, Heard) and told.body == CANCEL_BELL
            self._rung = self._rung or not asks
            self._cancels_rung = self._cancels_rung or asks
            self._wake.set()

    # ── when things go wrong, or end ─────────────────────────────────────────────────────────────────────────────────

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
                self._held.cancel([attempt])

    def _begin_drain(self, drain: Drain) -> None:
        """Give back what cannot have sent anything; give the rest its grace."""
        self._drain = drain
        self._held.give_back_unsent()
        self.timer.call_later(drain.grace_s, self.guard(self._end_grace))
        self.timer.call_later(min(drain.grace_s, _AWAY_S), self.guard(self._give_up_on_server))

    def _give_up_on_server(self) -> None:
        """A turn that is not answered by now may never be: nothing runs, and what it claimed runs out."""
        if self._drain is not None and not (len(self._held) or self._held.ended):
            self._drain.idle.set()

    def _end_grace(self) -> None:
        if self._held.end_hosts() and self._drain is not None:
            self._drain.cut_off.set()

    def _tell_idle(self) -> None:
        if self._drain is not None and not (len(self._held) or self._held.ended or self._in_flight):
            self._drain.idle.set()

    def _vitals(self) -> TurnsVitals:
        session = self._session
        standing = SessionState.NONE
        if session is not None:
            standing = SessionState.TRUSTED if session.trusted() else SessionState.UNTRUSTED
        room = {alone: self._held.room(solo=alone) for alone in (False, True)}
        return TurnsVitals(
            session=standing,
            hosts=self._slots.hosts,
            free_slots=sum(max(0, free) for free in room.values()),
            running=self._held.running,
            held=len(self._held) + len(self._held.ended),
            quiet=self._quiet,
            draining=self._drain is not None,
            answered_s=self._clock.now_s() - self._answered_at_s,
            turns_ok=self._counts["ok"],
            turns_refused=self._counts["refused"],
            claimed=self._counts["claimed"],
            settled=dict(self._settled),
            open_queues=self._queues.open(self._held.queues),
            tools=frozenset(name for name, known in self._slots.tools_in_turn().items() if room[known.alone] > 0),
            held_back=self._held_back,
        )
