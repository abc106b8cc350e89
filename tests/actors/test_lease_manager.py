"""The lease manager: what it tells its siblings of the session."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from kit.fixtures import StartServer
from mycelium.actors.runtime import Actor, ActorSystem, ChildSpec, supervise
from mycelium.actors.worker.lease_manager import LeaseManager
from mycelium.actors.worker.messages import EpochChanged, SessionLost, SessionOpened, Suspect, TrustLost
from mycelium.leases.clock import BootClock
from mycelium.leases.session import SessionSettings
from mycelium.leases.store import Store, open_store

SETTINGS = SessionSettings(ttl_s=60.0, renew_every_s=15.0)


class Listener(Actor[object]):
    """Keeps what it is told."""

    def __init__(self, told: asyncio.Queue[object]) -> None:
        self._told = told

    async def receive(self, message: object) -> object:
        """Keep it."""
        self._told.put_nowait(message)
        return None


@pytest.fixture
async def store(url: str, namespace: str) -> AsyncIterator[Store]:
    opened = await open_store(url, namespace=namespace)
    yield opened
    await opened.aclose()


def worker(store: Store, told: asyncio.Queue[object], settings: SessionSettings = SETTINGS) -> ActorSystem:
    def manager() -> LeaseManager:
        return LeaseManager(store, settings, BootClock(), "test", b"{}")

    ignored: asyncio.Queue[object] = asyncio.Queue()
    children = [
        ChildSpec("lease_manager", manager),
        ChildSpec("marks", lambda: Listener(ignored)),
        ChildSpec("turns", lambda: Listener(told)),
    ]
    return ActorSystem(supervise("control", children))


async def test_a_session_that_is_suspected_and_stands_is_told_again(store: Store) -> None:
    told: asyncio.Queue[object] = asyncio.Queue()
    async with worker(store, told) as system, asyncio.timeout(20):
        first = await told.get()
        assert isinstance(first, SessionOpened)
        system.find("/control/lease_manager").tell(Suspect(first.session))
        assert await told.get() == first


async def test_a_session_that_is_suspected_and_lost_is_followed_by_another(store: Store) -> None:
    told: asyncio.Queue[object] = asyncio.Queue()
    async with worker(store, told) as system, asyncio.timeout(20):
        first = await told.get()
        assert isinstance(first, SessionOpened)
        await store.calls.read("ZREM", store.keys.sessions(), first.session.id)
        system.find("/control/lease_manager").tell(Suspect(first.session))
        assert await told.get() == SessionLost(first.session)
        second = await told.get()
        assert isinstance(second, SessionOpened)
        assert second.session.id != first.session.id


async def test_a_session_of_another_epoch_is_no_plain_loss(store: Store) -> None:
    told: asyncio.Queue[object] = asyncio.Queue()
    async with worker(store, told) as system, asyncio.timeout(20):
        first = await told.get()
        assert isinstance(first, SessionOpened)
        await store.calls.read("HSET", store.keys.meta(), "run_id", "another")
        await store.refresh_epoch()
        system.find("/control/lease_manager").tell(Suspect(first.session))
        assert await told.get() == EpochChanged(first.session)


async def test_the_end_of_trust_is_told_when_it_comes_and_not_with_the_next_renewal(
    start_server: StartServer, namespace: str
) -> None:
    server = start_server()
    store = await open_store(server.url, namespace=namespace)
    clock = BootClock()
    settings = SessionSettings(ttl_s=1.6, renew_every_s=0.4, call_timeout_s=0.1, margin_s=0.2)
    told: asyncio.Queue[object] = asyncio.Queue()
    async with worker(store, told, settings), asyncio.timeout(20):
        first = await told.get()
        assert isinstance(first, SessionOpened)
        server.kill()
        assert await told.get() == TrustLost(first.session)
        # Well before the store would take the session for lapsed: that is what the margin is for.
        assert clock.now_s() < first.session.trusted_until_s + settings.margin_s
    await store.aclose()
