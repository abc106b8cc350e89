"""`mycelium queues`: what waits, why, and who would take it; and orders that keep jobs of a kind from being taken."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator, Sequence
from typing import Any, Unpack

import pytest
from typer.testing import CliRunner, Result

from kit.holder import holder
from kit.in_memory_shop import TOOLS as MEMORY_TOOLS
from kit.shop import TOOLS
from mycelium.actors.client import Client, connect
from mycelium.actors.job_options import WaitOptions
from mycelium.cli.main import app
from mycelium.ledger.backlog import read_backlog
from mycelium.ledger.limits import Concurrency, Rate
from mycelium.ledger.listing import look_at
from mycelium.ledger.states import Settle
from mycelium.testing import in_memory_worker

KNOWN = [tool.name for tool in TOOLS]
SAYING = ("--by", "ops", "--reason", "the provider is down")


@pytest.fixture
def loop() -> Iterator[asyncio.Runner]:
    with asyncio.Runner() as runner:
        yield runner


def invoke(url: str, namespace: str, *args: str) -> Result:
    verb = [*args[:1], "--url", url, "--namespace", namespace, *args[1:]]
    return CliRunner().invoke(app, ["queues", *verb])


def told(url: str, namespace: str) -> dict[str, Any]:
    result = CliRunner().invoke(app, ["queues", "--url", url, "--namespace", namespace, "--json"])
    assert result.exit_code == 0, result.output
    document: dict[str, Any] = json.loads(result.stdout)
    return document


def seen(url: str, namespace: str) -> str:
    return " ".join(CliRunner().invoke(app, ["queues", "--url", url, "--namespace", namespace]).stdout.split())


def next_of(url: str, namespace: str, request_id: str) -> str:
    words = ["transitions", "show", "--url", url, "--namespace", namespace, "--json", request_id]
    return str(json.loads(CliRunner().invoke(app, words).stdout)["transition"]["next"])


def crew(tools: Sequence[str], queues: Sequence[str] = ("default",), *, quiet: bool = False) -> bytes:
    """What a worker says of itself."""
    return json.dumps({"hosts": 1, "tools": list(tools), "queues": list(queues), "quiet": quiet}).encode()


async def submit(client: Client, *ids: str, tool: str = "look_up", **options: Unpack[WaitOptions]) -> None:
    for request_id in ids:
        await client.submit(tool, {"order": request_id}, request_id=request_id, **options)


def test_where_nothing_waits_it_says_so(url: str, namespace: str) -> None:
    assert seen(url, namespace).startswith(f"No job waits in namespace '{namespace}'")
    assert told(url, namespace) == {
        "waiting": [],
        "held": [],
        "orders": {"pauses": [], "strikes": []},
        "workers": 0,
    }


def test_what_waits_is_counted_and_a_tool_that_nobody_knows_stands_out(
    url: str, namespace: str, loop: asyncio.Runner
) -> None:
    async def prepare(workers: Sequence[bytes]) -> None:
        async with connect(url, namespace=namespace, tools=TOOLS) as client:
            await submit(client, "a", "b")
            await submit(client, "c", priority="high", tenant="acme")
            await submit(client, "d", tool="charge", queue="mail")
        for info in workers:
            async with holder(url, namespace, [], info=info):
                pass

    loop.run(prepare([crew(["look_up"], ["default:3@10", "other"]), crew(["charge"], ["default"])]))
    waiting = told(url, namespace)["waiting"]
    assert [(one["queue"], one["tool"], one["priority"], one["jobs"]) for one in waiting] == [
        ("default", "look_up", "high", 1),
        ("default", "look_up", "normal", 2),
        ("mail", "charge", "normal", 1),
    ]
    assert [(one["know"], one["take"]) for one in waiting] == [(1, 1), (1, 1), (1, 0)]
    assert all(one["oldest_s"] >= 0 and one["whole"] for one in waiting)
    assert "NONE takes it here, 1 know the tool" in seen(url, namespace)
    assert next_of(url, namespace, "a") == "waits for its turn at a worker"
    assert "from the queue 'mail': those that live do not, or are quiet" in next_of(url, namespace, "d")


def test_jobs_of_a_tool_that_no_live_worker_knows_are_shown_as_such(
    url: str, namespace: str, loop: asyncio.Runner
) -> None:
    async def prepare() -> None:
        async with connect(url, namespace=namespace, tools=TOOLS) as client, holder(url, namespace, KNOWN) as gone:
            await submit(client, "a")
            await client.store.calls.read("HSET", client.store.keys.session(gone.session.id), "info", crew(KNOWN))
            # It knew the tool, and its session has lapsed since.
            await client.store.calls.read("ZADD", client.store.keys.sessions(), 1, gone.session.id)
        async with holder(url, namespace, [], info=crew(["charge"])):
            pass
        # A program that calls in process takes no jobs.
        async with holder(url, namespace, [], info=json.dumps({"tools": KNOWN}).encode()):
            pass

    loop.run(prepare())
    assert "look_up normal 1" in seen(url, namespace)
    assert "NONE knows the tool" in seen(url, namespace)
    assert told(url, namespace)["workers"] == 1
    assert "knows the tool 'look_up': none that lives does" in next_of(url, namespace, "a")


async def test_a_real_worker_says_which_tools_it_knows_and_which_queues_it_takes(url: str, namespace: str) -> None:
    async with in_memory_worker(MEMORY_TOOLS, server=url, namespace=namespace) as worker:
        await worker.run_until_idle()
        workers = (await read_backlog(worker.store)).fleet.workers
        for _ in range(500):
            if workers and workers[0].tools:
                break
            workers = (await read_backlog(worker.store)).fleet.workers
        assert workers[0].tools == {tool.name for tool in MEMORY_TOOLS}
        assert workers[0].queues == {"default"}
        [line] = json.loads(
            (await asyncio.to_thread(_workers, url, namespace)).stdout,
        )["workers"]
        assert line["info"]["tools"] == sorted(tool.name for tool in MEMORY_TOOLS)


def _workers(url: str, namespace: str) -> Result:
    return CliRunner().invoke(app, ["workers", "--url", url, "--namespace", namespace, "--json"])


def test_a_quiet_worker_knows_and_takes_nothing(url: str, namespace: str, loop: asyncio.Runner) -> None:
    async def prepare() -> None:
        async with connect(url, namespace=namespace, tools=TOOLS) as client:
            await submit(client, "a")
        async with holder(url, namespace, [], info=crew(KNOWN, quiet=True)):
            pass

    loop.run(prepare())
    [line] = told(url, namespace)["waiting"]
    assert (line["know"], line["take"]) == (1, 0)


def test_what_waits_for_room_is_shown_with_its_key(url: str, namespace: str, loop: asyncio.Runner) -> None:
    async def prepare() -> None:
        async with (
            connect(url, namespace=namespace, tools=TOOLS) as client,
            holder(url, namespace, KNOWN, info=crew(KNOWN)) as worker,
        ):
            await submit(client, "a", "b", "c", limits=[Concurrency("customer:7", 1)])
            await submit(client, "r", "s", tool="charge", limits=[Rate("stripe:eu", 1, per_s=3600.0)])
            assert len(await worker.claim()) == 2

    loop.run(prepare())
    held = told(url, namespace)["held"]
    assert [(one["kind"], one["key"], one["jobs"], one["running"]) for one in held] == [
        ("concurrency", "customer:7", 2, 1),
        ("rate", "stripe:eu", 1, 0),
    ]
    assert "concurrency customer:7 2 1" in seen(url, namespace)
    assert "'customer:7'" in next_of(url, namespace, "b")
    assert "'stripe:eu'" in next_of(url, namespace, "s")


def test_a_pause_keeps_jobs_until_it_is_resumed_and_says_who_ordered_it(
    url: str, namespace: str, loop: asyncio.Runner
) -> None:
    async def submitted() -> None:
        async with connect(url, namespace=namespace, tools=TOOLS) as client:
            await submit(client, "a")

    loop.run(submitted())
    assert claimable(url, namespace, loop, take=False) == 1
    for target in ("queue:default", "tool:look_up"):
        first = invoke(url, namespace, "pause", target, *SAYING)
        assert (first.exit_code, first.stdout.split(".")[0]) == (0, "Paused")
        assert "was paused before" in invoke(url, namespace, "pause", target, "--by", "other", "--reason", "x").stdout
        assert claimable(url, namespace, loop) == 0
        [order] = told(url, namespace)["orders"]["pauses"]
        assert (f"{order['target']}:{order['name']}", order["by"], order["reason"]) == (target, "ops", SAYING[3])
        kind = target.partition(":")[0]
        assert f"PAUSED ({kind})" in seen(url, namespace)
        assert f"paused: {target.replace(':', ' ')}" in seen(url, namespace)
        assert "is paused, by 'ops': the provider is down" in next_of(url, namespace, "a")
        assert invoke(url, namespace, "resume", target).stdout.startswith("Resumed.")
        assert "was not paused" in invoke(url, namespace, "resume", target).stdout
    assert claimable(url, namespace, loop) == 1


def test_a_strike_keeps_one_value_of_one_argument(url: str, namespace: str, loop: asyncio.Runner) -> None:
    async def submitted() -> None:
        async with connect(url, namespace=namespace, tools=TOOLS) as client:
            await submit(client, "a", "7")

    loop.run(submitted())
    # 7 is the number: the order is called by the text.
    for value in ("a", '"7"'):
        assert invoke(url, namespace, "strike", "look_up", f"order={value}", *SAYING).stdout.startswith("Struck.")
    assert invoke(url, namespace, "strike", "look_up", "order=7", *SAYING).stdout.startswith("Struck.")
    assert claimable(url, namespace, loop) == 0
    assert [one["value"] for one in told(url, namespace)["orders"]["strikes"]] == ['"7"', '"a"', "7"]
    held = {one["strike"]["value"]: one["jobs"] for one in told(url, namespace)["held"]}
    assert held == {'"7"': 1, '"a"': 1}
    assert 'strike look_up order="a" 1' in seen(url, namespace)
    assert "one of its arguments is struck" in next_of(url, namespace, "a")
    assert invoke(url, namespace, "lift", "look_up", "order=7").stdout.startswith("Lifted.")
    assert claimable(url, namespace, loop) == 0
    assert json.loads(invoke(url, namespace, "lift", "look_up", "order=a", "--json").stdout)["order"] == {
        "word": "lifted",
        "tool": "look_up",
        "parameter": "order",
        "value": "a",
    }
    assert claimable(url, namespace, loop) == 1


@pytest.mark.parametrize(
    "words",
    [
        ("pause", "default", *SAYING),
        ("pause", "queue:", *SAYING),
        ("pause", "worker:x", *SAYING),
        ("pause", "queue:Not One", *SAYING),
        ("pause", "queue:default"),
        ("resume", "tool"),
        ("strike", "charge", "order", *SAYING),
        ("strike", "charge", "=A", *SAYING),
        ("strike", "charge", "order=[1]", *SAYING),
        ("strike", "charge", "order=null", *SAYING),
        ("strike", "charge", "to.order=A", *SAYING),
        ("strike", "charge", "order=A", "--by", " ", "--reason", "r"),
        ("lift", "charge", "order={}"),
    ],
    ids=" ".join,
)
def test_an_order_that_is_none_ends_with_code_2(url: str, namespace: str, words: tuple[str, ...]) -> None:
    refused = invoke(url, namespace, *words)
    assert (refused.exit_code, refused.stdout) == (2, "")
    assert told(url, namespace)["orders"] == {"pauses": [], "strikes": []}


async def test_a_call_in_process_waits_for_its_caller_and_for_no_worker(url: str, namespace: str) -> None:
    async with connect(url, namespace=namespace, tools=TOOLS) as client:
        await submit(client, "a")
        await client.store.calls.read("HSET", client.store.keys.row("a"), "queued", "0")
        assert "waits for its caller" in (await look_at(client.store, "a")).advice.text


def claimable(url: str, namespace: str, loop: asyncio.Runner, *, take: bool = True) -> int:
    """How many jobs a worker gets; without `take` it gives them back."""

    async def work() -> int:
        async with holder(url, namespace, KNOWN) as worker:
            grants = (await worker.turn(slots=10)).grants
            for grant in grants if not take else ():
                await worker.settle(grant, Settle.RELEASED)
            return len(grants)

    return loop.run(work())
