"""A worker as people run it: how it ends by itself, what it says when it cannot begin, and how it starts again."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from chaos import tools
from chaos.stage import Stage, Worker, staged, until

from mycelium.actors.tool import tool
from mycelium.actors.worker.exits import WorkerExit
from mycelium.ledger.states import State

PROGRAM = str(Path(sys.executable).with_name("mycelium-worker"))
SHOP = "from mycelium import tool\n\n@tool(effect_class='read')\ndef look() -> str:\n    return 'VERSION'\n"


@pytest.fixture
async def stage(url: str, namespace: str, tmp_path: Path) -> AsyncIterator[Stage]:
    async with staged(url, namespace, tmp_path / "stage") as made:
        yield made


@pytest.fixture
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def start(stage: Stage, *options: str, server: str | None = None) -> Worker:
    return stage.spawn_command({"MYCELIUM_URL": server or stage.url}, "--ttl", "2", "--poll", "0.5", *options)


def refused(*words: str, **environment: str) -> tuple[int, str]:
    run = subprocess.run(
        [PROGRAM, *words], env=os.environ | environment, capture_output=True, text=True, check=False, timeout=60
    )
    return run.returncode, " ".join(run.stderr.split())


# ── with its work, or at once ────────────────────────────────────────────────────────────────────────────────────────


async def test_a_burst_ends_when_nothing_is_left(stage: Stage) -> None:
    for number in range(40):
        await stage.submit(tools.charge, f"job-{number}", seconds=0.05)
    worker = start(stage, "--burst", "-c", "4")
    assert await worker.exited(30) == WorkerExit.STOPPED, worker.log
    records = await stage.check()
    assert {record.state for record in records.values()} == {State.COMPLETED}
    assert "nothing left to do" in worker.log


async def test_a_burst_without_jobs_ends_at_once_and_leaves_what_is_due_later(stage: Stage) -> None:
    await stage.client.submit(tools.charge.bind(book=stage.book, key="later"), request_id="later", delay_s=3600)
    worker = start(stage, "--burst")
    assert await worker.exited(20) == WorkerExit.STOPPED, worker.log
    assert await stage.in_state(["later"], State.DELAYED)


async def test_a_burst_that_is_told_to_stop_drains(stage: Stage) -> None:
    gate = stage.gate()
    running = await stage.submit(tools.charge, "running", gate=gate.path)
    worker = start(stage, "--burst")
    await until(lambda: stage.effects[running])
    worker.kill(signal.SIGTERM)
    await until(lambda: "stopping" in worker.log)
    gate.open()
    assert await worker.exited(10) == WorkerExit.STOPPED
    assert await stage.in_state([running], State.COMPLETED)


# ── what keeps it from beginning ─────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "app,module,said",
    [
        ("nowhere", "", "There is no module 'nowhere'"),
        ("shop", "import nothing_like_it\n", "The module 'shop' fails on import: ModuleNotFoundError"),
        ("shop", "raise SystemExit(3)\n", "The module 'shop' fails on import: SystemExit"),
        ("shop", "price = 3\n", "'shop' has no tools"),
        ("shop:look", "", "has no attribute 'look'"),
        ("shop.py", "", "There is no module 'shop.py'"),
        ("shop/tools.py", "", "is not a module's name"),
    ],
)
def test_an_app_that_cannot_be_run_is_refused_with_a_reason(
    elsewhere: Path, url: str, app: str, module: str, said: str
) -> None:
    (elsewhere / "shop.py").write_text(module, encoding="utf-8")
    code, message = refused(app, "--url", url, "--namespace", "refused")
    assert code == WorkerExit.BAD_USAGE, message
    assert said in message
    assert "Traceback" not in message


def test_a_port_that_is_taken_is_refused_with_a_way_out(url: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        code, message = refused("chaos.tools", "--url", url, "--namespace", "refused", "--health-port", port)
    assert code == WorkerExit.BAD_USAGE
    assert f"Nothing can listen at 127.0.0.1:{port}: Address already in use." in message
    assert "Choose another port" in message


def test_a_server_that_is_not_there_has_a_code_of_its_own() -> None:
    with socket.create_server(("127.0.0.1", 0)) as nobody:
        address = f"redis://127.0.0.1:{nobody.getsockname()[1]}"
    code, message = refused("chaos.tools", "--url", address)
    assert code == WorkerExit.SERVER
    assert "No server answered" in message


def test_a_worker_without_an_app_says_how_to_name_one() -> None:
    code, message = refused(MYCELIUM_APP="")
    assert code == WorkerExit.BAD_USAGE
    assert "APP" in message


# ── while the app is written ─────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def reloading(elsewhere: Path, stage: Stage) -> Iterator[Worker]:
    (elsewhere / "shop.py").write_text(SHOP.replace("VERSION", "first"), encoding="utf-8")
    command = [PROGRAM, "shop", "--url", stage.url, "--namespace", stage.namespace, "--hosts", "1", "--reload"]
    worker = Worker(elsewhere / "reload.log", command, dict(os.environ), 1)
    stage.workers.append(worker)
    yield worker
    worker.end()


@tool(effect_class="read")
def look() -> str:
    """As it is submitted; what it answers is the worker's affair."""
    return "nobody runs this one"


async def answer(stage: Stage, request_id: str) -> str:
    job = await stage.client.submit(look.bind(), request_id=request_id)
    return str(await job.result(timeout_s=20))


async def test_a_worker_that_reloads_runs_what_was_written_last(
    reloading: Worker, stage: Stage, elsewhere: Path
) -> None:
    await until(lambda: reloading.started == 1)
    assert await answer(stage, "before") == "first"
    (elsewhere / "shop.py").write_text("this is no Python", encoding="utf-8")
    await until(lambda: "is started again when a file changes" in reloading.log)
    assert "shop.py changed: the worker drains" in reloading.log
    (elsewhere / "shop.py").write_text(SHOP.replace("VERSION", "second"), encoding="utf-8")
    await until(lambda: reloading.started == 2)
    assert await answer(stage, "after") == "second"
    reloading.kill(signal.SIGTERM)
    assert await reloading.exited(10) == WorkerExit.STOPPED, reloading.log
    assert reloading.log.count("stopping:") == 2
