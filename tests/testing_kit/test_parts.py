"""The parts of the testing kit by themselves: its clock, and its servers."""

from __future__ import annotations

import asyncio
import sys
from datetime import timedelta
from typing import cast

import pytest

from kit.in_memory_shop import TOOLS, sell
from mycelium.leases.errors import SettingsError
from mycelium.testing import FakeClock, fake_server, in_memory_worker, private_server


async def test_one_jump_moves_every_reading_of_the_time() -> None:
    clock, loop = FakeClock(), asyncio.get_running_loop()
    with clock.over(loop):
        before = clock.now_ms, clock.now, clock.now_s(), loop.time()
        clock.jump(3600.0)
        assert (clock.now_ms - before[0], clock.now - before[1]) == (3_600_000, timedelta(hours=1))
        assert clock.now_s() - before[2] >= 3600
        assert loop.time() - before[3] >= 3600


async def test_whoever_sleeps_past_a_jump_wakes_in_order() -> None:
    clock, woken = FakeClock(), list[str]()

    async def sleep(name: str, seconds: float) -> None:
        await asyncio.sleep(seconds)
        woken.append(name)

    with clock.over(asyncio.get_running_loop()):
        async with asyncio.TaskGroup() as sleepers:
            for name, seconds in (("an hour", 3600.0), ("a minute", 60.0)):
                sleepers.create_task(sleep(name, seconds))
            await asyncio.sleep(0)
            clock.jump(7200.0)
    assert woken == ["a minute", "an hour"]


async def test_clocks_over_one_loop_end_in_order() -> None:
    loop = asyncio.get_running_loop()
    real = loop.time()
    with FakeClock().over(loop):
        inner = FakeClock()
        with inner.over(loop):
            inner.jump(3600.0)
            assert loop.time() - real >= 3600
        assert loop.time() - real < 3600
    assert "time" not in vars(loop)


def test_a_loop_whose_time_stands_fast_is_refused() -> None:
    class Fast:
        __slots__ = ()

        def time(self) -> float:
            return 0.0

    with (
        pytest.raises(SettingsError, match="cannot be moved"),
        FakeClock().over(cast("asyncio.AbstractEventLoop", Fast())),
    ):
        pass


def test_a_fake_server_without_fakeredis_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "fakeredis", None)
    with pytest.raises(SettingsError, match=r"Install mycelium\[testing\]"), fake_server():
        pass


@pytest.mark.parametrize("server", ["embedded", "fakeredis"])
async def test_a_worker_may_have_a_server_to_itself(server: str) -> None:
    async with in_memory_worker(TOOLS, server=server) as worker:
        assert await (await worker.client.submit(sell.bind("A"), request_id="A")).result(20) == "A"


def test_a_private_server_ends_with_its_block() -> None:
    with private_server() as first, private_server() as second:
        assert first != second
