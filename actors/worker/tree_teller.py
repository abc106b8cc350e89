"""Tells the store how the actors of this worker stand, so that an operator can see it from anywhere."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import dataclass

from ...leases.errors import ActorError, MailboxFullError, ServerError
from ...leases.store import Store
from ...ledger.trees import ActorLine, TellReply, tell_tree
from ..runtime import Actor, ActorSnapshot, Failed
from .messages import WhichSession

log = logging.getLogger(__name__)

EVERY_S = 5.0
AFTER_FAILURE_S = 0.5
"""So soon after a failure it tells, with what else fails or is started again meanwhile."""
_PATIENCE_S = 2.0


@dataclass(frozen=True, slots=True)
class _Tell:
    """Something has failed a moment ago."""


class TreeTeller(Actor[Failed | _Tell]):
    """For people only: whatever goes wrong here is logged, and nothing waits for it."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._session_id = ""
        self._soon = False

    async def started(self) -> None:
        """Tell now and then for ever, and soon after each failure of any actor."""
        self.watch_failures()
        self.every(EVERY_S, self.tell, jitter=0.2)
        self._tell_soon()

    async def receive(self, message: Failed | _Tell) -> object:
        """Tell, a moment after a failure: what it brings down and who comes back is seen then."""
        match message:
            case Failed():
                self._tell_soon()
            case _Tell():
                self._soon = False
                await self.tell()
        return None

    async def tell(self) -> TellReply | None:
        """Tell once; None if there is nobody to tell, or nothing to tell it under."""
        session_id = await self._which_session()
        if not session_id:
            return None
        try:
            return await tell_tree(
                self._store.calls, session_id, list(lines(self.tree())), every_s=EVERY_S, patience_s=_PATIENCE_S
            )
        except ServerError as away:
            log.debug("tree not told: %s", away)
            return None

    def _tell_soon(self) -> None:
        if not self._soon:
            self._soon = True
            self.timer.call_later(AFTER_FAILURE_S, self.ref.tell_first, _Tell())

    async def _which_session(self) -> str:
        """The session of this worker; the last one that was known while its keeper is not to be asked."""
        try:
            keeper = self.find("control/lease_manager")
            self._session_id = await keeper.ask(WhichSession(), timeout_s=1.0, reply_type=str) or self._session_id
        except (ActorError, MailboxFullError):
            pass
        return self._session_id


def lines(snapshot: ActorSnapshot) -> Iterator[ActorLine]:
    """A tree as flat lines, parents before children."""
    yield ActorLine(
        path=snapshot.path,
        state=snapshot.state.value,
        depth=snapshot.depth,
        capacity=snapshot.capacity,
        restarts=snapshot.restarts,
        last_error=snapshot.last_error,
        age_s=round(snapshot.age_s, 1),
        failed_s_ago=None if snapshot.failed_s_ago is None else round(snapshot.failed_s_ago, 1),
    )
    for child in snapshot.children:
        yield from lines(child)
