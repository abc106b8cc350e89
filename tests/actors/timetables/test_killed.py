"""Schedulers that are killed at any moment: each due time has one job, whatever was under way."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from pathlib import Path

from kit.schedule_child import EACH_MINUTE, MINUTE
from kit.schedules import NOON, jobs, store_at
from mycelium.ledger.replies import text

TESTS = Path(__file__).parents[2]


def run_and_kill(url: str, namespace: str, first: int, minutes: int) -> int:
    """Kill two schedulers that run side by side once one has told of so many minutes; the last minute that was told."""
    command = [sys.executable, "-m", "kit.schedule_child", url, namespace, str(first)]
    env = os.environ | {"PYTHONPATH": str(TESTS)}
    with (
        subprocess.Popen(command, env=env, stdout=subprocess.DEVNULL) as other,
        subprocess.Popen(command, env=env, stdout=subprocess.PIPE, text=True) as one,
    ):
        assert one.stdout is not None
        told = [one.stdout.readline() for _ in range(minutes)]
        one.kill()
        other.kill()
    return int(told[-1])


async def test_each_due_time_has_one_job_although_schedulers_are_killed(url: str, namespace: str) -> None:
    rng, minute = random.Random(20), 0
    for _ in range(6):
        minute = run_and_kill(url, namespace, minute, rng.randrange(20, 120)) + rng.randrange(5)
    async with store_at(url, namespace) as store:
        found = await jobs(store)
        submitted = await store.calls.read("HGET", store.keys.counters(), "submitted")
    assert len(found) > 100
    assert found == [EACH_MINUTE.request_id(NOON + (n + 1) * MINUTE) for n in range(len(found))]
    assert int(text(submitted)) == len(found)
