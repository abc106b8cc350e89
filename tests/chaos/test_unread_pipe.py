"""Nobody reads the worker's stderr, and a tool prints until its pipe is full: that harms the tool's own host only."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

from chaos.stage import Stage, children, plain, until, until_async

from mycelium.actors.client import Client
from mycelium.actors.tool import tool
from mycelium.ledger.states import State

TTL_S = 1.5
MINE = "chaos.test_unread_pipe"
HERE = Path(__file__).parent


@tool(effect_class="non_idempotent_mutate", timeout_s=3)
def print_a_megabyte() -> str:
    for _ in range(10_000):
        print("x" * 100)  # noqa: T201 - that is its point
    return "printed"


@tool(effect_class="read", timeout_s=30)
def hello(name: str) -> str:
    return name


async def test_a_full_pipe_costs_no_session_and_the_worker_still_ends(stage: Stage) -> None:
    with unread_worker(stage) as worker:
        try:
            await until(lambda: children(worker.pid), 30)
            client = stage.client
            assert await _said(client, "before") == "before"
            (session,) = await _sessions(stage)
            printing = await client.submit(print_a_megabyte.bind(), request_id="prints")
            await until_async(lambda: _in(client, "prints", State.ATTEMPTING))
            (host,) = children(worker.pid)
            for number in range(5):
                assert await _said(client, f"beside-{number}") == f"beside-{number}"
            # The printing one is past its time and has not ended, so its host is ended, and the worker logs that.
            await until_async(lambda: _in(client, printing.request_id, State.UNKNOWN))
            await until(lambda: children(worker.pid) not in ([], [host]))
            assert await _said(client, "after") == "after"
            assert await _sessions(stage) == [session]
            worker.send_signal(signal.SIGTERM)
            await until(lambda: worker.poll() is not None, 10)
            assert worker.returncode == 0
        finally:
            worker.kill()


def unread_worker(stage: Stage) -> subprocess.Popen[bytes]:
    """A worker as people start it, whose stderr is a pipe."""
    command = [str(Path(sys.executable).with_name("mycelium-worker")), MINE, "--url", stage.url]
    options = ["--namespace", stage.namespace, "--hosts", "1", "--ttl", str(TTL_S), "--grace", "1"]
    path = os.pathsep.join([str(HERE.parent), *filter(None, [os.environ.get("PYTHONPATH")])])
    return subprocess.Popen([*command, *options], stderr=subprocess.PIPE, env={**os.environ, "PYTHONPATH": path})


async def _said(client: Client, name: str) -> object:
    job = await client.submit(hello.bind(name), request_id=name)
    return await job.result(20)


async def _in(client: Client, request_id: str, state: State) -> bool:
    return await client.job(request_id).state() is state


async def _sessions(stage: Stage) -> list[bytes]:
    async with plain(stage.url) as direct:
        return [*await direct.zrange(stage.client.store.keys.sessions(), 0, -1)]
