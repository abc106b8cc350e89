"""An attempt is over only when what it left in threads is over."""

from __future__ import annotations

import asyncio
from pathlib import Path

from kit.hosting import hosting, run_of, soon
from mycelium.actors.hosts.frames import Outcome
from mycelium.actors.hosts.listener import ExitReason
from mycelium.ledger.states import BoundaryMode, EffectClass


async def test_an_end_without_a_result_is_told_after_the_thread_has_ended(tmp_path: Path) -> None:
    gate, trace = tmp_path / "gate", tmp_path / "trace"
    gate.touch()
    async with hosting() as control:
        arguments = {"gate": str(gate), "trace": str(trace), "wait": True}
        control.host.run(run_of("charge_in_to_thread", 0, arguments))
        control.send("echo", slot=1)
        assert (await soon(control.dones.get())).slot == 1
        control.host.cancel(0)
        # The slot stays taken, and others are run meanwhile.
        control.send("echo", slot=1)
        assert (await soon(control.dones.get())).slot == 1
        assert control.dones.empty()
        gate.unlink()
        done = await soon(control.dones.get())
        assert trace.read_text() == "charged"
    assert done.outcome is Outcome.CANCELLED


async def test_a_result_is_told_at_once_whatever_still_runs(tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    gate.touch()
    async with hosting() as control:
        done = await control.run("charge_in_to_thread", gate=str(gate), trace=str(tmp_path / "trace"), wait=False)
        assert (done.outcome, done.over) == (Outcome.COMPLETED, True)
        gate.unlink()


async def test_a_failure_that_leaves_tasks_behind_is_not_told_as_over() -> None:
    async with hosting() as control:
        assert not (await control.run("fail_beside_a_task", leave=True)).over
        assert (await control.run("fail_beside_a_task", leave=False)).over


async def test_a_call_that_was_granted_laxer_than_this_host_declares_is_not_run() -> None:
    async with hosting() as control:
        control.host.run(run_of("charge_automatic", effect_class=EffectClass.READ, mode=BoundaryMode.NONE))
        assert (await soon(control.dones.get())).error_class == "mycelium.DeclaredAnew"
        explicit = run_of("charge_automatic", mode=BoundaryMode.EXPLICIT)
        control.host.run(explicit)
        assert (await soon(control.dones.get())).outcome is Outcome.REFUSED


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
