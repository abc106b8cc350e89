"""Schedules for tests, and a server whose time the test moves."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

from mycelium.actors.schedules.declaration import schedule
from mycelium.actors.tool import tool
from mycelium.leases.store import Store, StoreSettings, open_store

NOON = datetime(2026, 6, 1, 12, tzinfo=UTC)


@tool(effect_class="non_idempotent_mutate")
async def report(region: str, due: datetime | None = None) -> str:
    """Report for a region."""
    return f"{region} {due}"


@tool(effect_class="read")
async def ping() -> None:
    """Do nothing."""


nightly = schedule("nightly", report, {"region": "eu"}, cron="0 3 * * *", zone="Europe/Berlin", due_as="due")
SCHEDULES = [schedule("pulse", ping.bind(), every=timedelta(minutes=5))]


def ms(instant: datetime) -> int:
    """An instant as the server tells it."""
    return round(instant.timestamp() * 1000)


def set_clock(store: Store, now: datetime) -> None:
    """What the server's clock shows, to every script and every reader of it."""
    store.calls.now_ms = ms(now)


@asynccontextmanager
async def store_at(url: str, namespace: str, now: datetime = NOON) -> AsyncGenerator[Store]:
    """A store on a server whose clock stands still."""
    store = await open_store(url, namespace=namespace, settings=StoreSettings(now_ms=ms(now)))
    try:
        yield store
    finally:
        await store.aclose()


class LocalClock:
    """A machine's own clock, as wrong as a test wants it."""

    def __init__(self, now_s: float = 0.0, step_s: float = 0.0) -> None:
        self._now_s = now_s
        self._step_s = step_s

    def now_s(self) -> float:
        """Each look at it takes a step."""
        self._now_s += self._step_s
        return self._now_s


async def jobs(store: Store) -> list[str]:
    """Request ids of all rows, in order."""
    keys: Any = await store.calls.read("KEYS", store.keys.row("*"))
    return sorted(key.decode().removeprefix(store.keys.row("")) for key in keys)
