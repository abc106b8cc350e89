"""`mycelium transitions` and `mycelium workers`: what is listed and stuck, and what a person may record of it."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import re
import shlex
from collections.abc import Iterator
from enum import StrEnum
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from house.tree import ROOT
from kit.holder import Holder, holder, key_dump
from kit.shop import TOOLS
from mycelium.actors.client import connect
from mycelium.cli.main import app
from mycelium.leases.store import open_store
from mycelium.ledger.about import About
from mycelium.ledger.advice import UNCLAIMED_MS, Stuck
from mycelium.ledger.cause import Cause
from mycelium.ledger.line import Priority
from mycelium.ledger.listing import list_transitions
from mycelium.ledger.record import Record
from mycelium.ledger.states import CLASS_ALIASES, Boundary, BoundaryMode, EffectClass, Liveness, Settle, State
from mycelium.ledger.waiting import GateKind

KNOWN = [tool.name for tool in TOOLS]
SAYING = ("--by", "ops@example.com", "--reason", "the dashboard says so")
HAPPENED = ("--verified", "completed", "--result-json", "null")


@pytest.fixture
def loop() -> Iterator[asyncio.Runner]:
    with asyncio.Runner() as runner:
        yield runner


def invoke(url: str, namespace: str, *args: str, env: dict[str, str] | None = None) -> Result:
    verb, *rest = args
    return CliRunner().invoke(app, ["transitions", verb, "--url", url, "--namespace", namespace, *rest], env=env)


def told(url: str, namespace: str, *args: str) -> dict[str, Any]:
    verb, *rest = args
    result = invoke(url, namespace, verb, "--json", *rest)
    assert result.exit_code == 0, result.output
    document: dict[str, Any] = json.loads(result.stdout)
    return document


def ids(url: str, namespace: str, *args: str) -> list[str]:
    return [one["request_id"] for one in told(url, namespace, "list", *args)["transitions"]]


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


async def read_dump(url: str, namespace: str) -> dict[bytes, bytes]:
    store = await open_store(url, namespace=namespace)
    try:
        return {key: value for key, value in (await key_dump(store)).items() if not key.endswith(b":counters")}
    finally:
        await store.aclose()


# ── list, show, timeline ─────────────────────────────────────────────────────────────────────────────────────────────


def test_one_in_each_state_is_listed_with_what_comes_next(url: str, namespace: str, loop: asyncio.Runner) -> None:
    loop.run(settle_in_every_state(url, namespace))
    listed = {one["request_id"]: one for one in told(url, namespace, "list")["transitions"]}
    reached = set(State) - {State.PARKED, State.CANCELLED}
    assert {name: one["state"] for name, one in listed.items()} == {state: state for state in reached}
    assert all(one["next"] for one in listed.values())
    assert {name for name, one in listed.items() if not one["commands"]} == {"completed"}
    verbs = {name: {command.split()[2] for command in one["commands"]} for name, one in listed.items()}
    assert verbs["unknown"] == {"release"}
    assert all(verbs[name] == {"cancel"} for name in ("ready", "delayed", "claimed", "attempting"))
    assert all(verbs[name] == {"requeue"} for name in ("failed", "dead"))
    assert listed["failed"]["error"] == "Taken"
    for state in reached:
        assert ids(url, namespace, "--state", state) == [state]
    assert ids(url, namespace, "--tool", "look_up") == ["dead"]
    assert ids(url, namespace, "--older-than", "3600") == []
    assert ids(url, namespace, "--parent", "nobody") == []
    assert len(ids(url, namespace, "--limit", "3")) == 3
    table = invoke(url, namespace, "list").stdout
    assert all(str(state) in table for state in reached)


def test_what_is_open_is_listed_though_the_events_forgot_it(url: str, namespace: str, loop: asyncio.Runner) -> None:
    async def prepare() -> list[str]:
        async with connect(url, namespace=namespace, tools=TOOLS) as client, holder(url, namespace, KNOWN) as worker:
            await settle_in_every_state(url, namespace)
            await worker.store.calls.read("XTRIM", client.store.keys.events(), "MAXLEN", 0)
            return [one.record.request_id for one in await list_transitions(client.store)]

    assert set(loop.run(prepare())) == {"ready", "delayed", "unknown", "claimed", "attempting"}


def test_an_empty_namespace_is_said_to_be_empty(url: str, namespace: str) -> None:
    assert told(url, namespace, "list") == {"transitions": [], "truncated": False, "looked_back_to_ms": None}
    assert invoke(url, namespace, "list").stdout.startswith(f"No transitions in namespace '{namespace}' at ")
    assert invoke(url, namespace, "list", "--stuck").stdout.startswith(f"Nothing is stuck in namespace '{namespace}'")
    assert invoke(url, namespace, "list", "--tool", "charge").stdout.startswith("No transitions in namespace")


def test_that_none_matches_is_not_that_there_is_none(url: str, namespace: str, loop: asyncio.Runner) -> None:
    loop.run(settle_in_every_state(url, namespace))
    for filters in (("--tool", "nothing"), ("--parent", "nobody"), ("--state", "parked"), ("--older-than", "3600")):
        assert invoke(url, namespace, "list", *filters).stdout.startswith("No transition matches in namespace")
    assert invoke(url, namespace, "list", "--stuck", "--tool", "look_up").stdout.startswith("Nothing that matches is")


def test_a_list_that_was_cut_says_so_and_what_makes_it_longer(url: str, namespace: str, loop: asyncio.Runner) -> None:
    loop.run(settle_in_every_state(url, namespace))
    whole = told(url, namespace, "list")
    assert not whole["truncated"]
    assert "give a higher" not in invoke(url, namespace, "list").stdout
    assert told(url, namespace, "list", "--limit", "3")["truncated"]
    assert (
        "There are more than these 3: give a higher --limit." in invoke(url, namespace, "list", "--limit", "3").stdout
    )
    short = told(url, namespace, "list", "--tool", "look_up", "--look-back", "2")
    assert (short["transitions"], short["truncated"]) == ([], True)
    assert short["looked_back_to_ms"] > whole["looked_back_to_ms"]
    said = invoke(url, namespace, "list", "--tool", "look_up", "--look-back", "2").stdout.splitlines()
    assert said[0].startswith("No transition matches in namespace")
    assert said[1].startswith("Looked back over 2 moves, to 2")
    assert said[1].endswith("give a higher --look-back.")


def test_what_is_stuck_is_listed_with_why_the_longest_stuck_first(
    url: str, namespace: str, loop: asyncio.Runner
) -> None:
    async def prepare() -> None:
        await settle_in_every_state(url, namespace)
        store = await open_store(url, namespace=namespace)
        try:
            calls, keys = store.calls, store.keys
            # The holder's session is gone without a trace, the delayed one was due long ago, the ready one is left.
            await calls.read("DEL", keys.sessions())
            await calls.read("ZADD", keys.delayed(), 1, "delayed")
            history = await calls.read("HGET", keys.row("ready"), "h1")
            assert isinstance(history, bytes)
            at_ms, _, rest = history.decode().partition(" ")
            await calls.read("HSET", keys.row("ready"), "h1", f"{int(at_ms) - UNCLAIMED_MS - 1000} {rest}")
        finally:
            await store.aclose()

    loop.run(prepare())
    stuck = {one["request_id"]: one["stuck"] for one in told(url, namespace, "list", "--stuck")["transitions"]}
    assert stuck == {
        "ready": "unclaimed",
        "unknown": "in_doubt",
        "attempting": "holder_lost",
        "claimed": "holder_lost",
        "delayed": "overdue",
    }
    assert next(iter(stuck)) == "ready"
    assert ids(url, namespace, "--stuck", "--state", "unknown") == ["unknown"]
    assert ids(url, namespace, "--stuck", "--tool", "look_up") == []
    assert "in_doubt" in invoke(url, namespace, "list", "--stuck").stdout


def test_one_is_shown_and_its_history_has_no_gaps(url: str, namespace: str, loop: asyncio.Runner) -> None:
    loop.run(settle_in_every_state(url, namespace))
    one = told(url, namespace, "show", "unknown")["transition"]
    assert (one["tool"], one["state"], one["boundary"], one["attempts"]) == ("charge", "unknown", "maybe_crossed", 1)
    assert (one["version"], one["stuck"], one["liveness"], one["ended"]) == ("4", "in_doubt", "nobody", True)
    text = invoke(url, namespace, "show", "unknown").stdout
    assert "ReadTimeout" in text
    assert "never run again by guess" in text
    assert all(command in text for command in one["commands"])
    timeline = told(url, namespace, "timeline", "unknown")["timeline"]
    assert [entry["number"] for entry in timeline] == list(range(1, len(timeline) + 1))
    assert [entry["what"] for entry in timeline] == ["ready", "claimed", "attempting", "unknown"]
    assert "unknown" in invoke(url, namespace, "timeline", "unknown").stdout


def test_arguments_are_shown_only_to_who_asks_for_them(url: str, namespace: str, loop: asyncio.Runner) -> None:
    loop.run(settle_in_every_state(url, namespace))
    assert "EUR" not in invoke(url, namespace, "show", "unknown").stdout
    assert "EUR" not in invoke(url, namespace, "show", "--json", "unknown").stdout
    shown = told(url, namespace, "show", "unknown", "--arguments")["transition"]["arguments"]
    assert json.loads(shown)["order"] == "unknown"
    assert "EUR" in invoke(url, namespace, "show", "unknown", "--arguments").stdout


@pytest.mark.parametrize("verb", [("show",), ("timeline",), ("release", *HAPPENED, *SAYING), ("mark-dead", *SAYING)])
def test_what_is_not_there_ends_with_code_4_and_what_is_no_id_with_2(
    url: str, namespace: str, verb: tuple[str, ...]
) -> None:
    assert invoke(url, namespace, *verb, "nothing").exit_code == 4
    for bad in (" ", "x" * 257, "\udcff"):
        assert invoke(url, namespace, *verb, bad).exit_code == 2


def test_every_word_that_show_may_print_is_told_in_the_docs() -> None:
    told_words = set(re.findall(r"`([a-z_ ]+)=?`", (ROOT / "docs" / "words.md").read_text(encoding="utf-8")))
    renamed = {"resolved_ms": "resolved", "created_ms": "created", "key": "provider_key", "history": "before"}
    renamed |= {"start_by_ms": "start_by", "deadline_ms": "deadline", "requeued_ms": "requeued"}
    renamed |= {"cancel_ms": "cancel_asked", "gate_key": "gate"}
    names = {renamed.get(field.name, field.name) for field in dataclasses.fields(Record)} - {"about"}
    names |= {*About.__struct_fields__, "liveness", "stuck", "detail", "arguments", "changed", "age", "version", "next"}
    values: list[type[StrEnum]] = [State, Boundary, BoundaryMode, EffectClass, Liveness, Stuck]
    values += [Cause, Priority, GateKind]
    words = {name.replace("_", " ") for name in names} | {word for kind in values for word in kind} | set(CLASS_ALIASES)
    assert words - told_words == set()


# ── release, mark-dead ───────────────────────────────────────────────────────────────────────────────────────────────


def test_the_command_that_is_shown_does_what_it_says(
    url: str, namespace: str, loop: asyncio.Runner, tmp_path: Path
) -> None:
    loop.run(settle_in_every_state(url, namespace))
    [happened, did_not] = told(url, namespace, "show", "unknown")["transition"]["commands"]
    assert "--verified not-executed" in did_not
    (tmp_path / "result.json").write_text('{"charged": true}')
    filled = happened.replace("RESULT.json", str(tmp_path / "result.json"))
    program, noun, *words = shlex.split(filled.replace("YOU", "ops@example.com").replace("WHY", "'it is there'"))
    assert (program, noun) == ("mycelium", "transitions")
    recorded = told(url, namespace, *words)["recorded"]
    assert (recorded["request_id"], recorded["state"], recorded["resolution"]) == ("unknown", "completed", "completed")

    async def result() -> object:
        async with connect(url, namespace=namespace, tools=TOOLS) as client:
            return await client.job("unknown").result(timeout_s=5)

    assert loop.run(result()) == {"charged": True}
    one = told(url, namespace, "show", "unknown")["transition"]
    assert (one["resolved_by"], one["resolution_reason"]) == ("ops@example.com", "it is there")
    assert (one["released_from"], one["resolution"]) == ("unknown", "completed")


def test_not_executed_is_said_to_run_once_more(url: str, namespace: str, loop: asyncio.Runner) -> None:
    loop.run(settle_in_every_state(url, namespace))
    said = invoke(url, namespace, "release", "unknown", "--verified", "not-executed", *SAYING)
    assert (said.exit_code, said.stdout.split(":")[0]) == (0, "Recorded. unknown is ready")
    second = invoke(url, namespace, "release", "unknown", *HAPPENED, *SAYING)
    assert (second.exit_code, second.stdout) == (1, "")
    assert "was released before: not_executed, by 'ops@example.com'" in second.stderr


@pytest.mark.parametrize(
    "args,code",
    [
        (("release", "unknown", *HAPPENED, "--by", "ops"), 2),
        (("release", "unknown", *HAPPENED, "--reason", "r"), 2),
        (("release", "unknown", "--verified", "maybe", *SAYING), 2),
        (("release", "unknown", "--verified", "completed", "--result-json", "{", *SAYING), 2),
        (("release", "unknown", "--verified", "not-executed", "--result-json", "1", *SAYING), 2),
        (("release", "unknown", *HAPPENED, "--by", " ", "--reason", "r"), 2),
        (("release", "unknown", *HAPPENED, "--by", "ops", "--reason", ""), 2),
        (("mark-dead", "attempting", "--by", "", "--reason", "r"), 2),
        (("release", "unknown", "--verified", "completed", *SAYING), 2),
        (("release", "unknown", *HAPPENED, "--expect", "3", *SAYING), 1),
        (("release", "attempting", *HAPPENED, *SAYING), 1),
        (("release", "completed", *HAPPENED, *SAYING), 1),
        (("release", "ready", "--verified", "not-executed", *SAYING), 1),
        (("mark-dead", "attempting", *SAYING), 1),
        (("mark-dead", "ready", "--override-heartbeat", *SAYING), 1),
    ],
    ids=lambda part: " ".join(part) if isinstance(part, tuple) else None,
)
def test_what_is_refused_is_said_on_stderr_and_changes_nothing(
    url: str, namespace: str, loop: asyncio.Runner, args: tuple[str, ...], code: int
) -> None:
    loop.run(settle_in_every_state(url, namespace))
    before = loop.run(read_dump(url, namespace))
    result = invoke(url, namespace, *args)
    assert (result.exit_code, result.stdout) == (code, "")
    assert result.stderr
    assert loop.run(read_dump(url, namespace)) == before


def test_a_worker_that_was_seen_to_die_is_declared_dead(url: str, namespace: str, loop: asyncio.Runner) -> None:
    loop.run(settle_in_every_state(url, namespace))
    recorded = told(url, namespace, "mark-dead", "attempting", "--override-heartbeat", *SAYING)["recorded"]
    assert recorded["state"] == "unknown"
    assert len(recorded["commands"]) == 2
    one = told(url, namespace, "show", "attempting")["transition"]
    assert (one["dead_by"], one["dead_reason"]) == ("ops@example.com", "the dashboard says so [heartbeat overridden]")
    assert invoke(url, namespace, "release", "attempting", "--verified", "not-executed", *SAYING).exit_code == 0
    assert "holder_lost" in {one["stuck"] for one in told(url, namespace, "list", "--stuck")["transitions"]}


def test_where_operators_are_named_only_their_own_token_will_do(
    url: str, namespace: str, loop: asyncio.Runner, tmp_path: Path
) -> None:
    loop.run(settle_in_every_state(url, namespace))
    file = tmp_path / "operators.json"
    file.write_text(json.dumps({"ops@example.com": "open sesame"}))
    named = {"MYCELIUM_OPERATORS": str(file)}
    args = ("release", "unknown", *HAPPENED, *SAYING)
    before = loop.run(read_dump(url, namespace))
    for env, said in (
        (named, "the variable MYCELIUM_OPERATOR_TOKEN with your token is empty"),
        (named | {"MYCELIUM_OPERATOR_TOKEN": "wrong"}, "not authorized"),
        ({"MYCELIUM_OPERATORS": str(tmp_path / "none")}, "cannot be read"),
    ):
        refused = invoke(url, namespace, *args, env=env)
        assert refused.exit_code in {1, 2}
        assert said in refused.stderr
        assert "sesame" not in refused.output
    assert loop.run(read_dump(url, namespace)) == before
    good = invoke(url, namespace, *args, "--token-env", "MY_TOKEN", env=named | {"MY_TOKEN": "open sesame"})
    assert good.exit_code == 0, good.output
    assert "sesame" not in good.output


def test_a_file_of_operators_that_others_can_read_is_warned_of(
    url: str, namespace: str, loop: asyncio.Runner, tmp_path: Path
) -> None:
    loop.run(settle_in_every_state(url, namespace))
    file = tmp_path / "operators.json"
    file.write_text(json.dumps({"ops@example.com": "open sesame"}))
    env = {"MYCELIUM_OPERATORS": str(file), "MYCELIUM_OPERATOR_TOKEN": "open sesame"}
    for mode, warned in ((0o644, True), (0o660, True), (0o640, False), (0o600, False)):
        file.chmod(mode)
        refused = invoke(url, namespace, "release", "ready", *HAPPENED, *SAYING, env=env)
        assert ("warning: The operators' file" in refused.stderr) is warned


def test_as_completed_it_is_said_what_the_call_gets_from_now_on(url: str, namespace: str, loop: asyncio.Runner) -> None:
    loop.run(settle_in_every_state(url, namespace))
    missing = invoke(url, namespace, "release", "unknown", "--verified", "completed", *SAYING)
    assert "say what the call is answered with" in " ".join(missing.stderr.replace("│", " ").split())
    said = invoke(url, namespace, "release", "unknown", *HAPPENED, *SAYING).stdout
    assert said == (
        "Recorded. unknown is completed: who asks for it gets the result that you gave, and nothing runs.\n"
    )


# ── workers ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def workers(url: str, namespace: str, *args: str) -> Result:
    return CliRunner().invoke(app, ["workers", "--url", url, "--namespace", namespace, *args])


def workers_told(url: str, namespace: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(workers(url, namespace, "--json").stdout)["workers"]
    return found


def test_where_nobody_works_no_worker_is_listed(url: str, namespace: str) -> None:
    assert workers_told(url, namespace) == []


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
    [line] = workers_told(url, namespace)
    assert (line["session_id"], line["name"], line["held"], line["info"]) == (session_id, "test holder", 1, info)
    assert line["kind"] == "worker"
    assert line["deadline_ms"] - line["renewed_ms"] == 60_000
    assert not line["lapsed"]
    table = workers(url, namespace).stdout
    assert "test holder" in table
    assert "box:7" in table


def test_a_program_that_calls_in_process_is_listed_as_what_it_is(
    url: str, namespace: str, loop: asyncio.Runner
) -> None:
    async def prepare() -> None:
        async with holder(url, namespace, []):
            pass

    loop.run(prepare())
    assert [line["kind"] for line in workers_told(url, namespace)] == ["in process"]
    assert "in process" in workers(url, namespace).stdout
