"""How far a job has come, as its waiters see it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator

import pytest

from kit.holder import Holder, holder
from kit.shop import TOOLS, charge, look_up
from mycelium.actors.client import Client, ClientSettings, connect
from mycelium.actors.sync import connect_sync
from mycelium.leases.errors import ResultTimeoutError
from mycelium.ledger.progress import Progress, tell_progress
from mycelium.ledger.states import Settle, State
from mycelium.ledger.turn import Grant

KNOWN = [tool.name for tool in TOOLS]
QUICK = ClientSettings(poll_s=0.02)


@pytest.fixture
async def worker(url: str, namespace: str) -> AsyncIterator[Holder]:
    async with holder(url, namespace, KNOWN) as opened:
        yield opened


@pytest.fixture
async def client(url: str, namespace: str) -> AsyncIterator[Client]:
    async with connect(url, namespace=namespace, tools=TOOLS, settings=QUICK) as opened:
        yield opened


async def tell(worker: Holder, grant: Grant, done: float, total: float | None = None, note: str = "") -> None:
    told = await tell_progress(
        worker.store.calls, worker.session.id, [(grant.request_id, grant.fence, Progress(done, total, note))]
    )
    assert told == [True]


async def test_progress_is_read_by_whoever_asks(client: Client, worker: Holder) -> None:
    job = await client.submit(look_up.bind("A"), request_id="x")
    assert await job.progress() is None
    [grant] = await worker.claim()
    await tell(worker, grant, 3, 10, "pages")
    progress = await job.progress()
    assert progress is not None
    assert (progress.done, progress.total, progress.note, progress.share) == (3, 10, "pages", 0.3)
    assert (await job.record()).progress == progress
    assert "pages" not in repr(await job.record())


async def test_a_waiter_hears_of_each_step_and_then_gets_the_result(client: Client, worker: Holder) -> None:
    job = await client.submit(look_up.bind("A"), request_id="x")
    heard: asyncio.Queue[float] = asyncio.Queue()

    async def hear(progress: Progress) -> None:
        await heard.put(progress.done)

    waiting = asyncio.create_task(job.result(on_progress=lambda progress: heard.put_nowait(progress.done)))
    awaited = asyncio.create_task(job.result(on_progress=hear))
    [grant] = await worker.claim()
    for step in (1.0, 2.0):
        await tell(worker, grant, step, 2)
        both = _both(heard)
        assert await asyncio.wait_for(both, 30) == (step, step)
    await worker.complete(grant, "done")
    assert (await waiting, await awaited) == ("done", "done")
    assert heard.empty()
    assert client.waiters.outstanding == 0


async def test_following_a_job_ends_with_it(client: Client, worker: Holder) -> None:
    job = await client.submit(charge.bind("A"), request_id="x")
    [grant] = await worker.claim()
    await tell(worker, grant, 1)
    seen: list[float] = []
    async for progress in job.follow():
        seen.append(progress.done)
        if progress.done == 1:
            await tell(worker, grant, 2)
        else:
            await worker.settle(grant, Settle.UNKNOWN, error="ReadTimeout")
    assert seen == [1.0, 2.0]
    assert await job.state() is State.UNKNOWN
    assert client.waiters.outstanding == 0


async def test_an_error_of_who_listens_ends_the_wait_and_leaves_the_job(client: Client, worker: Holder) -> None:
    job = await client.submit(look_up.bind("A"), request_id="x")
    [grant] = await worker.claim()
    await tell(worker, grant, 1)

    def refuse(progress: Progress) -> None:
        raise TimeoutError(progress.done)

    with pytest.raises(TimeoutError, match="1"):
        await job.result(on_progress=refuse)
    with pytest.raises(ResultTimeoutError):
        await job.result(0.05, on_progress=lambda _: None)
    await worker.complete(grant, 1)
    assert await job.result(10) == 1
    assert client.waiters.outstanding == 0


async def test_what_an_older_attempt_says_is_not_heard(client: Client, worker: Holder) -> None:
    job = await client.submit(look_up.bind("A"), request_id="x")
    [old] = await worker.claim()
    await worker.settle(old, Settle.RELEASED)
    [new] = await worker.claim()
    late = [(old.request_id, old.fence, Progress(99))]
    assert await tell_progress(worker.store.calls, worker.session.id, late) == [False]
    assert await job.progress() is None
    await tell(worker, new, 1)
    assert await job.progress() is not None


def test_plain_code_is_called_in_its_own_thread(url: str, namespace: str) -> None:
    heard: list[tuple[float, threading.Thread]] = []
    steps: list[float] = []
    with connect_sync(url, namespace=namespace, tools=TOOLS, settings=QUICK) as client:
        job = client.submit(look_up.bind("A"), request_id="x")
        gate = threading.Event()
        other = threading.Thread(target=lambda: asyncio.run(_work(url, namespace, gate)))
        other.start()
        for progress in job.follow():
            steps.append(progress.done)
            if progress.done == 1:
                gate.set()
            else:
                break
        assert job.progress() is not None
        result = job.result(30, on_progress=lambda told: heard.append((told.done, threading.current_thread())))
        other.join()
        assert (result, steps, job.cancel().state) == ("done", [1, 2], State.COMPLETED)
    assert heard == [(2, threading.current_thread())]


async def _work(url: str, namespace: str, gate: threading.Event) -> None:
    async with holder(url, namespace, KNOWN) as worker:
        [grant] = await worker.claim()
        await tell(worker, grant, 1)
        await asyncio.to_thread(gate.wait)
        await tell(worker, grant, 2)
        await worker.complete(grant, "done")


async def _both(heard: asyncio.Queue[float]) -> tuple[float, float]:
    return await heard.get(), await heard.get()
