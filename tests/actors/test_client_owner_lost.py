"""Nobody waits for a holder that is lost: a waiter hears what became of its job, or that nobody can say (case 35)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager

import pytest

from kit.holder import Holder, holder, key_dump
from kit.shop import TOOLS, charge, look_up
from mycelium.actors.client import Client, ClientSettings, connect
from mycelium.leases.clock import BootClock
from mycelium.leases.errors import JobUnknownError, OwnerLostError, ResultTimeoutError
from mycelium.leases.session import Session, SessionSettings
from mycelium.leases.store import open_store
from mycelium.ledger import sweep
from mycelium.ledger.states import State

KNOWN = [tool.name for tool in TOOLS]
SHORT = SessionSettings(ttl_s=0.5, renew_every_s=0.1, call_timeout_s=0.1, margin_s=0.1)


@pytest.fixture
async def client(url: str, namespace: str) -> AsyncIterator[Client]:
    async with connect(url, namespace=namespace, tools=TOOLS, settings=ClientSettings(poll_s=0.02)) as opened:
        yield opened


@asynccontextmanager
async def stopped(url: str, namespace: str) -> AsyncGenerator[Holder, None]:
    """A holder that never renews: it is as good as one that was stopped right after it claimed."""
    store = await open_store(url, namespace=namespace)
    try:
        session = Session(store, SHORT, BootClock(), name="stopped")
        await session.open()
        yield Holder(store, session, KNOWN)
    finally:
        await store.aclose()


async def test_with_no_worker_left_a_wait_ends_and_writes_nothing(client: Client, url: str, namespace: str) -> None:
    jobs = [
        await client.submit(charge.bind("A"), request_id="write"),
        await client.submit(look_up.bind("A"), request_id="read"),
    ]
    async with stopped(url, namespace) as lost:
        assert len(await lost.claim()) == 2
        before = await key_dump(client.store)
        waits = [job.result() for job in jobs] + [_follow(client, "write")]
        for error in await asyncio.wait_for(asyncio.gather(*waits, return_exceptions=True), 30):
            assert isinstance(error, OwnerLostError)
            assert isinstance(error, ResultTimeoutError)
            assert error.state == State.ATTEMPTING
            assert "when a worker runs" in error.next_step
        assert await key_dump(client.store) == before
        # Who says that he waits for whatever comes is left to wait.
        patient = asyncio.create_task(jobs[1].result(on_unknown="wait"))
        with pytest.raises(OwnerLostError):
            await asyncio.wait_for(jobs[1].result(), 30)
        assert not patient.done()
        async with holder(url, namespace, KNOWN) as other:
            await sweep.run_once(client.store)
            [again] = await other.claim()
            await other.complete(again, "found")
            assert await patient == "found"
    assert client.waiters.outstanding == 0


async def test_while_another_worker_sweeps_each_waiter_hears_what_became_of_its_job(
    client: Client, url: str, namespace: str
) -> None:
    write = await client.submit(charge.bind("A"), request_id="write")
    read = await client.submit(look_up.bind("A"), request_id="read")
    async with stopped(url, namespace) as lost, holder(url, namespace, KNOWN) as other:
        await lost.claim()
        waits = [asyncio.create_task(job.result()) for job in (write, read)]
        while not (grants := await other.claim()):
            await sweep.run_once(other.store)
        assert [grant.request_id for grant in grants] == ["read"]
        await other.complete(grants[0], "read by another")
        assert await waits[1] == "read by another"
        with pytest.raises(JobUnknownError):
            await waits[0]


async def test_a_holder_that_lives_is_waited_for_however_long_it_takes(
    client: Client, url: str, namespace: str
) -> None:
    job = await client.submit(look_up.bind("A"), request_id="x")
    async with stopped(url, namespace) as slow:
        [grant] = await slow.claim()
        waiting = asyncio.create_task(job.result())
        begun_s = asyncio.get_running_loop().time()
        # Far longer than a TTL, and never silent for one.
        while asyncio.get_running_loop().time() - begun_s < 3 * SHORT.ttl_s:
            await slow.session.renew_once()
        assert not waiting.done()
        await slow.complete(grant, "at last")
        assert await waiting == "at last"


async def _follow(client: Client, request_id: str) -> None:
    async for _ in client.job(request_id).follow():
        pass
