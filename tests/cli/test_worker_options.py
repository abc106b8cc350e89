"""The options of a worker: a variable and a name in the file for each, and which of them counts."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.main import get_command
from typer.testing import CliRunner

from mycelium.actors.worker.exits import WorkerExit
from mycelium.cli.options import WORKER_EPILOG
from mycelium.cli.worker import worker

UNSAID = {"version", "config", "install_completion", "show_completion", "help"}
"""What is no setting of a worker."""


def the_app() -> typer.Typer:
    app = typer.Typer(pretty_exceptions_enable=False)
    app.command(epilog=WORKER_EPILOG)(worker)
    return app


def parameters() -> list[Any]:
    return [one for one in get_command(the_app()).params if long_name(one) not in UNSAID]


def long_name(parameter: Any) -> str:  # noqa: ANN401 - typer's types are private
    longs = [str(word) for word in parameter.opts if word.startswith("--")]
    return (longs[0] if longs else str(parameter.name)).strip("-").replace("-", "_")


def told(*words: str) -> dict[str, Any]:
    """What the command makes of a command line, before it does anything."""
    return dict(get_command(the_app()).make_context("mycelium-worker", list(words)).params)


def refused(*words: str) -> str:
    result = CliRunner().invoke(the_app(), list(words), env={"COLUMNS": "1000", "TERMINAL_WIDTH": "1000"})
    assert result.exit_code == WorkerExit.BAD_USAGE
    return " ".join(result.stderr.split())


@pytest.fixture(autouse=True)
def nothing_in_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for parameter in parameters():
        monkeypatch.delenv(parameter.envvar, raising=False)
    monkeypatch.delenv("MYCELIUM_WORKER_CONFIG", raising=False)


def test_every_option_has_a_variable_with_its_name() -> None:
    for parameter in parameters():
        name = long_name(parameter).upper()
        assert parameter.envvar in {f"MYCELIUM_WORKER_{name}", f"MYCELIUM_{name}"}, name


def test_every_option_has_a_name_in_the_file(tmp_path: Path) -> None:
    samples = {"queues": "mail:3@4", "log_format": "json", "max_result_bytes": 5}
    lines = []
    for parameter in parameters():
        name = long_name(parameter)
        value = samples.get(name, True if getattr(parameter, "is_flag", False) else 77)
        lines.append(f"{name.replace('_', '-')} = {value if isinstance(value, int) else repr(value)}".lower())
    (tmp_path / "worker.toml").write_text("\n".join(lines), encoding="utf-8")
    found = told("--config", str(tmp_path / "worker.toml"))
    for parameter in parameters():
        assert str(found[parameter.name]).lower() in {"77", "77.0", "true", *map(str, samples.values())}, parameter.name


def test_the_command_line_counts_before_the_environment_and_that_before_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "worker.toml"
    file.write_text('app = "shop.tools"\nhosts = 5\nslots = 6\ngrace = 7\nqueues = ["a:3", "b"]\nburst = true\n')
    monkeypatch.setenv("MYCELIUM_WORKER_CONFIG", str(file))
    monkeypatch.setenv("MYCELIUM_WORKER_SLOTS", "8")
    monkeypatch.setenv("MYCELIUM_WORKER_GRACE", "9")
    found = told("--grace", "10", "--no-burst")
    assert (found["app"], found["queues"]) == ("shop.tools", "a:3,b")
    assert (found["hosts"], found["slots"], found["grace_s"], found["burst"]) == (5, 8, 10.0, False)
    assert found["poll_s"] == 1.0


@pytest.mark.parametrize(
    "text,said",
    [
        ("slot = 3", "there is no option 'slot'. Do you mean 'slots'?"),
        ("log_format = 'json'", "there is no option 'log_format'. Do you mean 'log-format'?"),
        ("zzzzzz = 3", "There are: app, burst, grace"),
        ("config = 'other.toml'", "there is no option 'config'"),
        ("slots = 'many'", "slots: Input should be a valid integer"),
        ("slots = 0", "slots: Input should be greater than or equal to 1"),
        ("slots = 1.5", "slots: Input should be a valid integer"),
        ("slots = true", "slots is to be a number or a string"),
        ("burst = 1", "burst is to be true or false"),
        ("[worker]\nslots = 3", "there is no option 'worker'"),
        ("log-format = 'xml'", "log-format: 'xml' is not one of"),
        ("slots = [1, 2]", "slots is to be a number or a string"),
        ("slots =", "is not TOML"),
    ],
)
def test_a_file_that_says_nonsense_is_refused_by_name(tmp_path: Path, text: str, said: str) -> None:
    (tmp_path / "worker.toml").write_text(text, encoding="utf-8")
    message = refused("shop.tools", "--config", str(tmp_path / "worker.toml"))
    assert said in message
    assert "worker.toml" in message


def test_a_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    assert "No such file" in refused("shop.tools", "--config", str(tmp_path / "none.toml"))


@pytest.mark.parametrize(
    "words,said",
    [
        (["-Q", "mail:0"], "The queue 'mail' has the weight 0."),
        (["--grace", "-1"], "grace_s is -1."),
        (["--recycle-memory-mb", "600", "--host-memory-mb", "512"], "recycle_memory_mb 600 is not below"),
        (["--burst", "--reload"], "--reload never ends"),
        (["--ttl", "0"], "ttl_s is 0"),
    ],
    ids=["queue", "grace", "recycle", "burst and reload", "ttl"],
)
def test_what_contradicts_itself_is_refused_before_anything_starts(words: list[str], said: str) -> None:
    assert said in refused("shop.tools", *words)


def test_the_exit_codes_are_in_the_help() -> None:
    help_ = " ".join(
        CliRunner().invoke(the_app(), ["--help"], env={"COLUMNS": "400", "TERMINAL_WIDTH": "400"}).stdout.split()
    )
    for code in WorkerExit:
        assert f" {code:d} " in help_, code


def test_the_shell_can_complete_it() -> None:
    words = {"_MYCELIUM_WORKER_COMPLETE": "complete_bash", "COMP_WORDS": "mycelium-worker --metr", "COMP_CWORD": "1"}
    program = str(Path(sys.executable).with_name("mycelium-worker"))
    run = subprocess.run([program], env=os.environ | words, capture_output=True, text=True, check=False)
    assert run.stdout.split() == ["--metrics-port"]
