"""What a worker was told stands, whichever of its parts begins a new life meanwhile."""

from __future__ import annotations

import asyncio
import os
import random
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, cast

import pytest
from chaos.stage import until, until_async

from kit.shop import charge
from mycelium.actors.client import connect
from mycelium.actors.health.vitals import TurnsVitals
from mycelium.actors.runtime import ActorSnapshot, ActorSystem
from mycelium.actors.worker.messages import Died, Drain, TellVitals
from mycelium.actors.worker.orders import TURNS, Orders
from mycelium.actors.worker.settings import WorkerSettings
from mycelium.actors.worker.tree import tree
from mycelium.leases.clock import BootClock
from mycelium.leases.session import SessionSettings
from mycelium.leases.store import open_store

SESSION = SessionSettings(ttl_s=2.0, renew_every_s=0.4, call_timeout_s=0.3, margin_s=0.3)


@pytest.fixture(autouse=True)
def _tools_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(
        "PYTHONPATH", os.pathsep.join([str(Path(__file__).parents[1]), os.environ.get("PYTHONPATH", "")])
    )


@asynccontextmanager
async def working(url: str, namespace: str, orders: Orders) -> AsyncGenerator[ActorSystem]:
    """A worker in this process."""
    settings = WorkerSettings(app="kit.shop", namespace=namespace, hosts=1, solo=0, poll_s=0.1, session=SESSION)
    store = await open_store(url, namespace=namespace)
    try:
        system = ActorSystem(tree(store, settings, BootClock(), random.Random(), orders))
        orders.serve(system)
        async with system:
            yield system
    finally:
        await store.aclose()


async def vitals(system: ActorSystem) -> TurnsVitals:
    return await system.find(TURNS).ask(TellVitals(), timeout_s=10.0, reply_type=TurnsVitals)


async def begin_anew(system: ActorSystem) -> TurnsVitals:
    """Let the part that claims fail, and wait until its next life has a host."""
    system.find(TURNS).tell(Died(cast("Any", None), "a defect"))
    await until(lambda: restarts(system.tree(), TURNS))

    async def has_a_host() -> bool:
        return bool((await vitals(system)).hosts)

    await until_async(has_a_host)
    return await vitals(system)


def restarts(snapshot: ActorSnapshot, path: str) -> int:
    if snapshot.path == path:
        return snapshot.restarts
    return sum(restarts(child, path) for child in snapshot.children)


async def test_a_quiet_worker_stays_quiet_when_its_parts_begin_anew(url: str, namespace: str) -> None:
    orders = Orders()
    async with working(url, namespace, orders) as system, connect(url, namespace=namespace) as client:
        orders.be_quiet()
        assert (await begin_anew(system)).quiet
        job = await client.submit(charge.bind(order="ORD-1"), request_id="charge:1")
        before = (await vitals(system)).claimed
        orders.take_again()
        assert await job.result(timeout_s=20) == {"order": "ORD-1", "amount": 10, "currency": "EUR"}
        assert (before, (await vitals(system)).claimed) == (0, 1)


async def test_a_worker_that_ends_takes_nothing_when_its_parts_begin_anew(url: str, namespace: str) -> None:
    orders = Orders()
    async with working(url, namespace, orders) as system:
        assert orders.drain(Drain(30.0))
        assert (await begin_anew(system)).draining
        orders.take_again()
        assert (await vitals(system)).draining


async def test_a_worker_that_ends_with_its_work_still_does_when_its_parts_begin_anew(url: str, namespace: str) -> None:
    orders = Orders(burst=True)
    orders.be_quiet()
    async with working(url, namespace, orders) as system, connect(url, namespace=namespace) as client:
        await begin_anew(system)
        assert not orders.done.is_set()
        job = await client.submit(charge.bind(order="ORD-1"), request_id="charge:1")
        orders.take_again()
        await asyncio.wait_for(orders.done.wait(), 20)
        assert await job.result(timeout_s=0)


async def test_orders_that_nobody_can_hear_yet_are_kept(url: str, namespace: str) -> None:
    orders = Orders()
    orders.be_quiet()
    assert not orders.drain(Drain(1.0))
    async with working(url, namespace, orders) as system:
        told = await vitals(system)
        assert (told.quiet, told.draining) == (True, True)
