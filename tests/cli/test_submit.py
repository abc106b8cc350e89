"""`mycelium submit`: what it takes, what it prints, and how each refusal ends."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from kit.holder import holder
from kit.servers import RealServer
from mycelium.cli.main import app
from mycelium.ledger.progress import Progress, tell_progress

TESTS = Path(__file__).parents[1]


@pytest.fixture
def env(url: str, namespace: str) -> dict[str, str]:
    return {"MYCELIUM_URL": url, "MYCELIUM_NAMESPACE": namespace, "MYCELIUM_APP": "kit.shop:TOOLS"}


def invoke(env: dict[str, str], *args: str, stdin: str | bytes | None = None) -> Result:
    return CliRunner().invoke(app, list(args), env=env, input=stdin)


def mycelium(env: dict[str, str], *args: str) -> subprocess.CompletedProcess[str]:
    """Run the command as a process of its own."""
    command = [sys.executable, "-m", "mycelium", *args]
    whole = os.environ | {"PYTHONPATH": str(TESTS)} | env
    return subprocess.run(command, env=whole, capture_output=True, text=True, timeout=60, check=False, cwd=TESTS)


def test_it_submits_and_the_same_again_joins(env: dict[str, str]) -> None:
    told = [
        json.loads(invoke(env, "submit", "charge", '{"order": "A"}', "--request-id", "charge:A", "--json").stdout)
        for _ in range(2)
    ]
    assert told[0] == {"request_id": "charge:A", "tool": "charge", "created": True, "state": "ready"}
    assert told[1] == told[0] | {"created": False}
    text = invoke(env, "submit", "charge", '{"order": "A"}', "--request-id", "charge:A")
    assert text.exit_code == 0
    assert text.stdout.split() == ["job", "charge:A", "tool", "charge", "state", "ready", "new", "no"]


def test_arguments_come_from_a_file_or_stdin(env: dict[str, str], tmp_path: Path) -> None:
    file = tmp_path / "call.json"
    file.write_bytes(b"\xef\xbb\xbf" + '{"order": "ü"}'.encode())
    first = json.loads(invoke(env, "submit", "charge", f"@{file}", "--run", "r1", "--step", "2", "--json").stdout)
    again = invoke(env, "submit", "charge", "-", "--run", "r1", "--step", "2", "--json", stdin='{"order": "\\u00fc"}')
    assert json.loads(again.stdout) == first | {"created": False}


BAD = [
    ("not JSON", "{order: 1}", "line 1, column 2"),
    ("not an object", "[1]", "a list, not an object"),
    ("null", "null", "null, not an object"),
    ("NaN", '{"order": NaN}', "NaN is not a JSON number"),
    ("infinite", '{"value": 1e999}', "finite"),
    ("a key twice", '{"order": "A", "order": "B"}', "a key twice"),
    ("a lone surrogate", '{"value": "\\ud800"}', "lone surrogate"),
    ("too deep", '{"value": ' + "[" * 100_000 + "]" * 100_000 + "}", "deep"),
    ("deeper than the limit", '{"value": ' + "[" * 70 + "]" * 70 + "}", "deep"),
    ("an endless integer", '{"value": ' + "9" * 5000 + "}", "limit"),
    ("too large", json.dumps({"value": "x" * (1 << 20)}), "1,048,576 bytes"),
    ("no such file", "@/nowhere/at.all", "No such file"),
    ("empty", "", "not JSON"),
]


@pytest.mark.parametrize("given,said", [row[1:] for row in BAD], ids=[row[0] for row in BAD])
def test_bad_arguments_end_with_code_2_and_write_nothing(
    env: dict[str, str], url: str, namespace: str, given: str, said: str
) -> None:
    result = invoke(env, "submit", "anything", given, "--request-id", "x")
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith("error: ")
    assert said in result.stderr
    assert "Nothing was " in result.stderr
    assert asyncio.run(keys_of_jobs(url, namespace)) == 0


async def keys_of_jobs(url: str, namespace: str) -> int:
    async with holder(url, namespace, []) as worker:
        row = worker.store.keys.row("x")
        return int(str(await worker.store.calls.read("EXISTS", row, worker.store.keys.states())))


def test_bytes_that_are_no_text_are_refused(env: dict[str, str], tmp_path: Path) -> None:
    file = tmp_path / "call.json"
    file.write_bytes(b'{"order": "\xff"}')
    result = invoke(env, "submit", "charge", f"@{file}", "--request-id", "x")
    assert result.exit_code == 2
    assert "not UTF-8 text (byte 11)" in result.stderr


def test_bad_calls_end_with_code_2(env: dict[str, str]) -> None:
    call = ["submit", "charge", '{"order": "A"}']
    assert invoke(env, *call).exit_code == 2
    assert invoke(env, *call, "--request-id", " ").exit_code == 2
    assert "Do you mean charge" in invoke(env, "submit", "chrage", "{}", "--request-id", "x").stderr
    assert invoke(env, "submit", "charge", '{"amount": 1}', "--request-id", "x").exit_code == 2
    assert invoke(env | {"MYCELIUM_APP": ""}, *call, "--request-id", "x").exit_code == 2
    assert invoke(env, *call, "--request-id", "x", "--app", "kit.nothing").exit_code == 2
    assert invoke(env, *call, "--request-id", "x", "--namespace", "Not One").exit_code == 2
    assert invoke(env, *call, "--request-id", "x", "--url", "http://example.test").exit_code == 2
    assert invoke(env, *call, "--request-id", "x").exit_code == 0
    conflict = invoke(env, "submit", "charge", '{"order": "B"}', "--request-id", "x", "--json")
    assert conflict.exit_code == 2
    told = json.loads(conflict.stderr)["error"]
    assert (told["kind"], told["state"]) == ("IdentityConflictError", "ready")
    assert conflict.stdout == ""


def test_how_a_job_waits_and_runs_is_said_with_options(env: dict[str, str]) -> None:
    call = ["submit", "charge", '{"order": "A"}', "--request-id", "x", "--queue", "mail", "--priority", "low"]
    call += ["--tenant", "acme", "--at", "2031-03-01T09:00+01:00", "--start-by", "2031-03-02T00:00Z"]
    call += ["--timeout", "5", "--idle-timeout", "1.5", "--label", "team=ops", "--label", "why=a=b"]
    done = invoke(env, *call, "--deadline", "2031-03-03T00:00Z", "--json")
    assert json.loads(done.stdout)["state"] == "delayed", done.output
    one = json.loads(invoke(env, "transitions", "show", "x", "--json").stdout)["transition"]
    assert (one["queue"], one["priority"], one["tenant"]) == ("mail", "low", "acme")
    assert one["labels"] == {"team": "ops", "why": "a=b"}
    assert one["deadline_ms"] - one["start_by_ms"] == 86_400_000
    assert "deadline 2031-03-03 00:00:00.000Z" in " ".join(invoke(env, "transitions", "show", "x").stdout.split())
    soon = invoke(env, "submit", "charge", '{"order": "B"}', "--request-id", "y", "--deadline", "3600", "--json")
    assert json.loads(soon.stdout)["state"] == "ready"


@pytest.mark.parametrize(
    "words",
    [
        ("--priority", "urgent"),
        ("--queue", "Not One"),
        ("--tenant", "a\x1bb"),
        ("--at", "5"),
        ("--at", "2031-03-01T09:00"),
        ("--at", "2031-03-01T09:00Z", "--delay", "5"),
        ("--deadline", "soon"),
        ("--deadline", "2001-01-01T00:00Z"),
        ("--deadline", "-1"),
        ("--start-by", "nan"),
        ("--timeout", "0"),
        ("--label", "team"),
    ],
    ids=" ".join,
)
def test_an_option_that_cannot_be_is_refused_and_writes_nothing(
    env: dict[str, str], url: str, namespace: str, words: tuple[str, ...]
) -> None:
    refused = invoke(env, "submit", "charge", '{"order": "A"}', "--request-id", "x", *words)
    assert (refused.exit_code, refused.stdout) == (2, "")
    assert asyncio.run(keys_of_jobs(url, namespace)) == 0


def test_on_a_terminal_a_wait_shows_how_far_the_job_has_come(env: dict[str, str], url: str, namespace: str) -> None:
    async def serve() -> None:
        async with holder(url, namespace, ["look_up"]) as worker:
            while not (grants := await worker.claim()):
                await worker.store.calls.read("PING")
            told = [(grants[0].request_id, grants[0].fence, Progress(3, 10, "pages \x1b[31m"))]
            await tell_progress(worker.store.calls, worker.session.id, told)
            await worker.complete(grants[0], "done")

    command = [sys.executable, "-m", "mycelium", "submit", "look_up", '{"order": "A"}', "--request-id", "x", "--wait"]
    whole = os.environ | {"PYTHONPATH": str(TESTS)} | env
    ours, theirs = os.openpty()
    thread = threading.Thread(target=lambda: asyncio.run(serve()))
    with subprocess.Popen(command, env=whole, cwd=TESTS, stdout=subprocess.PIPE, stderr=theirs) as process:
        thread.start()
        out, _ = process.communicate(timeout=60)
        thread.join()
    os.close(theirs)
    said = os.read(ours, 1 << 16)
    os.close(ours)
    assert (process.returncode, out) == (0, b'"done"\n')
    assert said.splitlines()[0] == b"job x"
    assert b"3 of 10 (30%) pages \\x1b[31m" in said


def test_a_wait_that_is_over_ends_with_code_1(env: dict[str, str]) -> None:
    result = invoke(env, "submit", "charge", '{"order": "A"}', "--request-id", "x", "--wait-for", "0.05")
    assert result.exit_code == 1
    assert "State: ready." in result.stderr
    assert "The job goes on" in result.stderr


def test_waiting_gives_the_result_or_the_failure(env: dict[str, str], url: str, namespace: str) -> None:
    assert served(env, url, namespace, "good", fails=False)[0] == (0, {"order": "A"})
    code, told = served(env, url, namespace, "bad", fails=True)[1]
    assert (code, told["kind"], told["cause"], told["detail"]) == (1, "JobFailedError", "Taken", "the seat")


def served(
    env: dict[str, str], url: str, namespace: str, request_id: str, *, fails: bool
) -> tuple[tuple[int, object], tuple[int, dict[str, str]]]:
    """Submit and wait, while a holder in another thread ends the job."""

    async def serve() -> None:
        async with holder(url, namespace, ["look_up"]) as worker:
            while not (grants := await worker.claim()):
                await worker.store.calls.read("PING")
            if fails:
                await worker.fail(grants[0], "Taken", "the seat")
            else:
                await worker.complete(grants[0], {"order": "A"})

    thread = threading.Thread(target=lambda: asyncio.run(serve()))
    thread.start()
    call = ["submit", "look_up", '{"order": "A"}', "--request-id", request_id, "--wait", "--wait-for", "60", "--json"]
    result = invoke(env, *call)
    thread.join()
    out = json.loads(result.stdout)["result"] if result.stdout else None
    err = json.loads(result.stderr)["error"] if result.stderr else {}
    return (result.exit_code, out), (result.exit_code, err)


def test_the_exit_codes_of_the_process(env: dict[str, str], server: RealServer) -> None:
    good = mycelium(env, "submit", "charge", '{"order": "A"}', "--request-id", "x", "--json")
    assert (good.returncode, json.loads(good.stdout)["created"], good.stderr) == (0, True, "")
    bad = mycelium(env, "submit", "charge", "{", "--request-id", "x", "--json")
    assert (bad.returncode, bad.stdout, json.loads(bad.stderr)["error"]["kind"]) == (2, "", "BadArgumentsError")
    away = mycelium(env | {"MYCELIUM_URL": "unix:///nowhere/at.all"}, "transitions", "list", "--json")
    assert (away.returncode, json.loads(away.stderr)["error"]["kind"]) == (3, "ServerUnavailableError")
    missing = mycelium(env, "transitions", "show", "nothing")
    assert missing.returncode == 4
    assert missing.stderr.startswith("error: ")
    assert "Traceback" not in "".join(run.stderr for run in (good, bad, away, missing))


def test_an_interrupted_wait_ends_with_code_130_and_the_job_stays(
    env: dict[str, str], url: str, namespace: str
) -> None:
    command = [sys.executable, "-m", "mycelium", "submit", "charge", '{"order": "A"}', "--request-id", "x", "--wait"]
    whole = os.environ | {"PYTHONPATH": str(TESTS)} | env
    with subprocess.Popen(command, env=whole, cwd=TESTS, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stderr is not None
        assert process.stderr.readline() == b"job x\n"
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
    assert (process.returncode, out, err) == (130, b"", b"")
    assert json.loads(invoke(env, "transitions", "show", "x", "--json").stdout)["transition"]["state"] == "ready"
