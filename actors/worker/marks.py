"""Gathers the marks of many attempts into one call: no effect starts before the store has said yes to its mark."""

from __future__ import annotations

import asyncio
import logging

from ...leases.errors import ServerError
from ...leases.session import Session
from ...leases.store import Store
from ...ledger.mark import Mark, MarkReply, mark
from ..runtime import Actor
from .messages import MarkWanted, SessionOpened, Suspect

log = logging.getLogger(__name__)

BATCH = 100


class Marks(Actor[MarkWanted | SessionOpened]):
    """Two calls in flight; what is wanted meanwhile waits for the next one."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._wanted: list[MarkWanted] = []
        self._more = asyncio.Event()

    async def started(self) -> None:
        """Begin to write."""
        for _ in range(2):
            self.spawn_task(self._write_for_ever())

    async def receive(self, message: MarkWanted | SessionOpened) -> object:
        """Take a mark into the next call."""
        if isinstance(message, MarkWanted):
            self._wanted.append(message)
            self._more.set()
        return None

    async def _write_for_ever(self) -> None:
        while True:
            await self._more.wait()
            batch = self._next_batch()
            if batch:
                await self._write(batch[0].attempt.session, batch)

    def _next_batch(self) -> list[MarkWanted]:
        """The next marks of one session; those of another wait for their own call."""
        if not self._wanted:
            self._more.clear()
            return []
        session = self._wanted[0].attempt.session
        batch = [wanted for wanted in self._wanted if wanted.attempt.session is session][:BATCH]
        taken = set(map(id, batch))
        self._wanted = [wanted for wanted in self._wanted if id(wanted) not in taken]
        return batch

    async def _write(self, session: Session, batch: list[MarkWanted]) -> None:
        words = await self._ask(session, batch)
        for wanted, word in zip(batch, words, strict=True):
            if not wanted.answer.done():
                wanted.answer.set_result(word)
        if words[0] in {MarkReply.LOST, MarkReply.EPOCH}:
            self.find("lease_manager").tell(Suspect(session))

    async def _ask(self, session: Session, batch: list[MarkWanted]) -> list[MarkReply] | list[None]:
        marks = [
            Mark(wanted.attempt.grant.request_id, wanted.attempt.grant.fence, wanted.boundary, wanted.ref)
            for wanted in batch
        ]
        # A mark that arrives after the holder's own deadline is of no use: nothing may be dispatched on it.
        patience_s = session.remaining_trust_s()
        if patience_s <= 0:
            return [None] * len(batch)
        try:
            return await mark(
                self._store.calls, marks, session_id=session.id, epoch=session.epoch, patience_s=patience_s
            )
        except ServerError as away:
            log.warning("%d marks not written, their effects do not start: %s", len(batch), away)
            return [None] * len(batch)
