"""`mycelium jobs` and `mycelium workers`: what is listed, in tables and as JSON."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from kit.holder import Holder, holder
from kit.shop import TOOLS
from mycelium.actors.client import connect
from mycelium.cli.main import app
from mycelium.ledger.listing import NEXT_ACTION, NOBODY_TO_ASK, list_jobs
from mycelium.ledger.states import Settle, State

KNOWN = [tool.name for tool in TOOLS]


@pytest.fixture
def loop() -> Iterator[asyncio.Runner]:
    with asyncio.Runner() as runner:
        yield runner


def invoke(url: str, namespace: str, *args: str) -> Result:
    return CliRunner().invoke(app, [*args, "--url", url, "--namespace", namespace])


def told(url: str, namespace: str, *args: str) -> dict[str, Any]:
    result = invoke(url, namespace, *args, "--json")
    assert result.exit_code == 0, result.output
    document: dict[str, Any] = json.loads(result.stdout)
    return document


async def settle_in_every_state(url: str, namespace: str) -> None:
    """Leave one job in each state that there is without a person; what is held lasts as long as its session."""
    async with connect(url, namespace=namespace, tools=TOOLS) as client, holder(url, namespace, KNOWN) as worker:
        for name in ("completed", "failed", "unknown"):
            await client.submit("charge", {"order": name}, request_id=name)
        await client.submit("look_up", {"order": "dead"}, request_id="dead")
        grants = {grant.request_id: grant for grant in await worker.claim()}
        await worker.complete(grants["completed"], 1)
        await worker.fail(grants["failed"], "Taken", "the seat is taken")
        await worker.settle(grants["unknown"], Settle.UNKNOWN, error="ReadTimeout")
        await worker.settle(grants["dead"], Settle.RETRY, error="Flaky")
        for _ in range(2):
            await worker.settle((await worker.claim())[0], Settle.RETRY, error="Flaky")
        await client.submit("charge", {"order": "attempting"}, request_id="attempting")
        await worker.claim()
        await client.submit("charge", {"order": "claimed"}, request_id="claimed")
        await worker.turn(slots=1)
        await client.submit("charge", {"order": "ready"}, request_id="ready")
        await client.submit("charge", {"order": "delayed"}, request_id="delayed", delay_s=3600)


def test_a_job_in_each_state_is_listed_with_what_comes_next(url: str, namespace: str, loop: asyncio.Runner) -> None:
    loop.run(settle_in_every_state(url, namespace))
    jobs = {job["request_id"]: job for job in told(url, namespace, "jobs", "list")["jobs"]}
    reached = set(State) - {State.PARKED, State.CANCELLED}
    assert {name: job["state"] for name, job in jobs.items()} == {state: state for state in reached}
    told_next = {name: job["next"] for name, job in jobs.items()}
    assert told_next == {state: NEXT_ACTION[state] for state in reached} | {State.UNKNOWN: NOBODY_TO_ASK}
    assert jobs["failed"]["error"] == "Taken"
    assert set(NEXT_ACTION) == set(State)
    for state in reached:
        assert [job["request_id"] for job in told(url, namespace, "jobs", "list", "--state", state)["jobs"]] == [state]
    assert [job["request_id"] for job in told(url, namespace, "jobs", "list", "--tool", "look_up")["jobs"]] == ["dead"]
    assert len(told(url, namespace, "jobs", "list", "--limit", "3")["jobs"]) == 3
    table = invoke(url, namespace, "jobs", "list").stdout
    assert all(str(state) in table for state in reached)


def test_what_is_open_is_listed_though_the_events_forgot_it(url: str, namespace: str, loop: asyncio.Runner) -> None:
    async def prepare() -> list[str]:
        async with connect(url, namespace=namespace, tools=TOOLS) as client, holder(url, namespace, KNOWN) as worker:
            await settle_in_every_state(url, namespace)
            await worker.store.calls.read("XTRIM", client.store.keys.events(), "MAXLEN", 0)
            await worker.store.calls.read("HSET", client.store.keys.tools(), "charge", "{}")
            return [record.request_id for record in await list_jobs(client.store)]

    assert set(loop.run(prepare())) == {"ready", "delayed", "unknown", "claimed", "attempting"}


def test_an_empty_namespace_is_said_to_be_empty(url: str, namespace: str) -> None:
    assert told(url, namespace, "jobs", "list") == {"jobs": []}
    assert invoke(url, namespace, "jobs", "list").stdout.startswith(f"No jobs in namespace '{namespace}' at ")
    assert told(url, namespace, "workers")["workers"] == []


def test_one_job_is_shown_and_its_history_has_no_gaps(url: str, namespace: str, loop: asyncio.Runner) -> None:
    loop.run(settle_in_every_state(url, namespace))
    job = told(url, namespace, "jobs", "show", "unknown")["job"]
    assert (job["tool"], job["state"], job["boundary"], job["attempts"]) == ("charge", "unknown", "maybe_crossed", 1)
    text = invoke(url, namespace, "jobs", "show", "unknown").stdout
    assert "ReadTimeout" in text
    assert "never run again by guess" in text
    timeline = told(url, namespace, "jobs", "timeline", "unknown")["timeline"]
    assert [entry["number"] for entry in timeline] == list(range(1, len(timeline) + 1))
    assert [entry["what"] for entry in timeline] == ["ready", "claimed", "attempting", "unknown"]
    assert "unknown" in invoke(url, namespace, "jobs", "timeline", "unknown").stdout


@pytest.mark.parametrize("verb", ["show", "timeline"])
def test_what_is_not_there_ends_with_code_4_and_what_is_no_id_with_2(url: str, namespace: str, verb: str) -> None:
    assert invoke(url, namespace, "jobs", verb, "nothing").exit_code == 4
    for bad in (" ", "x" * 257, "\udcff"):
        assert invoke(url, namespace, "jobs", verb, bad).exit_code == 2


def test_workers_are_listed_with_what_they_hold(url: str, namespace: str, loop: asyncio.Runner) -> None:
    info = {"pid": 7, "host": "box", "hosts": 2, "slots": 16, "tools": ["charge", "look_up"]}

    async def work(opened: Holder) -> None:
        async with connect(url, namespace=namespace, tools=TOOLS) as client:
            await client.submit("charge", {"order": "A"}, request_id="x")
        await opened.claim()

    async def prepare() -> str:
        async with holder(url, namespace, KNOWN, info=json.dumps(info).encode()) as opened:
            await work(opened)
            return opened.session.id

    session_id = loop.run(prepare())
    [line] = told(url, namespace, "workers")["workers"]
    assert (line["session_id"], line["name"], line["held"], line["info"]) == (session_id, "test holder", 1, info)
    assert line["deadline_ms"] - line["renewed_ms"] == 60_000
    assert not line["lapsed"]
    table = invoke(url, namespace, "workers").stdout
    assert "test holder" in table
    assert "box:7" in table
