"""What a worker's endpoints tell: that it lives, whether it is ready, and the metrics of this process."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from chaos import tools
from chaos.stage import Stage, Worker, load_scripts, staged, until, until_async
from prometheus_client import Metric
from prometheus_client.parser import text_string_to_metric_families

from kit.proxy import FaultProxy
from mycelium.actors.worker.exits import WorkerExit
from mycelium.ledger.states import State


@pytest.fixture
async def stage(url: str, namespace: str, tmp_path: Path) -> AsyncIterator[Stage]:
    async with staged(url, namespace, tmp_path / "stage") as made:
        yield made


def start(stage: Stage, *options: str, server: str | None = None) -> Worker:
    return stage.spawn_command({"MYCELIUM_URL": server or stage.url}, "--ttl", "2", "--poll", "0.5", *options)


async def ask(address: str, path: str) -> tuple[int, str]:
    host, _, port = address.rpartition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    try:
        writer.write(f"GET {path} HTTP/1.1\r\nHost: {address}\r\n\r\n".encode())
        head, _, body = (await reader.read()).decode().partition("\r\n\r\n")
    finally:
        writer.close()
    return int(head.split()[1]), body


async def readiness(address: str) -> tuple[int, Any]:
    status, body = await ask(address, "/health/ready")
    return status, json.loads(body)


async def address_of(worker: Worker, path: str) -> str:
    found: list[str] = []

    def said() -> bool:
        found[:] = re.findall(rf"{path}.* served at http://(\S+)", worker.log)
        return bool(found) or worker.process.poll() is not None

    await until(said, 30)
    assert found, worker.log
    return found[0]


async def unready_because(address: str, reason: str) -> None:
    async def said() -> bool:
        return await readiness_reason(address) == reason

    await until_async(said)


async def readiness_reason(address: str) -> str | None:
    status, told = await readiness(address)
    reason: str | None = told["reason"]
    assert (status == 200) is (reason is None) is told["ready"]
    return reason


async def ready(address: str) -> None:
    async def said() -> bool:
        return await readiness_reason(address) is None

    await until_async(said)


async def test_a_worker_is_alive_from_the_start_and_ready_when_it_takes_jobs(stage: Stage) -> None:
    worker = start(stage, "--health-port", "0")
    address = await address_of(worker, "/health/ready")
    status, body = await ask(address, "/health/live")
    assert (status, json.loads(body)["live"]) == (200, True)
    await ready(address)
    _, told = await readiness(address)
    assert (told["session"], told["slots"]) == ("trusted", {"free": 32, "running": 0})
    gate = stage.gate()
    running = await stage.submit(tools.charge, "running", gate=gate.path)
    await until(lambda: stage.effects[running])
    assert (await readiness(address))[1]["slots"] == {"free": 31, "running": 1}

    worker.kill(signal.SIGUSR1)
    await unready_because(address, "quiet")
    worker.kill(signal.SIGUSR2)
    await ready(address)
    worker.kill(signal.SIGTERM)
    await unready_because(address, "stopping")
    assert (await ask(address, "/health/live"))[0] == 200
    gate.open()
    assert await worker.exited(10) == WorkerExit.STOPPED


async def test_a_worker_whose_server_is_away_is_not_ready_and_then_ready_again(
    stage: Stage, url: str, start_proxy: Callable[[str], Awaitable[FaultProxy]]
) -> None:
    await load_scripts(url)
    proxy = await start_proxy(url)
    worker = start(stage, "--health-port", "0", server=proxy.url)
    address = await address_of(worker, "/health/ready")
    await ready(address)
    proxy.shut()

    async def unready() -> bool:
        return await readiness_reason(address) in {"untrusted", "no_session", "store_away"}

    await until_async(unready)
    assert (await ask(address, "/health/live"))[0] == 200
    await proxy.reopen()
    await ready(address)
    key = await stage.submit(tools.charge, "after")
    await until_async(lambda: stage.in_state([key], State.COMPLETED))


async def test_metrics_tell_what_this_process_did(stage: Stage) -> None:
    worker = start(stage, "--health-port", "0", "--metrics-port", "0")
    address = await address_of(worker, "/metrics")
    assert address == await address_of(worker, "/health/ready")
    await ready(address)
    for number in range(5):
        await stage.submit(tools.charge, f"job-{number}")
    await stage.ended(10)
    host = worker.hosts[0]
    os.kill(host, signal.SIGKILL)
    await until(lambda: worker.started > 2)

    async def settled() -> bool:
        told = await samples(address)
        return told['mycelium_worker_settlements_total{verb="completed"}'] == 5

    await until_async(settled)
    told = await samples(address)
    assert told["mycelium_worker_claims_total{}"] == 5
    assert sum(value for name, value in told.items() if "host_starts_total" in name) >= 3
    assert sum(value for name, value in told.items() if "host_ends_total" in name and "crashed" in name) == 1
    assert told['mycelium_worker_session{state="trusted"}'] == 1
    assert told["process_open_fds{}"] > 0
    assert not [name for name in told if str(worker.pid) in name or worker.session in name]


async def samples(address: str) -> dict[str, float]:
    status, body = await ask(address, "/metrics")
    assert status == 200
    families: list[Metric] = list(text_string_to_metric_families(body))
    return {spelled(one.name, one.labels): one.value for family in families for one in family.samples}


def spelled(name: str, labels: dict[str, str]) -> str:
    inner = ",".join(f'{key}="{value}"' for key, value in sorted(labels.items()))
    return f"{name}{{{inner}}}"


async def test_a_worker_listens_nowhere_unless_told_to(stage: Stage) -> None:
    worker = await start(stage).ready()
    assert "served at" not in worker.log
    assert not listening(worker.pid)


def listening(pid: int) -> list[str]:
    """The TCP addresses that a process listens at."""
    mine = {str(path.readlink()) for path in Path(f"/proc/{pid}/fd").iterdir()}
    lines = [line.split() for line in Path("/proc/net/tcp").read_text(encoding="ascii").splitlines()[1:]]
    return [line[1] for line in lines if line[3] == "0A" and f"socket:[{line[9]}]" in mine]
