"""What isolation, a busy host and an overrun mean for what is on record: a whole worker in this process."""

from __future__ import annotations

import os
import random
import signal
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import cast

import pytest
from chaos.stage import until, until_async

from kit import isolated_tools as tools
from kit.hosting import TESTS, gate_in
from mycelium.actors.client import Client, connect
from mycelium.actors.health.vitals import TurnsVitals
from mycelium.actors.runtime import ActorSystem
from mycelium.actors.worker.messages import TellVitals
from mycelium.actors.worker.settings import WorkerSettings
from mycelium.actors.worker.tree import tree
from mycelium.leases.clock import BootClock
from mycelium.leases.store import open_store
from mycelium.ledger.states import State


@pytest.fixture(autouse=True)
def _tools_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(TESTS), *filter(None, [os.environ.get("PYTHONPATH")])]))


@asynccontextmanager
async def working(url: str, namespace: str, **settings: object) -> AsyncGenerator[tuple[Client, ActorSystem]]:
    """A worker with one shared host and one solo host, and a client."""
    made: dict[str, object] = {"app": "kit.isolated_tools", "url": url, "namespace": namespace, "hosts": 1, "solo": 1}
    store = await open_store(url, namespace=namespace)
    worker = tree(store, WorkerSettings(**{**made, "slots": 2, **settings}), BootClock(), random.Random(7))  # type: ignore[arg-type]
    try:
        async with ActorSystem(worker) as system, connect(url, namespace=namespace) as client:
            yield client, system
    finally:
        await store.aclose()


def lines(book: Path) -> list[int]:
    return [int(line) for line in book.read_text(encoding="ascii").split()] if book.exists() else []


async def test_a_write_whose_process_was_ended_at_its_timeout_is_unknown_and_can_send_nothing_more(
    url: str, namespace: str, tmp_path: Path
) -> None:
    book = tmp_path / "book"
    async with working(url, namespace) as (client, _):
        job = await client.submit(tools.charge_apart_and_hang.bind(book=str(book)), request_id="r")
        await until_async(lambda: _is(client, "r", State.UNKNOWN))
        record = await job.record()
    assert (record.error, record.ended, record.attempts, record.deaths) == ("Timeout", True, 1, 0)
    (pid,) = lines(book)
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


async def test_a_read_whose_process_was_ended_runs_again_in_another_until_its_timeouts_are_used_up(
    url: str, namespace: str, tmp_path: Path
) -> None:
    book = tmp_path / "book"
    async with working(url, namespace) as (client, _):
        job = await client.submit(tools.look_apart_and_hang.bind(book=str(book)), request_id="r")
        await until_async(lambda: _is(client, "r", State.DEAD))
        assert (await job.record()).deaths == 0
    assert len(lines(book)) == len(set(lines(book))) == 2


async def test_no_second_start_of_a_call_before_its_thread_has_ended(url: str, namespace: str, tmp_path: Path) -> None:
    book, gate = tmp_path / "book", gate_in(tmp_path)
    async with working(url, namespace, overdue_s=600.0) as (client, _):
        job = await client.submit(tools.put_slowly.bind(book=str(book), gate=str(gate)), request_id="r")
        await until(lambda: lines(book))
        # Others run meanwhile, for longer than the timeout of the first.
        for number in range(20):
            other = await client.submit(tools.wait_in_thread.bind(gate=str(tmp_path / "none")), request_id=f"o{number}")
            await other.result(30)
        assert await job.state() is State.ATTEMPTING
        gate.unlink()
        assert await job.result(30) == "put"
    assert len(lines(book)) == 2


async def test_a_write_is_not_given_to_a_busy_host_so_its_death_leaves_nothing_unknown(
    url: str, namespace: str, tmp_path: Path
) -> None:
    blocked, book, gate = tmp_path / "blocked", tmp_path / "book", gate_in(tmp_path)
    async with working(url, namespace) as (client, system):
        first = await client.submit(tools.pid_apart.bind(), request_id="first")
        await first.result(30)  # the solo host is there
        blocking = await client.submit(
            tools.block_until_gone.bind(book=str(blocked), gate=str(gate)), request_id="blocking"
        )
        await until(lambda: lines(blocked))
        await until_async(lambda: _gives_no_slot(system))
        job = await client.submit(tools.charge.bind(book=str(book)), request_id="r")
        other = await client.submit(tools.pid_apart.bind(), request_id="apart")
        await other.result(30)  # whoever claims has looked since
        assert await job.state() is State.READY
        gate.unlink()
        os.kill(lines(blocked)[0], signal.SIGKILL)
        assert await job.result(30) == "charged"
        assert (await job.record()).attempts == 1
        await blocking.result(30)
    assert len(lines(book)) == 1


async def _is(client: Client, request_id: str, state: State) -> bool:
    return await client.job(request_id).state() is state


async def _gives_no_slot(system: ActorSystem) -> bool:
    asked = system.find("/worker/control/turns").ask(TellVitals(), timeout_s=30)
    return cast("TurnsVitals", await asked).free_slots <= 1  # the solo host's
