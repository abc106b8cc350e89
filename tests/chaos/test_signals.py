"""SIGTERM and SIGINT: the worker goes in good order, and nothing is lost or charged that it did not do."""

from __future__ import annotations

import signal
import time
from collections.abc import Awaitable, Callable
from typing import cast

import pytest
from chaos import tools
from chaos.stage import MARK, Stage, Worker, load_scripts, until, until_async

from kit.proxy import FaultProxy
from mycelium.actors.worker.exits import WorkerExit
from mycelium.ledger.sessions import list_sessions
from mycelium.ledger.states import Boundary, State

POLL_S = 0.5
"""As the stage sets it."""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_a_worker_that_is_told_to_stop_gives_back_and_finishes(stage: Stage, number: signal.Signals) -> None:
    worker = await stage.start(grace_s=20)
    gate = stage.gate()
    marked = await stage.submit(tools.charge, "marked", gate=gate.path)
    read = await stage.submit(tools.look, "read", gate=gate.path)
    await until(lambda: len(stage.effects) == 2)
    unmarked = await stage.submit(tools.charge_after_gate, "unmarked", gate=gate.path)
    await until_async(lambda: stage.in_state([unmarked], State.ATTEMPTING))

    worker.kill(number)
    assert await until_async(lambda: stage.in_state([unmarked, read], State.READY), 3) < 1
    late = await stage.submit(tools.charge, "late")
    for key in (unmarked, read):
        assert (await stage.record(key)).attempts == 0
    assert (await stage.record(marked)).state is State.ATTEMPTING
    gate.open()
    assert await worker.exited(5) == 0

    assert (await stage.record(marked)).state is State.COMPLETED
    assert await stage.in_state([unmarked, read, late], State.READY)
    assert stage.effects[unmarked] == 0
    assert not await sessions(stage)
    await stage.start()
    await stage.ended(10)
    records = await stage.check()
    assert {record.state for record in records.values()} == {State.COMPLETED}
    assert records[unmarked].attempts == 1


async def test_what_exceeds_the_grace_becomes_unknown(stage: Stage) -> None:
    worker = await stage.start(grace_s=0.5)
    gate = stage.gate()
    marked = await stage.submit(tools.charge, "marked", gate=gate.path)
    await until(lambda: stage.effects[marked])
    worker.kill(signal.SIGTERM)
    assert await worker.exited(5) == WorkerExit.CUT_OFF
    assert (await stage.record(marked)).state is State.UNKNOWN
    await stage.check()
    assert not await sessions(stage)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_a_second_signal_ends_the_grace(stage: Stage, number: signal.Signals) -> None:
    worker = await stage.start(grace_s=60)
    gate = stage.gate()
    marked = await stage.submit(tools.charge, "marked", gate=gate.path)
    await until(lambda: stage.effects[marked])
    worker.kill(number)
    await until(lambda: "stopping" in worker.log)
    assert await stage.in_state([marked], State.ATTEMPTING)
    worker.kill(number)
    assert await worker.exited(5) == WorkerExit.CUT_OFF
    assert (await stage.record(marked)).state is State.UNKNOWN
    assert not await sessions(stage)


@pytest.mark.parametrize("number", [signal.SIGTSTP, signal.SIGUSR1])
async def test_a_quiet_worker_goes_on_with_what_runs_and_takes_nothing_more(
    stage: Stage, number: signal.Signals
) -> None:
    worker = await stage.start()
    gate = stage.gate()
    running = await stage.submit(tools.charge, "running", gate=gate.path)
    await until(lambda: stage.effects[running])
    worker.kill(number)
    await until(lambda: "quiet: nothing new" in worker.log)
    late = await stage.submit(tools.charge, "late")
    gate.open()
    await until_async(lambda: stage.in_state([running], State.COMPLETED))
    # A thaw is no order: service managers send SIGCONT with every SIGTERM, and it follows every SIGSTOP.
    worker.kill(signal.SIGCONT)
    await two_looks(stage, worker)
    assert (await stage.record(late)).state is State.READY

    assert (await told_of(stage, worker))["quiet"] is True

    worker.kill(signal.SIGUSR2)
    await until_async(lambda: stage.in_state([late], State.COMPLETED))
    told = await told_of(stage, worker)
    assert (told["quiet"], told["queues"]) == (False, ["default"])
    worker.kill(signal.SIGTERM)
    assert await worker.exited(5) == WorkerExit.STOPPED


async def test_a_worker_that_is_quieted_while_it_starts_takes_nothing(stage: Stage) -> None:
    key = await stage.submit(tools.charge, "waits")
    worker = stage.spawn()
    await until(lambda: "opened in epoch" in worker.log or worker.process.poll() is not None)
    worker.kill(signal.SIGUSR1)
    await worker.ready()
    await two_looks(stage, worker)
    assert (await stage.record(key)).state is State.READY
    worker.kill(signal.SIGUSR2)
    await until_async(lambda: stage.in_state([key], State.COMPLETED))


async def test_a_quiet_worker_is_told_to_stop(stage: Stage) -> None:
    worker = await stage.start()
    gate = stage.gate()
    running = await stage.submit(tools.charge, "running", gate=gate.path)
    await until(lambda: stage.effects[running])
    worker.kill(signal.SIGTSTP)
    worker.kill(signal.SIGTERM)
    await until(lambda: "stopping" in worker.log)
    gate.open()
    assert await worker.exited(5) == WorkerExit.STOPPED
    assert (await stage.record(running)).state is State.COMPLETED


async def test_an_attempt_whose_mark_is_on_its_way_is_given_back(
    stage: Stage, url: str, start_proxy: Callable[[str], Awaitable[FaultProxy]]
) -> None:
    await load_scripts(url)
    proxy = await start_proxy(url)
    worker = await stage.start(proxy.url)
    arm = proxy.hold(MARK)
    key = await stage.submit(tools.charge, "marked")
    await arm.fired.wait()
    assert (await stage.record(key)).boundary is Boundary.MAYBE_CROSSED
    worker.kill(signal.SIGTERM)
    await until(lambda: "stopping" in worker.log)
    arm.released.set()
    assert await worker.exited(5) == 0
    record = await stage.record(key)
    assert (record.state, record.attempts) == (State.READY, 0)
    assert not stage.effects


async def test_a_worker_is_told_to_stop_while_it_starts(stage: Stage) -> None:
    worker = stage.spawn(hosts=2)
    await until(lambda: "opened in epoch" in worker.log or worker.process.poll() is not None)
    worker.kill(signal.SIGTERM)
    assert await worker.exited(5) == 0, worker.log
    assert not await sessions(stage)


async def test_a_worker_without_its_server_still_stops(
    stage: Stage, url: str, start_proxy: Callable[[str], Awaitable[FaultProxy]]
) -> None:
    proxy = await start_proxy(url)
    worker = await stage.start(proxy.url, grace_s=0.5)
    begun_s = time.monotonic()
    proxy.shut()
    worker.kill(signal.SIGTERM)
    assert await worker.exited(15) == 0, worker.log
    assert time.monotonic() - begun_s < 12


async def sessions(stage: Stage) -> object:
    return await stage.client.store.calls.read("ZRANGE", stage.client.store.keys.sessions(), 0, -1)


async def told_of(stage: Stage, worker: Worker) -> dict[str, object]:
    """What people are told of a worker."""
    return next(line.info for line in await list_sessions(stage.client.store) if line.session_id == worker.session)


async def two_looks(stage: Stage, worker: Worker) -> None:
    """Wait until the worker has lived for more than two polls: its deadline moves with each renewal."""

    async def deadline_ms() -> float:
        told = await stage.client.store.calls.read("ZSCORE", stage.client.store.keys.sessions(), worker.session)
        return float(cast("bytes", told))

    before_ms = await deadline_ms()

    async def lived_on() -> bool:
        return await deadline_ms() > before_ms + 2 * 1.25 * POLL_S * 1000

    await until_async(lived_on)
