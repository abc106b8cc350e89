"""An operator's desk: release and mark-dead of the rows of a ledger, at the ledger's time, and what they refuse."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from kit.ledger import CR, NOON_MS, Ledger, ended, steady
from kit.script_cases import AUTO
from mycelium.leases.store import Store, StoreSettings, open_store
from mycelium.ledger.mark_dead import mark_dead
from mycelium.ledger.record import Record
from mycelium.ledger.release import release

BY, REASON = "ops@example.com", "no charge for ORD-1 in the dashboard"
OVERRIDDEN = f"{REASON} [heartbeat overridden]"


class Desk:
    """One operator before one ledger."""

    def __init__(self, store: Store, ledger: Ledger) -> None:
        self.store = store
        self.ledger = ledger

    async def release(self, verified: str = "completed", request_id: str = "r1", **more: Any) -> Record:  # noqa: ANN401
        self.store.calls.now_ms = self.ledger.now_ms
        answer = {"result": None} if verified == "completed" else {}
        return await release(self.store, request_id, verified=verified, **_saying(answer | more))

    async def mark_dead(self, request_id: str = "r1", **more: Any) -> Record:  # noqa: ANN401 - handed on
        self.store.calls.now_ms = self.ledger.now_ms
        return await mark_dead(self.store, request_id, **_saying(more))

    async def refuses(self, kind: type[Exception], work: Awaitable[Record], match: str | None = None) -> Exception:
        """Await what must be refused, and must change nothing."""
        before = self.ledger.dump()
        with pytest.raises(kind, match=match) as caught:
            await work
        assert type(caught.value) is kind
        assert steady(self.ledger.dump()) == steady(before)
        return caught.value


def _saying(more: dict[str, Any]) -> dict[str, Any]:
    return {"by": BY, "reason": REASON} | more


@asynccontextmanager
async def open_desk(url: str, ledger: Ledger) -> AsyncGenerator[Desk, None]:
    """A desk on the ledger's own data set."""
    store = await open_store(url, namespace=ledger.keys.namespace, settings=StoreSettings(now_ms=NOON_MS))
    try:
        yield Desk(store, ledger)
    finally:
        await store.aclose()


# ── rows that are not in doubt ───────────────────────────────────────────────────────────────────────────────────────


def make_nothing(_: Ledger) -> None:
    """Leave no row."""


def make_ready(ledger: Ledger) -> None:
    ledger.submit(AUTO, "r1")


def make_delayed(ledger: Ledger) -> None:
    ledger.submit(AUTO, "r1", delay_s=9)


def make_held(ledger: Ledger) -> None:
    ledger.marked(AUTO)


def make_completed(ledger: Ledger) -> None:
    ledger.settle(ended("r1", ledger.marked(AUTO), "completed", boundary=CR))


def make_failed(ledger: Ledger) -> None:
    ledger.settle(ended("r1", ledger.marked(AUTO), "failed"))
