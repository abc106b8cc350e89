"""`mycelium transitions cancel` and `requeue`: what is done in each state, what is said, and how each refusal ends."""

from __future__ import annotations

import asyncio
import json
import shlex
from collections.abc import Iterator
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from kit.holder import holder, key_dump
from kit.shop import TOOLS
from mycelium.actors.client import connect
from mycelium.cli.main import app
from mycelium.leases.store import open_store
from mycelium.ledger.states import Settle

KNOWN = [tool.name for tool in TOOLS]
SAYING = ("--by", "ops", "--reason", "wrong order")


@pytest.fixture
def loop() -> Iterator[asyncio.Runner]:
    with asyncio.Runner() as runner:
        yield runner


def invoke(url: str, namespace: str, *args: str) -> Result:
    verb, *rest = args
    return CliRunner().invoke(app, ["transitions", verb, "--url", url, "--namespace", namespace, *rest])


def told(url: str, namespace: str, *args: str) -> dict[str, Any]:
    verb, *rest = args
    result = invoke(url, namespace, verb, "--json", *rest)
    assert result.exit_code == 0, result.output
    document: dict[str, Any] = json.loads(result.stdout)
    return document


async def one_in_each_state(url: str, namespace: str) -> None:
    async with connect(url, namespace=namespace, tools=TOOLS) as client, holder(url, namespace, KNOWN) as worker:
        for name in ("completed", "failed", "unknown"):
            await client.submit("charge", {"order": name}, request_id=name)
        grants = {grant.request_id: grant for grant in await worker.claim()}
        await worker.complete(grants["completed"], 1)
        await worker.fail(grants["failed"], "Taken", "the seat is taken")
        await worker.settle(grants["unknown"], Settle.UNKNOWN, error="ReadTimeout")
        await client.submit("charge", {"order": "attempting"}, request_id="attempting")
        await worker.claim()
        await client.submit("charge", {"order": "ready"}, request_id="ready", labels={"team": "ops"}, queue="mail")
        await client.submit("charge", {"order": "delayed"}, request_id="delayed", delay_s=3600)


async def read_dump(url: str, namespace: str) -> dict[bytes, bytes]:
    store = await open_store(url, namespace=namespace)
    try:
        return await key_dump(store)
    finally:
        await store.aclose()


@pytest.mark.parametrize(
    "name,word,state,said",
    [
        ("ready", "cancelled", "cancelled", "Cancelled. ready has no effect, and does not run any more."),
        ("delayed", "cancelled", "cancelled", "Cancelled. delayed has no effect, and does not run any more."),
        ("attempting", "asked", "attempting", "Asked. attempting is attempting: is running, and was asked by 'ops'"),
        ("unknown", "unknown", "unknown", "Recorded. unknown may have had its effect, and does not run again."),
        ("failed", "ended", "failed", "Nothing was changed. failed had ended as failed."),
    ],
)
def test_a_cancel_says_no_more_than_was_done(  # noqa: PLR0917 - the table and the fixtures
    url: str, namespace: str, loop: asyncio.Runner, name: str, word: str, state: str, said: str
) -> None:
    loop.run(one_in_each_state(url, namespace))
    assert invoke(url, namespace, "cancel", name, *SAYING).stdout.startswith(said)
    # Said twice it is done once; what is cancelled by then has ended.
    again = told(url, namespace, "cancel", name, *SAYING)["cancel"]
    assert (again["word"], again["state"]) == ("ended" if word == "cancelled" else word, state)
    one = told(url, namespace, "show", name)["transition"]
    assert (one["state"], one["cancel_by"]) == (state, "" if name == "failed" else "ops")


def test_a_cancel_of_what_has_had_its_effect_ends_with_code_1(url: str, namespace: str, loop: asyncio.Runner) -> None:
    loop.run(one_in_each_state(url, namespace))
    before = loop.run(read_dump(url, namespace))
    late = invoke(url, namespace, "cancel", "completed")
    assert (late.exit_code, late.stdout) == (
        1,
        "Nothing was changed. completed had ended as completed: it has had its effect.\n",
    )
    assert invoke(url, namespace, "cancel", "nothing").exit_code == 4
    assert invoke(url, namespace, "cancel", "ready", "--by", " ").exit_code == 2
    assert invoke(url, namespace, "cancel", "ready", "--reason", "x" * 2001).exit_code == 2
    assert loop.run(read_dump(url, namespace)) == before


def test_what_was_cancelled_is_shown_and_runs_again_when_it_is_requeued(
    url: str, namespace: str, loop: asyncio.Runner
) -> None:
    loop.run(one_in_each_state(url, namespace))
    assert told(url, namespace, "cancel", "ready", *SAYING)["cancel"]["word"] == "cancelled"
    text = " ".join(invoke(url, namespace, "show", "ready").stdout.split())
    assert all(words in text for words in ("cause cancelled", "cancel by ops", "cancel reason wrong order"))
    assert all(words in text for words in ("labels team=ops", "queue mail", "priority normal"))
    assert "by ops: wrong order" in invoke(url, namespace, "timeline", "ready").stdout
    [command] = told(url, namespace, "show", "ready")["transition"]["commands"]
    program, noun, *words = shlex.split(command.replace("YOU", "ops").replace("WHY", "'it was right'"))
    assert (program, noun) == ("mycelium", "transitions")
    requeued = told(url, namespace, *words)["requeued"]
    assert (requeued["request_id"], requeued["state"]) == ("ready", "ready")
    assert "Requeued" in invoke(url, namespace, "timeline", "ready").stdout
    one = told(url, namespace, "show", "ready")["transition"]
    assert (one["cause"], one["requeued_by"], one["requeue_reason"]) == (None, "ops", "it was right")
    assert told(url, namespace, "timeline", "ready")["labels"] == {"team": "ops"}


@pytest.mark.parametrize("name", ["completed", "unknown", "attempting", "ready", "delayed"])
def test_only_what_ended_without_an_effect_is_requeued(
    url: str, namespace: str, loop: asyncio.Runner, name: str
) -> None:
    loop.run(one_in_each_state(url, namespace))
    before = loop.run(read_dump(url, namespace))
    refused = invoke(url, namespace, "requeue", name, *SAYING)
    assert (refused.exit_code, refused.stdout) == (1, "")
    assert "Nothing was written." in refused.stderr
    assert invoke(url, namespace, "requeue", "failed").exit_code == 2
    assert invoke(url, namespace, "requeue", "failed", "--reason", " ").exit_code == 1
    assert invoke(url, namespace, "requeue", "nothing", *SAYING).exit_code == 4
    assert loop.run(read_dump(url, namespace)) == before
    assert invoke(url, namespace, "requeue", "failed", *SAYING).stdout.startswith("Requeued. failed is ready: ")


def test_the_list_is_narrowed_by_queue_tenant_and_labels(url: str, namespace: str, loop: asyncio.Runner) -> None:
    async def prepare() -> None:
        async with connect(url, namespace=namespace, tools=TOOLS) as client:
            for at, queue in enumerate(("mail", "mail", "default")):
                labels = {"team": "ops", "at": str(at)}
                tenant = f"t{at}"
                await client.submit(
                    "look_up", {"order": "A"}, request_id=f"x{at}", queue=queue, tenant=tenant, labels=labels
                )

    loop.run(prepare())

    def ids(*filters: str) -> set[str]:
        return {one["request_id"] for one in told(url, namespace, "list", *filters)["transitions"]}

    assert ids("--queue", "mail") == {"x0", "x1"}
    assert ids("--tenant", "t2") == {"x2"}
    assert ids("--label", "team=ops", "--label", "at=1") == {"x1"}
    assert ids("--label", "team=ops", "--queue", "default") == {"x2"}
    assert ids("--label", "team=dev") == set()
    assert invoke(url, namespace, "list", "--label", "team").exit_code == 2
    assert "No transition matches" in invoke(url, namespace, "list", "--label", "team=dev").stdout
