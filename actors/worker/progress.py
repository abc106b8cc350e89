"""Tells the store how far running attempts have come: the latest word of each, gathered into one call."""

from __future__ import annotations

import logging

from ...leases.errors import ServerError
from ...leases.session import Session
from ...leases.store import Store
from ...ledger.progress import Progress, tell_progress
from ..runtime import Actor
from .attempt import Attempt
from .messages import Progressed

log = logging.getLogger(__name__)

EVERY_S = 0.25
BATCH = 100


class ProgressTeller(Actor[Progressed]):
    """For people only: what cannot be told is forgotten, and the next word stands for it."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._latest: dict[Attempt, Progress] = {}
        self._telling = False

    async def receive(self, message: Progressed) -> object:
        """Keep the latest word of an attempt."""
        self._latest[message.attempt] = Progress(message.done, message.total, message.note)
        if not self._telling:
            self._telling = True
            self.spawn_task(self._tell_soon())
        return None

    async def _tell_soon(self) -> None:
        try:
            while self._latest:
                await self._tell()
                await self.timer.sleep(EVERY_S)
        finally:
            self._telling = False

    async def _tell(self) -> None:
        latest, self._latest = self._latest, {}
        by_session: dict[Session, list[tuple[str, str, Progress]]] = {}
        for attempt, progress in latest.items():
            one = (attempt.grant.request_id, attempt.grant.fence, progress)
            by_session.setdefault(attempt.session, []).append(one)
        for session, told in by_session.items():
            for at in range(0, len(told), BATCH):
                try:
                    await tell_progress(self._store.calls, session.id, told[at : at + BATCH])
                except ServerError as away:
                    log.warning("progress of %d attempts not told: %s", len(told), away)
                    return
