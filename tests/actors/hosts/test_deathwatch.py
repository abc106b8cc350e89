"""A death is told by the kernel, at once; nobody has to look now and then."""

from __future__ import annotations

import asyncio
import os
import subprocess

import pytest

from kit.hosting import soon
from mycelium.actors.hosts.deathwatch import DeathWatch


@pytest.mark.parametrize("with_descriptors", [True, False])
async def test_a_death_is_told_and_its_status_is_left_to_be_collected(
    monkeypatch: pytest.MonkeyPatch, *, with_descriptors: bool
) -> None:
    if not with_descriptors:
        monkeypatch.delattr(os, "pidfd_open")
    told = asyncio.Event()
    with subprocess.Popen(["/bin/sh", "-c", "read _"], stdin=subprocess.PIPE) as child:  # noqa: ASYNC220 - only ended here
        watch = DeathWatch(child.pid, told.set)
        await asyncio.sleep(0)
        assert not told.is_set()
        child.kill()
        await soon(told.wait())
        del watch
        assert child.wait(0) == -9
