"""An effect that the record of its call would not show is refused before it starts."""

from __future__ import annotations

import os
from pathlib import Path

import msgspec
import pytest

from kit.hosting import hosting
from mycelium.actors.hosts.frames import Outcome


async def test_a_program_that_a_tool_started_cannot_mark_and_is_told_so() -> None:
    async with hosting("rude_tools") as control:
        done = await control.run("charge_in_a_program")
    assert msgspec.json.decode(done.body) == ["BoundaryError", "BoundaryError"]


@pytest.mark.parametrize("how", ["call", "thread", "put"])
async def test_a_read_cannot_call_a_tool_that_writes(how: str) -> None:
    async with hosting("rude_tools") as control:
        done = await control.run("read_that_charges", how=how)
    assert (done.outcome, done.error_class) == (Outcome.FAILED, "mycelium.leases.errors.BoundaryError")


async def test_a_tool_may_call_tools_of_its_own_class_or_weaker() -> None:
    async with hosting("rude_tools") as control:
        done = await control.run("strong_tool_that_calls_weaker_ones")
    assert msgspec.json.decode(done.body) == ["put", "charged", 1]


async def test_a_tool_does_not_start_a_server_of_its_own_by_leaving_out_the_url(tmp_path: Path) -> None:
    async with hosting("rude_tools", env={"XDG_DATA_HOME": str(tmp_path)}) as control:
        done = await control.run("connect_without_a_url")
    assert msgspec.json.decode(done.body) == "SettingsError"
    assert os.listdir(tmp_path) == []  # noqa: PTH208 - nothing waits here
