"""Weird arguments never fork an identity and never raise anything but a refusal."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from ledger.canon_corpus import form, values
from ledger.canon_oracle import meaning

from mycelium.actors.tool import tool
from mycelium.leases.errors import BadArgumentsError, PayloadTooLargeError

NUMBER = 30_000
SEEDS = [1, int(os.environ["CANON_SEED"])]
"""A fixed one, and one that is drawn for each run; `tests/conftest.py` draws it."""
CORPUS = Path(__file__).parent / "canon_corpus.py"


@pytest.mark.parametrize("seed", SEEDS, ids=lambda seed: f"CANON_SEED={seed}")
def test_equal_by_the_oracle_is_equal_in_bytes_and_nothing_else_is(seed: int) -> None:
    form_of: dict[object, bytes] = {}
    meaning_of: dict[bytes, object] = {}
    refused = met_again = 0
    for at, value in enumerate(values(seed, NUMBER)):
        means, text = meaning(value), form(value)
        assert (means is None) == (text is None), (at, type(value))
        if text is None or means is None:
            refused += 1
            continue
        met_again += means in form_of
        assert form_of.setdefault(means, text) == text, (at, type(value))
        assert meaning_of.setdefault(text, means) == means, (at, text)
    # A corpus that never refuses or never repeats would show nothing.
    assert refused > NUMBER // 50
    assert met_again > NUMBER // 10
    assert len(form_of) > NUMBER // 10


@tool(effect_class="read")
def anything(value: Any) -> None:  # noqa: ANN401 - that is the point
    """Take anything."""


@pytest.mark.parametrize("seed", SEEDS, ids=lambda seed: f"CANON_SEED={seed}")
def test_a_call_with_anything_is_refused_or_reaches_the_host_as_what_it_is(seed: int) -> None:
    stored = 0
    for at, value in enumerate(values(seed, NUMBER // 3)):
        try:
            wired = anything.to_wire({"value": value})
        except (BadArgumentsError, PayloadTooLargeError):
            continue
        stored += 1
        there = anything.from_wire(wired.body)
        assert meaning(there["value"]) == meaning(value), (at, wired.body)
        assert anything.check((there["value"],), {}).args == wired.args, (at, wired.body)
    assert stored > NUMBER // 50


@pytest.mark.parametrize(
    "world",
    [
        {"PYTHONHASHSEED": "1", "LC_ALL": "C", "TZ": "Asia/Tokyo"},
        {"PYTHONHASHSEED": "2", "LC_ALL": "C.UTF-8", "PYTHONUTF8": "0", "PYTHONOPTIMIZE": "1"},
    ],
    ids=lambda world: f"hash seed {world['PYTHONHASHSEED']}",
)
def test_another_process_gives_the_same_bytes(world: dict[str, str]) -> None:
    number = 1_000
    here = [hashlib.sha256(form(value) or b"refused").hexdigest() for value in values(1, number)]
    command = [sys.executable, "-P", str(CORPUS), "1", str(number)]
    there = subprocess.run(
        command, env={**os.environ, **world}, capture_output=True, text=True, check=False, timeout=60
    )
    assert there.returncode == 0, there.stderr
    assert there.stdout.split() == here
