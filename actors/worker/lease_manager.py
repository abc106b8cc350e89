"""Opens the worker's session and renews it on a connection of its own; tells when it is lost, or cannot be trusted."""

from __future__ import annotations

import json
import logging

from ...leases.clock import Clock
from ...leases.errors import ServerError, ServerUnfitError
from ...leases.session import Renewal, Session, SessionSettings, Standing
from ...leases.store import Store
from ..runtime import Actor, StopReason
from .messages import (
    Describe,
    EpochChanged,
    KnownTools,
    SessionLost,
    SessionOpened,
    Suspect,
    TrustLost,
    WhichSession,
)

log = logging.getLogger(__name__)

_TICK_S = 0.01


LeaseManagerMessage = Suspect | WhichSession | Describe | KnownTools


class LeaseManager(Actor[LeaseManagerMessage]):
    """Thin: what a renewal is, and how long it is trusted, is in `leases.session`."""

    def __init__(self, store: Store, settings: SessionSettings, clock: Clock, name: str, info: bytes) -> None:
        self._store = store
        self._settings = settings
        self._clock = clock
        self._name = name
        self._info = info
        self._tools: frozenset[str] = frozenset()
        self._session: Session | None = None
        self._told_untrusted = False
        self._opening = False

    async def started(self) -> None:
        """Open the first session; a worker without one does not start."""
        await self._open()
        self.spawn_task(self._renew_for_ever())
        self.spawn_task(self._watch_trust())

    async def receive(self, message: LeaseManagerMessage) -> object:
        """Renew at once: a turn heard something that only a renewal can settle. Or say which session it is, or tell."""
        if isinstance(message, WhichSession):
            return "" if self._session is None else self._session.id
        if isinstance(message, Describe):
            self._info = message.info
            await self._describe()
            return None
        if isinstance(message, KnownTools):
            if message.names != self._tools:
                self._tools = message.names
                await self._describe()
            return None
        if message.session is self._session:
            await self._renew()
            if message.session is self._session:
                # The store renews what it called lost a moment ago, as after a step of its clock: it is taken up again.
                self.find("turns").tell(SessionOpened(message.session))
        return None

    async def stopping(self, reason: StopReason) -> None:
        """End the session in good order; what it still holds after a crash is left to run out."""
        if self._session is None or reason is StopReason.CRASHED:
            return
        try:
            word = await self._session.close()
        except ServerError as away:
            log.warning("session not closed, it runs out by itself: %s", away)
        else:
            log.info("session %s %s", self._session.id, word)

    async def _describe(self) -> None:
        try:
            if self._session is not None:
                await self._session.describe(self._whole_info())
        except ServerError as away:
            log.warning("people are not told of it yet: %s", away)

    def _whole_info(self) -> bytes:
        return json.dumps(json.loads(self._info) | {"tools": sorted(self._tools)}).encode()

    async def _open(self) -> None:
        session = Session(self._store, self._settings, self._clock, name=self._name, info=self._whole_info())
        await session.open()
        self._session = session
        self._told_untrusted = False
        log.info("session %s opened in epoch %d", session.id, session.epoch)
        for sibling in ("marks", "turns"):
            self.find(sibling).tell(SessionOpened(session))

    async def _renew_for_ever(self) -> None:
        # Its own task, not a tick between messages: nothing that an actor does may stand in front of a renewal.
        while True:
            await self.timer.sleep(self._settings.renew_every_s)
            await self._renew()

    async def _watch_trust(self) -> None:
        """Tell the moment at which the holder's own deadline passes, not the next renewal that fails after it."""
        while True:
            session = self._session
            left_s = session.remaining_trust_s() if session is not None else 0.0
            if session is not None and not left_s and not self._told_untrusted and not session.lost.is_set():
                log.error("session %s is not trusted any more: what it runs is cancelled", session.id)
                self._told_untrusted = True
                self.find("turns").tell(TrustLost(session))
            await self.timer.sleep(left_s + _TICK_S if left_s else self._settings.renew_every_s / 4)

    async def _renew(self) -> None:
        session = self._session
        if session is None:
            await self._open_again()
            return
        renewal = await session.renew_once()
        if session is not self._session:
            return
        if renewal.standing is Standing.LOST:
            await self._lost(session, renewal)
        elif renewal.standing is Standing.UNREACHABLE:
            self._unreachable(session, renewal)
        else:
            self._told_untrusted = False

    async def _lost(self, session: Session, renewal: Renewal) -> None:
        log.error(
            "session %s lost after a gap of %.3f s: %s",
            session.id,
            renewal.gap_s,
            renewal.why,
        )
        self._session = None
        # Another epoch is no loss by itself: a server that started again may have kept all that it acknowledged.
        turned = session.epoch != self._store.epoch
        self.find("turns").tell(EpochChanged(session) if turned else SessionLost(session))
        await self._open_again()

    async def _open_again(self) -> None:
        """Open the next session; a server that is away now is asked again at the next interval."""
        if self._opening:
            return
        self._opening = True
        try:
            await self._open()
        except ServerUnfitError:
            raise
        except ServerError as away:
            log.warning("no session yet: %s", away)
        finally:
            self._opening = False

    def _unreachable(self, session: Session, renewal: Renewal) -> None:
        trust_s = session.remaining_trust_s()
        log.warning("renewal failed, gap %.3f s, trusted for %.3f s more: %s", renewal.gap_s, trust_s, renewal.why)
