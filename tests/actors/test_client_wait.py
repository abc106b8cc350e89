"""Waiting for results: what each end looks like, that no message is needed, and that a wait writes nothing."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING

import pytest

from kit.holder import Holder, holder, key_dump
from kit.shop import TOOLS, charge, look_up
from mycelium.actors.client import Client, ClientSettings, connect
from mycelium.leases.errors import (
    JobDeadError,
    JobFailedError,
    JobNotFoundError,
    JobUnknownError,
    OutcomeError,
    ResultTimeoutError,
    ScriptError,
    ServerUnavailableError,
)
from mycelium.leases.store import StoreSettings
from mycelium.ledger.states import Settle, State
from mycelium.ledger.verdict import Said, due, record_if_unknown

if TYPE_CHECKING:
    from kit.fixtures import StartServer
    from kit.servers import RealServer

KNOWN = [tool.name for tool in TOOLS]
MESSAGES_ONLY = ClientSettings(poll_s=3600.0)
QUICK_POLL = ClientSettings(poll_s=0.02)


@pytest.fixture
async def worker(url: str, namespace: str) -> AsyncIterator[Holder]:
    async with holder(url, namespace, KNOWN) as opened:
        yield opened


@pytest.fixture
async def client(url: str, namespace: str) -> AsyncIterator[Client]:
    async with connect(url, namespace=namespace, tools=TOOLS, settings=QUICK_POLL) as opened:
        yield opened


async def test_a_result_comes_back_as_json(client: Client, worker: Holder) -> None:
    job = await client.submit(charge.bind("A"), request_id="x")
    waiting = asyncio.create_task(job.result())
    [grant] = await worker.claim()
    assert grant.args == b'{"amount":10,"currency":"EUR","order":"A"}'
    await worker.complete(grant, {"ok": [1, None, "ü"]})
    assert await waiting == {"ok": [1, None, "ü"]}
    assert await job.state() is State.COMPLETED
    assert client.waiters.outstanding == 0


async def test_nothing_as_a_result_is_a_result(client: Client, worker: Holder) -> None:
    job = await client.submit(look_up.bind("A"), request_id="x")
    await worker.complete((await worker.claim())[0], None)
    assert await job.result(10) is None


async def test_who_joins_gets_the_same_result_while_it_runs_and_later(client: Client, worker: Holder) -> None:
    calls = [client.call(charge.bind("A"), request_id="x", wait_s=30) for _ in range(5)]
    waiting = [asyncio.create_task(call) for call in calls]
    while not (grants := await worker.claim()):
        await asyncio.wait(waiting, timeout=0)
    assert len(grants) == 1
    await worker.complete(grants[0], 7)
    assert await asyncio.gather(*waiting) == [7] * 5
    assert await client.call(charge.bind("A"), request_id="x", wait_s=0) == 7
    assert await worker.claim() == []


async def test_two_clients_wait_for_one_job_and_both_are_told(url: str, namespace: str, worker: Holder) -> None:
    async with AsyncExitStack() as stack:
        connecting = [connect(url, namespace=namespace, settings=MESSAGES_ONLY) for _ in range(2)]
        clients = [await stack.enter_async_context(each) for each in connecting]
        jobs = [await client.submit(look_up.bind("A"), request_id="x") for client in clients]
        waiting = [asyncio.create_task(job.result()) for job in jobs]
        for client in clients:
            await subscribed(worker, client)
        await worker.complete((await worker.claim())[0], "both")
        # The poll is an hour away: only the message can tell.
        assert await asyncio.wait_for(asyncio.gather(*waiting), 30) == ["both", "both"]


async def test_the_result_comes_though_every_message_is_lost(start_server: StartServer, namespace: str) -> None:
    url = start_server().url
    async with (
        connect(url, namespace=namespace, settings=QUICK_POLL) as client,
        holder(url, namespace, KNOWN) as worker,
    ):
        for at in range(10):
            job = await client.submit(look_up.bind(str(at)), request_id=f"job-{at}")
            waiting = asyncio.create_task(job.result())
            [grant] = await worker.claim()
            await worker.store.calls.read("CLIENT", "KILL", "TYPE", "pubsub")
            await worker.complete(grant, at)
            assert await asyncio.wait_for(waiting, 30) == at


async def test_the_poll_alone_is_enough(url: str, namespace: str, worker: Holder) -> None:
    async with connect(url, namespace=namespace, settings=QUICK_POLL) as client:
        # A client that nobody ever told of its id is told nothing.
        job = client.job((await client.submit(look_up.bind("A"), request_id="x")).request_id)
        await worker.store.calls.read("HSET", worker.store.keys.row("x"), "waiters", "")
        waiting = asyncio.create_task(job.result())
        await worker.complete((await worker.claim())[0], "polled")
        assert await asyncio.wait_for(waiting, 30) == "polled"


async def test_after_a_reconnect_it_looks_at_once(start_server: StartServer, namespace: str) -> None:
    url = start_server().url
    async with (
        connect(url, namespace=namespace, settings=MESSAGES_ONLY) as client,
        holder(url, namespace, KNOWN) as worker,
    ):
        job = await client.submit(look_up.bind("A"), request_id="x")
        await worker.store.calls.read("HSET", worker.store.keys.row("x"), "waiters", "")
        waiting = asyncio.create_task(job.result())
        await subscribed(worker, client)
        await worker.complete((await worker.claim())[0], "seen")
        await worker.store.calls.read("CLIENT", "KILL", "TYPE", "pubsub")
        assert await asyncio.wait_for(waiting, 30) == "seen"


async def test_a_wait_that_times_out_writes_nothing_and_leaves_nothing(client: Client, worker: Holder) -> None:
    job = await client.submit(charge.bind("A"), request_id="x")
    for step in ("ready", "attempting"):
        before = await key_dump(client.store)
        for timeout_s in (0, 0.05):
            with pytest.raises(ResultTimeoutError) as over:
                await job.result(timeout_s)
            assert over.value.state == step
        assert await key_dump(client.store) == before
        assert client.waiters.outstanding == 0
        await worker.claim()
    waiting = asyncio.create_task(job.result())
    await subscribed(worker, client)
    assert client.waiters.outstanding == 1
    waiting.cancel()
    await asyncio.wait([waiting])
    assert client.waiters.outstanding == 0


async def test_a_failure_is_told_with_its_cause(client: Client, worker: Holder) -> None:
    job = await client.submit(charge.bind("A"), request_id="x")
    await worker.fail((await worker.claim())[0], "SeatTaken", "seat 4A is taken")
    with pytest.raises(JobFailedError) as failed:
        await job.result(10)
    assert (failed.value.cause, failed.value.detail) == ("SeatTaken", "seat 4A is taken")
    assert (failed.value.request_id, failed.value.state) == ("x", "failed")
    assert "seat 4A" not in str(failed.value)


async def test_used_up_attempts_are_told(client: Client, worker: Holder) -> None:
    job = await client.submit(look_up.bind("A"), request_id="x")
    for _ in range(look_up.binding.max_attempts):
        await worker.settle((await worker.claim())[0], Settle.RETRY, error="Flaky")
    with pytest.raises(JobDeadError) as dead:
        await job.result(10)
    assert (dead.value.cause, dead.value.state) == ("Flaky", "dead")


async def test_unknown_is_waited_on_until_a_verdict_settles_it(client: Client, worker: Holder) -> None:
    job = await client.submit(charge.bind("A"), request_id="x")
    [grant] = await worker.claim()
    await worker.settle(grant, Settle.UNKNOWN, error="ReadTimeout")
    with pytest.raises(JobUnknownError) as unknown:
        await job.result(on_unknown="raise")
    assert (unknown.value.cause, unknown.value.state) == ("ReadTimeout", "unknown")
    with pytest.raises(JobUnknownError):
        await job.result(0.05, on_unknown="wait")
    # Nobody can be asked about it: by itself a wait does not go on for what may never come.
    with pytest.raises(JobUnknownError, match="no reconciler"):
        await job.result()
    waiting = asyncio.create_task(job.result(on_unknown="wait"))
    [doubt] = await due(worker.store.calls, KNOWN, page=10, put_off_s=60)
    await record_if_unknown(worker.store.calls, doubt, Said.COMPLETED, by="test", evidence="receipt", body=b'"found"')
    assert await asyncio.wait_for(waiting, 30) == "found"


async def test_who_asks_to_be_told_of_unknown_is_told_when_it_happens(url: str, namespace: str, worker: Holder) -> None:
    async with connect(url, namespace=namespace, settings=MESSAGES_ONLY) as client:
        job = await client.submit(charge.bind("A"), request_id="x")
        waiting = asyncio.create_task(job.result(on_unknown="raise"))
        await subscribed(worker, client)
        await worker.settle((await worker.claim())[0], Settle.UNKNOWN, error="ReadTimeout")
        with pytest.raises(JobUnknownError):
            await asyncio.wait_for(waiting, 30)


@pytest.mark.parametrize(
    "body,cause", [(b'{"$too_large":9}', "result_not_kept"), (b'{"$unencodable":"X"}', "result_not_kept")]
)
async def test_a_result_that_was_not_kept_is_told(client: Client, worker: Holder, body: bytes, cause: str) -> None:
    job = await client.submit(charge.bind("A"), request_id="x")
    await worker.settle((await worker.claim())[0], Settle.COMPLETED, body=body)
    with pytest.raises(OutcomeError) as gone:
        await job.result(10)
    assert (gone.value.cause, gone.value.state) == (cause, "completed")


async def test_a_result_whose_retention_is_over_is_told(client: Client, worker: Holder) -> None:
    job = await client.submit(charge.bind("A"), request_id="x")
    await worker.complete((await worker.claim())[0], 1)
    await client.store.calls.read("DEL", client.store.keys.result("x"))
    with pytest.raises(OutcomeError, match="retention") as gone:
        await job.result(10)
    assert gone.value.cause == "result_gone"


async def test_a_row_that_is_gone_or_not_ours_ends_its_own_wait_only(client: Client, worker: Holder) -> None:
    jobs = [await client.submit(look_up.bind("A"), request_id=name) for name in ("gone", "not-ours", "good")]
    waiting = [asyncio.create_task(job.result()) for job in jobs]
    await subscribed(worker, client)
    grants = {grant.request_id: grant for grant in await worker.claim()}
    await worker.store.calls.read("DEL", worker.store.keys.row("gone"), worker.store.keys.row("not-ours"))
    await worker.store.calls.read("SET", worker.store.keys.row("not-ours"), "text")
    gone, other = await asyncio.wait_for(asyncio.gather(*waiting[:2], return_exceptions=True), 30)
    assert isinstance(gone, JobNotFoundError)
    assert isinstance(other, ScriptError)
    await worker.complete(grants["good"], "good")
    assert await asyncio.wait_for(waiting[2], 30) == "good"


async def test_a_wait_outlives_the_server(durable_server: RealServer, namespace: str) -> None:
    server = durable_server
    settings = ClientSettings(poll_s=0.02, store=StoreSettings(patience_s=0.2))
    async with (
        connect(server.url, namespace=namespace, settings=settings) as client,
        holder(server.url, namespace, KNOWN) as worker,
    ):
        job = await client.submit(look_up.bind("A"), request_id="x")
        waiting = asyncio.create_task(job.result())
        [grant] = await worker.claim()
        await subscribed(worker, client)
        server.kill()
        with pytest.raises(ResultTimeoutError, match="does not answer"):
            await job.result(0.5)
        assert not waiting.done()
        await server.restart_async()
        await worker.settle(grant, Settle.COMPLETED, body=b'"after"')
        assert await asyncio.wait_for(waiting, 60) == "after"


async def test_closing_the_client_ends_its_waits(url: str, namespace: str, worker: Holder) -> None:
    client = await connect(url, namespace=namespace)
    job = await client.submit(look_up.bind("A"), request_id="x")
    waiting = asyncio.create_task(job.result())
    await subscribed(worker, client)
    await client.aclose()
    with pytest.raises(ServerUnavailableError, match="closed"):
        await waiting


async def subscribed(worker: Holder, client: Client) -> None:
    """Return when the client hears its channel."""
    channel = client.store.keys.settled(client.id)
    while (await worker.store.calls.read("PUBSUB", "NUMSUB", channel)) != [channel.encode(), 1]:
        await asyncio.wait([asyncio.ensure_future(client.store.calls.read("PING"))])
