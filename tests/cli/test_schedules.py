"""`mycelium schedules`: when what is declared is due next, and what became of the last job."""

from __future__ import annotations

import asyncio
import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from kit.schedules import NOON, SCHEDULES, LocalClock, nightly, set_clock, store_at
from mycelium.actors.schedules.looking import run_once
from mycelium.cli.main import app
from mycelium.cli.options import ExitCode

FACTS = {each.name: each.facts for each in (nightly, *SCHEDULES)}


@pytest.fixture
def env(url: str, namespace: str) -> dict[str, str]:
    return {"MYCELIUM_URL": url, "MYCELIUM_NAMESPACE": namespace}


def invoke(env: dict[str, str], *args: str) -> Result:
    return CliRunner().invoke(app, ["schedules", *args], env=env)


def told(env: dict[str, str], *args: str) -> dict[str, dict[str, Any]]:
    result = invoke(env, "kit.schedules", "--json", *args)
    assert result.exit_code == 0, result.output
    return {one["name"]: one for one in json.loads(result.stdout)["schedules"]}


async def look(env: dict[str, str], *moments: datetime) -> None:
    async with store_at(env["MYCELIUM_URL"], env["MYCELIUM_NAMESPACE"]) as store:
        for moment in moments:
            set_clock(store, moment)
            await run_once(store, FACTS, LocalClock())


def test_what_no_worker_has_seen_yet_is_told_with_its_next_due_times(env: dict[str, str]) -> None:
    before = datetime.now(UTC).replace(microsecond=0)
    lines = told(env, "--next", "3")
    assert sorted(lines) == ["nightly", "pulse"]
    pulse = lines["pulse"]
    assert (pulse["tool"], pulse["rule"], pulse["zone"]) == ("ping", "every 0:05:00", None)
    assert (pulse["upto"], pulse["last"], pulse["ahead"]) == (None, None, False)
    nexts = [datetime.fromisoformat(due) for due in pulse["next"]]
    assert before < nexts[0] <= datetime.now(UTC) + timedelta(minutes=5)
    assert [due - nexts[0] for due in nexts] == [n * timedelta(minutes=5) for n in range(3)]
    assert (lines["nightly"]["zone"], len(lines["nightly"]["next"])) == ("Europe/Berlin", 3)
    assert "begins with the first worker" in invoke(env, "kit.schedules").stdout


def test_the_last_job_is_told_with_its_state(env: dict[str, str]) -> None:
    asyncio.run(look(env, NOON - timedelta(days=3650), NOON - timedelta(days=3650) + timedelta(minutes=5)))
    pulse = told(env)["pulse"]
    due = "2016-06-03T12:05:00Z"
    assert pulse["last"] == {"due": due, "request_id": f"schedule:pulse:{due}", "state": "ready"}
    shown = invoke(env, "kit.schedules").stdout
    assert "ready" in shown
    assert due in shown


def test_a_clock_that_was_ahead_is_told(env: dict[str, str]) -> None:
    asyncio.run(look(env, datetime(2199, 1, 1, tzinfo=UTC)))
    line = told(env)["nightly"]
    assert line["ahead"] is True
    assert line["next"][0] == "2199-01-01T02:00:00Z"
    assert "the server's clock was ahead" in invoke(env, "kit.schedules").stdout


@pytest.mark.parametrize(
    "args, code, words",
    [
        (("kit.shop",), ExitCode.DONE, "There are no schedules in kit.shop."),
        (("kit.nowhere",), ExitCode.BAD_CALL, "There is no module"),
        (("kit.schedules:SCHEDULES",), ExitCode.BAD_CALL, "has no tools"),
        ((), ExitCode.BAD_CALL, "APP"),
    ],
)
def test_where_there_is_nothing_to_list(env: dict[str, str], args: tuple[str, ...], code: int, words: str) -> None:
    result = invoke(env, *args)
    assert result.exit_code == code
    assert words in result.output
