"""Cancels and other ends without a result, as the client tells them: what was done, and what comes next."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

from kit.holder import Holder, holder, key_dump
from kit.shop import TOOLS, charge, look_up
from mycelium.actors.client import Client, ClientSettings, connect
from mycelium.leases.errors import (
    BadCallError,
    DeadlinePassedError,
    JobCancelledError,
    JobDeadError,
    JobNotFoundError,
    JobUnknownError,
)
from mycelium.ledger.cancel import CancelReply
from mycelium.ledger.cause import Cause
from mycelium.ledger.requeue import requeue
from mycelium.ledger.states import Settle, State
from mycelium.ledger.sweep import sweep_script

if TYPE_CHECKING:
    from mycelium.actors.job import Job

KNOWN = [tool.name for tool in TOOLS]


@pytest.fixture
async def worker(url: str, namespace: str) -> AsyncIterator[Holder]:
    async with holder(url, namespace, KNOWN) as opened:
        yield opened


@pytest.fixture
async def client(url: str, namespace: str) -> AsyncIterator[Client]:
    async with connect(url, namespace=namespace, tools=TOOLS, settings=ClientSettings(poll_s=0.02)) as opened:
        yield opened


async def test_what_waits_is_cancelled_at_once_and_its_waiter_is_told(client: Client, worker: Holder) -> None:
    job = await client.submit(charge.bind("A"), request_id="x")
    waiting = asyncio.create_task(job.result())
    done = await job.cancel(by="ops", reason="wrong order")
    assert (done.request_id, done.word, done.state) == ("x", CancelReply.CANCELLED, State.CANCELLED)
    with pytest.raises(JobCancelledError, match="was cancelled by 'ops'") as cancelled:
        await waiting
    assert (cancelled.value.why, cancelled.value.detail) == (Cause.CANCELLED, "wrong order")
    assert "mycelium transitions requeue x" in cancelled.value.next_step
    assert await worker.claim() == []
    record = await job.record()
    assert (record.cause, record.cancel_by, record.cancel_reason) == (Cause.CANCELLED, "ops", "wrong order")


async def test_a_cancel_of_what_is_held_is_only_asked(client: Client, worker: Holder) -> None:
    job = await client.submit(look_up.bind("A"), request_id="x")
    [grant] = await worker.claim()
    done = await job.cancel()
    assert (done.word, done.state) == (CancelReply.ASKED, State.ATTEMPTING)
    assert await job.state() is State.ATTEMPTING
    assert (await worker.turn()).cancels == (("x", grant.fence),)
    # It failed before it stopped, and would be tried again if nobody had asked.
    await worker.settle(grant, Settle.RETRY, error="Flaky")
    with pytest.raises(JobCancelledError):
        await job.result(10)


async def test_what_may_have_been_sent_is_never_called_cancelled(client: Client, worker: Holder) -> None:
    job = await client.submit(charge.bind("A"), request_id="x")
    [grant] = await worker.claim()
    await job.cancel(by="ops")
    await worker.settle(grant, Settle.CANCELLED, error="Cancelled")
    with pytest.raises(JobUnknownError):
        await job.result(10)
    assert (await job.cancel(by="ops")).word is CancelReply.UNKNOWN


async def test_a_result_that_came_first_stands(client: Client, worker: Holder) -> None:
    job = await client.submit(charge.bind("A"), request_id="x")
    [grant] = await worker.claim()
    assert (await job.cancel()).word is CancelReply.ASKED
    await worker.complete(grant, "charged")
    assert (await job.cancel()).word is CancelReply.ENDED
    assert await job.result(10) == "charged"


async def test_a_cancel_that_is_no_call_or_names_nothing_writes_nothing(client: Client) -> None:
    job = await client.submit(charge.bind("A"), request_id="x")
    before = await key_dump(client.store)
    bad: list[dict[str, Any]] = [{"by": "a\x1bb"}, {"by": "x" * 201}, {"reason": "x" * 2001}, {"by": 7}]
    for words in bad:
        with pytest.raises(BadCallError):
            await job.cancel(**words)
    with pytest.raises(JobNotFoundError):
        await client.job("nothing").cancel()
    assert await key_dump(client.store) == before


async def test_what_did_not_start_in_time_says_so(client: Client, worker: Holder) -> None:
    job = await client.submit(charge.bind("A"), request_id="x", start_by=0.001)
    await until_ended(job, worker)
    with pytest.raises(JobCancelledError, match="had not started by the time") as expired:
        await job.result(10)
    assert expired.value.why == Cause.EXPIRED
    assert await worker.claim() == []


async def test_what_passed_its_deadline_says_so(client: Client, worker: Holder) -> None:
    job = await client.submit(charge.bind("A"), request_id="x", deadline=timedelta(milliseconds=1))
    await until_ended(job, worker)
    with pytest.raises(JobCancelledError, match="its deadline passed") as late:
        await job.result(10)
    assert late.value.why == Cause.DEADLINE
    with pytest.raises(DeadlinePassedError):
        await client.submit(charge.bind("B"), request_id="y", deadline=datetime(2001, 1, 1, tzinfo=UTC))


@pytest.mark.parametrize(
    "verb,cause,said",
    [
        (Settle.RETRY, Cause.ATTEMPTS, "failed as often as it may"),
        (Settle.TIMED_OUT, Cause.TIMEOUTS, "was past its time as often as it may"),
        (Settle.DIED, Cause.DEATHS, "lost as many hosts or workers as it may"),
    ],
)
async def test_what_is_dead_says_of_what(client: Client, worker: Holder, verb: Settle, cause: Cause, said: str) -> None:
    job = await client.submit(look_up.bind("A"), request_id="x")
    while grants := await worker.claim():
        await worker.settle(grants[0], verb, error="Flaky")
    with pytest.raises(JobDeadError, match=said) as dead:
        await job.result(10)
    assert (dead.value.why, dead.value.cause) == (cause, "Flaky")
    assert "mycelium transitions requeue x" in dead.value.next_step
    assert (await job.record()).cause is cause


async def test_what_was_requeued_runs_again_and_gives_its_result(client: Client, worker: Holder) -> None:
    job = await client.submit(charge.bind("A"), request_id="x")
    await job.cancel(by="ops")
    assert await requeue(client.store, "x", by="ops", reason="it was right after all") == "x"
    record = await job.record()
    assert (record.state, record.cause, record.cancel_ms) == (State.READY, None, 0)
    assert (record.requeued_by, record.requeue_reason) == ("ops", "it was right after all")
    await worker.complete((await worker.claim())[0], 7)
    assert await job.result(10) == 7


async def until_ended(job: Job, worker: Holder) -> None:
    """Sweep until the server's clock has moved far enough."""
    while await job.state() is not State.CANCELLED:
        await worker.store.calls.run(sweep_script(page=100))
