"""`mycelium actors tree`: what is shown of each worker, and that nothing stale is shown as live."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import sys
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from mycelium.cli.main import app
from mycelium.leases.clock import BootClock
from mycelium.leases.session import Session, SessionSettings
from mycelium.leases.store import open_store
from mycelium.ledger.trees import ActorLine, tell_tree

LONG = SessionSettings(ttl_s=60.0, renew_every_s=10.0)
LINES = [
    ActorLine("/worker", "running", 0, 256, 0, None, 90.0, None),
    ActorLine("/worker/control", "running", 1, 256, 2, "EscalationError", 30.0, 31.0),
    ActorLine("/worker/control/turns", "waiting", 3, 320, 4, "ValueError", 2.0, 2.0),
]


def set_up(url: str, namespace: str, *, name: str = "w1", older_s: float = 0.0, tell: bool = True) -> str:
    """A worker's session, and what it told so long ago."""

    async def work() -> str:
        store = await open_store(url, namespace=namespace)
        session = Session(store, LONG, BootClock(), name=name, info=b'{"hosts": 1}')
        await session.open()
        if tell:
            await tell_tree(store.calls, session.id, LINES, every_s=5.0, patience_s=5.0)
            await store.calls.read("HINCRBY", store.keys.tree(session.id), "told_ms", round(-older_s * 1000))
        await store.aclose()
        return session.id

    return asyncio.run(work())


def invoke(url: str, namespace: str, *args: str) -> Result:
    return CliRunner().invoke(app, ["actors", "tree", "--url", url, "--namespace", namespace, *args])


def told(url: str, namespace: str, *args: str) -> list[dict[str, Any]]:
    result = invoke(url, namespace, "--json", *args)
    assert result.exit_code == 0, result.output
    workers: list[dict[str, Any]] = json.loads(result.stdout)["workers"]
    return workers


def test_the_tree_of_a_worker_shows_how_each_actor_stands(url: str, namespace: str) -> None:
    session_id = set_up(url, namespace)
    shown = invoke(url, namespace)
    assert shown.exit_code == 0
    assert f"w1 (session {session_id[:8]}): told " in shown.stdout
    assert "LATE" not in shown.stdout
    rows = [line.split() for line in shown.stdout.splitlines() if line.strip()]
    turns = next(row for row in rows if row[0] == "turns")
    assert turns[1:5] == ["waiting", "3/320", "4", "ValueError"]
    # Indented by its place in the tree.
    assert "\n worker" in shown.stdout or "\nworker" in shown.stdout
    assert "    turns" in shown.stdout


def test_a_stale_tree_is_marked_and_never_shown_as_live(url: str, namespace: str) -> None:
    set_up(url, namespace, older_s=40)
    shown = invoke(url, namespace).stdout
    assert "LATE: last told 40s ago" in shown
    assert "was running" in shown
    assert " running" not in shown.replace("was running", "")
    (worker,) = told(url, namespace)
    assert worker["late"] is True
    assert 40 <= worker["told_s_ago"] < 100


def test_a_worker_that_told_nothing_is_shown_as_such(url: str, namespace: str) -> None:
    set_up(url, namespace, tell=False)
    assert "w1" in invoke(url, namespace).stdout
    assert "has told nothing" in invoke(url, namespace).stdout
    (worker,) = told(url, namespace)
    assert (worker["told_s_ago"], worker["late"], worker["actors"]) == (None, True, [])


def test_json_has_every_field_of_every_actor(url: str, namespace: str) -> None:
    session_id = set_up(url, namespace)
    (worker,) = told(url, namespace)
    assert (worker["name"], worker["session_id"], worker["late"], worker["lapsed"]) == ("w1", session_id, False, False)
    assert worker["actors"][2] == {
        "path": "/worker/control/turns",
        "state": "waiting",
        "depth": 3,
        "capacity": 320,
        "restarts": 4,
        "last_error": "ValueError",
        "age_s": 2.0,
        "failed_s_ago": 2.0,
    }


def test_one_worker_is_found_by_name_or_id_and_a_missing_one_ends_with_code_4(url: str, namespace: str) -> None:
    first, second = set_up(url, namespace), set_up(url, namespace, name="w2")
    assert len(told(url, namespace)) == 2
    assert [one["session_id"] for one in told(url, namespace, "--worker", "w2")] == [second]
    assert [one["session_id"] for one in told(url, namespace, "--worker", first[:12])] == [first]
    missing = invoke(url, namespace, "--worker", "w3")
    assert missing.exit_code == 4
    assert "No worker 'w3' in" in missing.output


def test_no_worker_at_all_is_said(url: str, namespace: str) -> None:
    shown = invoke(url, namespace)
    assert shown.exit_code == 0
    assert "No workers" in shown.stdout


@pytest.mark.parametrize("more", [[], ["--json"]])
def test_watch_looks_again_until_it_is_interrupted(url: str, namespace: str, more: list[str]) -> None:
    set_up(url, namespace)
    command = [sys.executable, "-P", "-m", "mycelium", "actors", "tree", "--watch", "--url", url, *more]
    with subprocess.Popen(
        [*command, "--namespace", namespace], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as watching:
        assert watching.stdout is not None
        looks = 0
        while looks < 2:
            looks += "w1" in watching.stdout.readline()
        watching.send_signal(signal.SIGINT)
        assert watching.wait(20) == 130
