"""An attempt is over only when what it left in threads is over."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from kit.hosting import hosting, run_of, soon
from mycelium.actors.hosts.frames import Outcome
from mycelium.actors.hosts.host import ExitReason


@pytest.mark.parametrize("then", ["cut short", "leave it"])
async def test_the_end_is_told_after_the_thread_has_ended(tmp_path: Path, then: str) -> None:
    gate, trace = tmp_path / "gate", tmp_path / "trace"
    gate.touch()
    async with hosting() as control:
        arguments = {"gate": str(gate), "trace": str(trace), "wait": then == "cut short"}
        control.host.run(run_of("charge_in_to_thread", 0, arguments))
        control.send("echo", slot=1)
        assert (await soon(control.dones.get())).slot == 1
        if then == "cut short":
            control.host.cancel(0)
        # The slot stays taken, and others are run meanwhile.
        control.send("echo", slot=1)
        assert (await soon(control.dones.get())).slot == 1
        assert control.dones.empty()
        gate.unlink()
        done = await soon(control.dones.get())
        assert trace.read_text() == "charged"
    assert done.outcome is (Outcome.CANCELLED if then == "cut short" else Outcome.COMPLETED)


async def test_a_thread_that_never_ends_is_ended_with_its_host(tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    gate.touch()
    async with hosting(overrun_grace_s=0.3) as control:
        arguments = {"gate": str(gate), "trace": str(tmp_path / "trace"), "wait": True}
        control.host.run(run_of("charge_in_to_thread", 0, arguments, timeout_s=0.2))
        async with asyncio.timeout(20):
            assert (await control.exits.get()).why is ExitReason.OVERDUE
    assert not (tmp_path / "trace").exists()


async def test_a_body_that_is_no_object_fits_no_version_of_the_tool() -> None:
    async with hosting() as control:
        control.host.run(run_of("echo", 0, b"\x80\x04K\x07."))
        assert (await soon(control.dones.get())).outcome is Outcome.NOT_EXECUTED
        control.host.run(run_of("echo", 0, b"[" * 100_000))
        assert (await soon(control.dones.get())).outcome is Outcome.NOT_EXECUTED
        control.host.run(run_of("echo", 0, b'{"strange": 1}'))
        assert (await soon(control.dones.get())).outcome is Outcome.REFUSED
