"""The command itself: help, version, errors before any verb, and that help loads little."""

from __future__ import annotations

import json
import logging
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest
from typer.testing import CliRunner

from mycelium.cli.logs import JsonLines
from mycelium.cli.main import app
from mycelium.cli.options import EPILOG, ExitCode
from mycelium.cli.output import duration, shown
from mycelium.cli.worker import session_settings
from mycelium.leases.errors import SettingsError
from mycelium.leases.session import SessionSettings

VERBS = [
    [],
    ["submit"],
    ["transitions"],
    ["transitions", "list"],
    ["transitions", "show"],
    ["transitions", "timeline"],
    ["transitions", "release"],
    ["transitions", "mark-dead"],
    ["transitions", "cancel"],
    ["transitions", "requeue"],
    ["queues"],
    ["queues", "pause"],
    ["queues", "resume"],
    ["queues", "strike"],
    ["queues", "lift"],
    ["worker"],
    ["workers"],
]


@pytest.mark.parametrize("verb", VERBS, ids=" ".join)
def test_every_help_tells_the_exit_codes(verb: list[str]) -> None:
    result = CliRunner().invoke(app, [*verb, "--help"], env={"COLUMNS": "300", "TERMINAL_WIDTH": "300"})
    assert result.exit_code == 0
    said = " ".join(result.stdout.split())
    assert "3 server unreachable or unfit" in said
    assert all(f"{code.value} " in EPILOG for code in ExitCode)


def test_the_version_is_that_of_the_package() -> None:
    assert CliRunner().invoke(app, ["--version"]).stdout.strip() == f"mycelium {version('mycelium')}"


def test_a_verb_that_does_not_exist_ends_with_code_2() -> None:
    assert CliRunner().invoke(app, ["sumbit"]).exit_code == 2
    assert CliRunner().invoke(app, ["transitions", "list", "--state", "lost"]).exit_code == 2
    assert CliRunner().invoke(app, ["transitions", "list", "--limit", "0"]).exit_code == 2


@pytest.mark.parametrize(
    "words,said",
    [
        (["sumbit", "--json"], "No such command 'sumbit'"),
        (["transitions", "show", "--json"], "Missing argument 'ID'"),
        (["transitions", "list", "--json", "--state", "lost"], "'lost' is not one of 'delayed'"),
        (["submit", "charge", "--json"], "say where the tools are"),
        (
            ["transitions", "release", "a", "--verified", "completed", "--by", "b", "--reason", "c", "--json"],
            "null, if",
        ),
    ],
    ids=["no verb", "no id", "no state", "no app", "no result"],
)
def test_a_usage_error_is_json_for_who_asked_for_json(words: list[str], said: str) -> None:
    result = CliRunner().invoke(app, words)
    assert (result.exit_code, result.stdout) == (2, "")
    error = json.loads(result.stderr)["error"]
    assert said in error["what"]
    assert "--help" in error["next_step"]
    assert "Value error" not in result.stderr
    plain = CliRunner().invoke(app, [word for word in words if word != "--json"])
    assert plain.exit_code == 2
    assert "Usage: " in plain.stderr
    assert "Value error" not in plain.stderr


def test_that_the_output_cannot_be_written_is_said_without_a_traceback(url: str, namespace: str) -> None:
    for more in ([], ["--json"]):
        command = [sys.executable, "-P", "-m", "mycelium", "workers", "--url", url, "--namespace", namespace, *more]
        with Path("/dev/full").open("w", encoding="utf-8") as full:
            run = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
        assert run.returncode == 1
        assert run.stderr.startswith("error: The output cannot be written: No space left on device.")
        assert len(run.stderr.splitlines()) == 1


def test_help_loads_nothing_that_it_does_not_need() -> None:
    program = (
        "import sys\nfrom mycelium.cli.main import app\n"
        "heavy = {'redis', 'pydantic', 'msgspec', 'asyncio', 'mycelium.leases.store', 'mycelium.actors.client'}\n"
        "print(sorted(heavy & set(sys.modules)))"
    )
    run = subprocess.run([sys.executable, "-P", "-c", program], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"


def test_a_terminal_is_not_acted_upon_by_what_is_shown() -> None:
    assert shown("a\x1b[31mb\nc\udcff") == "a\\x1b[31mb\\nc\\udcff"


@pytest.mark.parametrize(
    "ms,said",
    [(-5, "0.0s"), (400, "0.4s"), (12_000, "12s"), (185_000, "3m 05s"), (7_800_000, "2h 10m"), (356_400_000, "4d 03h")],
)
def test_durations_are_said_as_people_do(ms: int, said: str) -> None:
    assert duration(ms) == said


def test_the_times_of_a_session_follow_its_ttl() -> None:
    assert session_settings(15.0) == SessionSettings()
    assert session_settings(5.0).renew_every_s == pytest.approx(1.0)
    with pytest.raises(SettingsError):
        session_settings(0.0)


def test_a_json_log_line_is_one_object() -> None:
    record = logging.LogRecord("mycelium.x", logging.INFO, "", 0, "held %d\nmore", (3,), None)
    told = json.loads(JsonLines().format(record))
    assert (told["level"], told["logger"], told["message"]) == ("info", "mycelium.x", "held 3\nmore")
