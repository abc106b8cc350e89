"""Stands for a worker: claims and settles by hand, one turn at a time, without running anything."""

from __future__ import annotations

import json
import uuid
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from typing import Any

from mycelium.leases.clock import BootClock
from mycelium.leases.session import Session, SessionSettings
from mycelium.leases.store import Store, open_store
from mycelium.ledger.binding import Binding
from mycelium.ledger.mark import Mark, MarkReply, mark
from mycelium.ledger.record import Failure
from mycelium.ledger.states import Boundary, EffectClass, Settle, Settled
from mycelium.ledger.turn import Grant, Known, Settlement, TurnReport, take_turn

LAXEST = Binding(effect_class=EffectClass.READ)
"""A holder that declares nothing stricter than what was submitted."""

LONG = SessionSettings(ttl_s=60.0, renew_every_s=10.0)


class Holder:
    """One session and its turns."""

    def __init__(self, store: Store, session: Session, known: Sequence[str]) -> None:
        self.store = store
        self.session = session
        self.known = list(known)

    async def turn(self, *, slots: int = 0, ended: Sequence[Settlement] = ()) -> TurnReport:
        """Take one turn."""
        return await take_turn(
            self.store.calls,
            session_id=self.session.id,
            epoch=self.session.epoch,
            lane=0,
            op=uuid.uuid4().hex,
            slots=slots,
            ended=ended,
            known=dict.fromkeys(self.known, Known(LAXEST)),
        )

    async def claim(self, slots: int = 100) -> list[Grant]:
        """Claim what is ready; a write is marked, as its body would now start."""
        grants = list((await self.turn(slots=slots)).grants)
        marks = [Mark(g.request_id, g.fence, Boundary.MAYBE_CROSSED) for g in grants if g.effect_class != "read"]
        if marks:
            told = await mark(self.store.calls, marks, session_id=self.session.id, epoch=self.session.epoch)
            assert set(told) == {MarkReply.MARKED}
        return grants

    async def settle(self, grant: Grant, verb: Settle, *, body: bytes = b"", error: str = "") -> Settled:
        """Settle one attempt."""
        boundary = Boundary.NOT_CROSSED if grant.effect_class == "read" else Boundary.MAYBE_CROSSED
        end = Settlement(
            request_id=grant.request_id, fence=grant.fence, verb=verb, body=body, error=error, boundary=boundary
        )
        return (await self.turn(ended=[end])).settled[0]

    async def complete(self, grant: Grant, result: object = None) -> None:
        """Settle one attempt with a result."""
        assert await self.settle(grant, Settle.COMPLETED, body=json.dumps(result).encode()) is Settled.SETTLED

    async def fail(self, grant: Grant, error: str, detail: str) -> None:
        """Settle one attempt as failed."""
        body = Failure(error, detail).body()
        assert await self.settle(grant, Settle.FAILED, body=body, error=error) is Settled.SETTLED


@asynccontextmanager
async def holder(
    url: str, namespace: str, known: Sequence[str], *, info: bytes = b"{}"
) -> AsyncGenerator[Holder, None]:
    """Open a store and a session in it that knows some tools."""
    store = await open_store(url, namespace=namespace)
    try:
        session = Session(store, LONG, BootClock(), name="test holder", info=info)
        await session.open()
        yield Holder(store, session, known)
    finally:
        await store.aclose()


async def key_dump(store: Store) -> dict[bytes, bytes]:
    """Every key of the namespace and its value, as the server writes it down."""
    found: dict[bytes, bytes] = {}
    cursor: Any = 0
    while True:
        page: Any = await store.calls.read("SCAN", cursor, "MATCH", store.keys.tag + ":*", "COUNT", 1000)
        cursor = page[0]
        for key in page[1]:
            value: Any = await store.calls.read("DUMP", key)
            found[key] = value
        if cursor in {b"0", 0}:
            return found
