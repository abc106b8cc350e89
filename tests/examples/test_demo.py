"""`mycelium demo` from end to end, with real processes that are really killed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

from kit.airline import first_runs, row, write_rows

NUMBERS = {
    "calls",
    "writes",
    "completed",
    "refused",
    "reconciled",
    "unknown",
    "max_effects_per_write",
    "duplicates",
    "wrong_results",
    "seconds",
    "lost",
    "kills",
}
LIMIT_S = 100


def command(*options: str | Path) -> list[str]:
    return [sys.executable, "-P", "-m", "mycelium", "demo", *map(str, options)]


def demo(directory: Path, *options: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command(*options), cwd=directory, capture_output=True, text=True, timeout=LIMIT_S, check=False
    )


def processes_in(directory: Path) -> list[int]:
    """Processes that work in a directory, which every process of a demo does."""
    found: list[int] = []
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and (entry / "cwd").readlink().is_relative_to(directory):
                found.append(int(entry.name))
        except OSError:
            continue
    return found


def test_guarded_no_write_has_more_than_one_effect(tmp_path: Path) -> None:
    calls = first_runs(tmp_path / "calls.jsonl", 30)
    run = demo(tmp_path, "--calls", "calls.jsonl", "--kills", "2", "--json", "--keep", "kept")
    assert run.returncode == 0, run.stdout + run.stderr
    result = json.loads(run.stdout)
    assert set(result) == NUMBERS
    assert result["calls"] == len(calls.read_text().splitlines())
    assert result["max_effects_per_write"] == 1
    assert result["kills"] == 2
    assert result["reconciled"] > 0
    assert [result[name] for name in ("duplicates", "wrong_results", "lost", "unknown")] == [0, 0, 0, 0]
    assert result["completed"] + result["refused"] == result["calls"]
    assert (tmp_path / "kept" / "effects.jsonl").exists()
    assert processes_in(tmp_path / "kept") == []


def test_unguarded_some_have(tmp_path: Path) -> None:
    first_runs(tmp_path / "calls.jsonl", 30)
    run = demo(tmp_path, "--unguarded", "--calls", "calls.jsonl", "--json")
    assert run.returncode == 1, run.stderr
    result = json.loads(run.stdout)
    assert result["duplicates"] > 0
    assert result["max_effects_per_write"] > 1
    assert result["wrong_results"] == 0


def test_bad_usage_starts_nothing(tmp_path: Path) -> None:
    calls = write_rows(tmp_path / "calls.jsonl", [row(), row(tool="fly")])
    for options, says in (
        (("--calls", calls), "line 2: There is no tool 'fly'"),
        (("--calls", tmp_path / "absent"), "cannot be read"),
        (("--keep", tmp_path), "has something in it"),
        (("--kills", "-1"), "--kills"),
        (("--seed", "x"), "--seed"),
    ):
        run = demo(tmp_path, *options)
        assert run.returncode == 2, options
        assert says in run.stderr
        assert "Traceback" not in run.stderr


def test_ctrl_c_leaves_no_process_behind(tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    with subprocess.Popen(
        command("--keep", kept), stderr=subprocess.PIPE, text=True, start_new_session=True
    ) as running:
        try:
            _wait_for_line(kept / "worker-1.log", "runs as process", running)
            os.kill(running.pid, signal.SIGINT)
            assert running.wait(LIMIT_S) == 130
        finally:
            running.kill()
        assert running.stderr is not None
        assert "Traceback" not in running.stderr.read()
    assert processes_in(kept) == []


def _wait_for_line(log: Path, words: str, running: subprocess.Popen[str]) -> None:
    follow = ["timeout", str(LIMIT_S), "tail", "-F", "-n", "+1", "--pid", str(running.pid), str(log)]
    with subprocess.Popen(follow, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as tail:
        assert tail.stdout is not None
        try:
            assert any(words in line for line in tail.stdout)
        finally:
            tail.kill()
