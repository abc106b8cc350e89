"""The client for plain code: from many threads, inside a running loop, and at the end of a program."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from kit.holder import holder
from kit.shop import TOOLS, charge, look_up
from mycelium.actors.client import ClientSettings
from mycelium.actors.submissions import Submission
from mycelium.actors.sync import SyncClient, SyncJob, connect_sync
from mycelium.leases.errors import (
    BadCallError,
    IdentityConflictError,
    ResultTimeoutError,
    ServerUnavailableError,
    UnknownToolError,
)
from mycelium.leases.store import StoreSettings
from mycelium.ledger.states import State


@pytest.fixture
def client(url: str, namespace: str) -> Iterator[SyncClient]:
    with connect_sync(url, namespace=namespace, tools=TOOLS, settings=ClientSettings(poll_s=0.02)) as opened:
        yield opened


async def complete_all(url: str, namespace: str, count: int) -> None:
    """Complete so many jobs, each with its own request id as the result."""
    async with holder(url, namespace, ["look_up"]) as worker:
        while count:
            for grant in await worker.claim():
                await worker.complete(grant, grant.request_id)
                count -= 1


def test_plain_code_submits_waits_and_reads(client: SyncClient, url: str, namespace: str) -> None:
    job = client.submit(look_up.bind("A"), request_id="x")
    assert (job.request_id, job.created, job.state()) == ("x", True, State.READY)
    with pytest.raises(ResultTimeoutError):
        job.result(0)
    asyncio.run(complete_all(url, namespace, 1))
    assert job.result(30) == "x"
    assert client.call("look_up", {"order": "A"}, request_id="x", wait_s=30) == "x"
    assert client.job("x").record().state is State.COMPLETED


def test_errors_are_those_of_the_async_client(client: SyncClient) -> None:
    client.submit(charge.bind("A"), request_id="x")
    with pytest.raises(IdentityConflictError):
        client.submit(charge.bind("B"), request_id="x")
    with pytest.raises(BadCallError):
        client.job("")
    answers = client.submit_many([Submission("chrage", {}), Submission(charge.bind("C"), request_id="c")])
    assert [type(answer) for answer in answers] == [UnknownToolError, SyncJob]


def test_eight_threads_share_one_client(client: SyncClient, url: str, namespace: str) -> None:
    start = threading.Barrier(8)

    def work(thread: int) -> list[object]:
        start.wait()
        jobs = [client.submit(look_up.bind(f"{thread}-{at}"), request_id=f"{thread}-{at}") for at in range(10)]
        return [job.result(60) for job in jobs]

    with ThreadPoolExecutor(8) as threads:
        working = [threads.submit(work, thread) for thread in range(8)]
        asyncio.run(complete_all(url, namespace, 80))
        results = [each.result(60) for each in working]
    assert results == [[f"{thread}-{at}" for at in range(10)] for thread in range(8)]


async def test_it_does_not_deadlock_inside_a_running_loop(client: SyncClient, url: str, namespace: str) -> None:
    job = client.submit(look_up.bind("A"), request_id="x")
    await complete_all(url, namespace, 1)
    assert job.result(30) == "x"


def test_a_closed_client_says_so_and_closes_twice(url: str, namespace: str) -> None:
    client = connect_sync(url, namespace=namespace)
    client.close()
    client.close()
    with pytest.raises(ServerUnavailableError, match="closed"):
        client.submit(look_up.bind("A"), request_id="x")


def test_closing_one_client_leaves_another_alone(client: SyncClient, url: str, namespace: str) -> None:
    connect_sync(url, namespace=namespace).close()
    assert client.submit(look_up.bind("A"), request_id="x").created


def test_a_connect_that_fails_leaves_no_thread() -> None:
    before = threading.active_count()
    with pytest.raises(ServerUnavailableError):
        connect_sync("redis://127.0.0.1:1", settings=ClientSettings(store=StoreSettings(connect_timeout_s=0.2)))
    assert threading.active_count() == before


def run_program(program: str, url: str, namespace: str) -> subprocess.CompletedProcess[str]:
    """Run a program that has `client`, in a process of its own."""
    tests = str(Path(__file__).parents[1])
    head = (
        f"import sys, os; sys.path.insert(0, {tests!r})\n"
        "from mycelium.actors.sync import connect_sync; from kit.shop import look_up\n"
        "client = connect_sync(sys.argv[1], namespace=sys.argv[2])\n"
    )
    command = [sys.executable, "-W", "ignore", "-c", head + program, url, namespace]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


def test_a_program_that_forgets_to_close_still_ends(url: str, namespace: str) -> None:
    run = run_program("print(client.submit(look_up.bind('A'), request_id='x').created)", url, namespace)
    assert (run.returncode, run.stdout.strip()) == (0, "True")
    assert "Traceback" not in run.stderr


def test_a_child_of_a_fork_is_told_to_connect_anew(url: str, namespace: str) -> None:
    program = """
child = os.fork()
if child:
    print("child", os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
    print(client.submit(look_up.bind("A"), request_id="x").created)
else:
    try:
        client.submit(look_up.bind("A"), request_id="x")
    except Exception as error:
        print(type(error).__name__, "forked" in str(error), flush=True)
    os._exit(0)
"""
    run = run_program(program, url, namespace)
    assert (run.returncode, run.stdout.split()) == (0, ["ServerUnavailableError", "True", "child", "0", "True"])
    assert "Traceback" not in run.stderr
