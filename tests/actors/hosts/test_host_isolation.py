"""What a body shares with others, and how it is ended where that is a process."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from chaos.stage import until

from kit.hosting import Control, gate_in, hosting, run_of, some_time_passes, soon
from kit.launching import ProcessEnd
from mycelium.actors.hosts.frames import NEVER_BEGAN, Done, Outcome
from mycelium.actors.hosts.listener import ExitReason, HostExit
from mycelium.actors.terms import Isolation
from mycelium.leases.errors import BadCallError

TOOLS = "kit.isolated_tools"


async def test_a_host_tells_what_its_tools_share() -> None:
    async with hosting(TOOLS) as control:
        told = {name: facts.isolation for name, facts in control.host.tools.items()}
        assert [name for name, facts in control.host.tools.items() if facts.in_line] == ["meet_alone", "wait_alone"]
    assert (told["hang"], told["wait_in_thread"]) == (Isolation.HOST, Isolation.THREAD)
    assert (told["meet_alone"], told["hang_apart"]) == (Isolation.HOST, Isolation.PROCESS)


async def test_plain_tools_that_share_a_host_run_one_at_a_time_in_one_thread() -> None:
    async with hosting(TOOLS) as control:
        for slot in range(3):
            control.send("meet_alone", slot)
        told = [msgspec.json.decode((await soon(control.dones.get())).body) for _ in range(3)]
    assert {word for word, _ in told} == {"alone"}
    assert len({thread for _, thread in told}) == 1


async def test_the_time_of_one_that_waits_for_its_turn_begins_with_its_turn(tmp_path: Path) -> None:
    gate = gate_in(tmp_path)
    async with hosting(TOOLS, overrun_grace_s=0.01) as control:
        control.send("wait_alone", 0, gate=str(gate))
        control.host.run(run_of("wait_alone", 1, {"gate": str(tmp_path / "none")}, timeout_s=0.1))
        await some_time_passes(control)
        gate.unlink()
        ended = [await soon(control.dones.get()) for _ in range(2)]
    assert [(done.slot, done.outcome) for done in ended] == [(0, Outcome.COMPLETED), (1, Outcome.COMPLETED)]


async def test_one_whose_turn_has_come_is_ended_with_its_host_when_it_overruns(tmp_path: Path) -> None:
    gate = gate_in(tmp_path)
    async with hosting(TOOLS, overrun_grace_s=0.1) as control:
        control.host.run(run_of("wait_alone", 0, {"gate": str(tmp_path / "none")}))
        control.host.run(run_of("wait_alone", 1, {"gate": str(gate)}, timeout_s=0.1))
        control.host.run(run_of("wait_alone", 2, {"gate": str(gate)}, timeout_s=0.1))
        assert (await soon(control.dones.get())).slot == 0
        assert (await soon(control.exits.get())).overdue == (1,)


async def test_one_that_waits_for_its_turn_is_cancelled_before_it_begins(tmp_path: Path) -> None:
    gate = gate_in(tmp_path)
    async with hosting(TOOLS) as control:
        control.send("wait_alone", 0, gate=str(gate))
        control.send("wait_alone", 1, gate=str(gate))
        control.host.cancel(1)
        done = await soon(control.dones.get())
        assert (done.slot, done.outcome, done.error_class) == (1, Outcome.NOT_EXECUTED, NEVER_BEGAN)
        gate.unlink()
        assert (await soon(control.dones.get())).outcome is Outcome.COMPLETED


@pytest.mark.parametrize("why", ["timeout", "cancel"])
async def test_the_slot_of_a_thread_stays_taken_until_the_thread_has_ended(tmp_path: Path, why: str) -> None:
    gate = gate_in(tmp_path)
    async with hosting(TOOLS) as control:
        control.host.run(run_of("wait_in_thread", 0, {"gate": str(gate)}, timeout_s=0.1 if why == "timeout" else 60))
        if why == "cancel":
            control.host.cancel(0)
        await some_time_passes(control)
        with pytest.raises(BadCallError):
            control.send("pid")
        gate.unlink()
        # Its outcome is found when it ends; never assumed.
        done = await soon(control.dones.get())
        assert (done.slot, done.outcome) == (0, Outcome.COMPLETED)


async def test_a_timeout_ends_the_process_of_a_plain_tool_and_its_programs(tmp_path: Path) -> None:
    told = tmp_path / "told"
    async with hosting(TOOLS, slots=1, solo=True, overrun_grace_s=600) as control:
        control.host.run(run_of("hang_apart", 0, {"tell": str(told)}, timeout_s=2))
        await until(lambda: told.exists() and told.read_text(encoding="ascii"))
        with ProcessEnd(int(told.read_text(encoding="ascii"))) as program:
            reason = await soon(control.exits.get())
            assert program.comes_within(10)
    assert (reason.why, reason.overdue) == (ExitReason.OVERDUE, (0,))
    assert control.dones.empty()


async def test_a_cancel_ends_the_process_of_a_plain_tool(tmp_path: Path) -> None:
    told = tmp_path / "told"
    async with hosting(TOOLS, slots=1, solo=True, chance_s=600) as control:
        control.send("hang_apart", tell=str(told))
        await until(told.exists)
        control.host.cancel(0)
        assert (await soon(control.exits.get())).why is ExitReason.CANCELLED


@pytest.mark.parametrize("why", [ExitReason.OVERDUE, ExitReason.CANCELLED])
async def test_a_coroutine_with_a_process_to_itself_may_end_by_itself_first(why: ExitReason) -> None:
    async with hosting(TOOLS, slots=1, solo=True, chance_s=20) as control:
        await end(control, "finish_apart_when_cancelled", why)
        done = await soon(control.dones.get())
        assert (done.outcome, msgspec.json.decode(done.body)) == (Outcome.COMPLETED, "it was done after all")
        assert (await control.run("pid_apart")).outcome is Outcome.COMPLETED
        assert control.host.exited is None


@pytest.mark.parametrize("why", [ExitReason.OVERDUE, ExitReason.CANCELLED])
async def test_a_coroutine_that_does_not_use_its_chance_is_ended_with_its_process(why: ExitReason) -> None:
    async with hosting(TOOLS, slots=1, solo=True, chance_s=0.1) as control:
        await end(control, "hang_apart_stubbornly", why)
        reason = await soon(control.exits.get())
    assert reason == HostExit(-9, 9, why, (0,) if why is ExitReason.OVERDUE else ())


async def end(control: Control, tool: str, why: ExitReason) -> None:
    """Let it run into its timeout, or begin and then cancel it."""
    control.host.run(run_of(tool, 0, timeout_s=0.5 if why is ExitReason.OVERDUE else 60))
    if why is ExitReason.CANCELLED:
        while not control.pongs.empty():
            control.pongs.get_nowait()
        # Frames are answered in order: the next pong but one was asked for when the body had begun.
        await soon(control.pongs.get())
        await soon(control.pongs.get())
        control.host.cancel(0)


async def test_what_a_failed_run_leaves_behind_ends_with_its_process_before_it_is_told() -> None:
    async with hosting(TOOLS, slots=1, solo=True) as control:
        control.send("fail_apart_beside_a_task")
        reason = await soon(control.exits.get())
        done = await soon(control.dones.get())
    assert (done.outcome, done.over, reason.why) == (Outcome.FAILED, True, ExitReason.LEFTOVER)
    assert [type(told) for told in control.order] == [Done, HostExit]
