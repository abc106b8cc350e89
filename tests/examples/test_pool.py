"""Each example of the pool runs as people run it, and says what it is about."""

from __future__ import annotations

import subprocess
import sys

import pytest

from house.tree import ROOT

SAID = {
    "queues": ["globex was number 3, the lowest priority number 18 of 102"],
    "limits": [
        "at most 2 of the mailbox ran at once",
        "after 0 s: 2 of 8 asked",
        "after 1 s: 4 of 8 asked",
        "after 2 s: 6 of 8 asked",
        "after 3 s: 8 of 8 asked",
    ],
    "retries": ["dead: dead", "settled ORD-1", "charged ORD-1"],
    "cancelling": ["the first: cancelled", "the second: unknown"],
}


@pytest.mark.parametrize("name", SAID)
def test_an_example_runs_and_says_what_it_shows(name: str) -> None:
    command = [sys.executable, "-m", f"mycelium.examples.pool.{name}"]
    ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.splitlines() == SAID[name]


def test_every_example_of_the_pool_is_run_here() -> None:
    assert {path.stem for path in (ROOT / "examples/pool").glob("*.py")} - {"__init__"} == set(SAID)
