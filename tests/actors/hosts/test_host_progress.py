"""A body tells how far it has come; while it does, its idle time does not run out."""

from __future__ import annotations

from pathlib import Path

import pytest

from kit.hosting import gate_in, hosting, run_of, some_time_passes, soon
from mycelium.actors.hosts.frames import NO_PROGRESS, Done, Outcome, Progress
from mycelium.actors.hosts.listener import ExitReason
from mycelium.actors.progress_call import progress
from mycelium.leases.errors import BadArgumentsError

TOOLS = "kit.isolated_tools"


@pytest.mark.parametrize("tool", ["count_up", "count_up_plain"])
async def test_many_reports_become_few_and_the_last_comes_before_the_end(tool: str) -> None:
    async with hosting(TOOLS) as control:
        done = await control.run(tool, to=5000)
        *reports, end = control.order
    assert done.outcome is Outcome.COMPLETED
    assert isinstance(end, Done)
    assert 2 <= len(reports) < 500
    assert all(isinstance(report, Progress) for report in reports)
    last = reports[-1]
    assert isinstance(last, Progress)
    assert (last.done, last.total, last.fence) == (5000.0, 5000.0, done.fence)


async def test_a_note_travels_with_it_cut_and_readable() -> None:
    async with hosting(TOOLS) as control:
        await control.run("count_up", to=1, note="x" * 500)
        await control.run("count_up_elsewhere")
        assert (await soon(control.progress.get())).note == "x" * 200
        assert (await soon(control.progress.get())).note == "in a thread"


async def test_nothing_is_reported_of_a_run_that_is_over_nor_from_a_fork() -> None:
    async with hosting(TOOLS) as control:
        assert (await control.run("report_after_the_end")).outcome is Outcome.COMPLETED
        assert (await control.run("report_in_a_fork")).body == b"3"
        await some_time_passes(control, 0.3)
        assert control.progress.empty()


def test_outside_of_a_worker_it_does_nothing_but_check() -> None:
    progress(1, 2, "half")
    for wrong in ((-1, None, ""), (float("nan"), 1, ""), (True, 1, ""), (1, float("inf"), ""), (10**400, 1, "")):
        with pytest.raises(BadArgumentsError):
            progress(*wrong)
    with pytest.raises(BadArgumentsError):
        progress(1, 2, b"note")  # type: ignore[arg-type]


@pytest.mark.parametrize("tool", ["hang", "hang_in_thread"])
async def test_a_body_that_tells_no_progress_for_its_idle_time_is_past_its_time(tool: str) -> None:
    async with hosting(TOOLS, overrun_grace_s=0.3) as control:
        control.host.run(run_of(tool, idle_timeout_s=0.1))
        if tool == "hang":
            done = await soon(control.dones.get())
            assert (done.outcome, done.error_class) == (Outcome.TIMEOUT, NO_PROGRESS)
            assert "0.1 s" in done.detail
        else:
            assert (await soon(control.exits.get())).overdue == (0,)


@pytest.mark.parametrize("tool", ["report_until_gone", "report_until_gone_plain"])
async def test_each_report_lets_the_idle_time_begin_anew(tool: str, tmp_path: Path) -> None:
    gate = gate_in(tmp_path)
    async with hosting(TOOLS, overrun_grace_s=0.1) as control:
        control.host.run(run_of(tool, 0, {"gate": str(gate)}, idle_timeout_s=1.0))
        await some_time_passes(control, 2.5)
        gate.unlink()
        assert (await soon(control.dones.get())).outcome is Outcome.COMPLETED


async def test_the_timeout_stays_the_most_that_it_may_take(tmp_path: Path) -> None:
    gate = gate_in(tmp_path)
    async with hosting(TOOLS) as control:
        control.host.run(run_of("report_until_gone", 0, {"gate": str(gate)}, idle_timeout_s=5.0, timeout_s=0.3))
        done = await soon(control.dones.get())
    assert done.outcome is Outcome.TIMEOUT
    assert done.error_class != NO_PROGRESS


async def test_a_deaf_host_is_ended_when_the_idle_time_of_its_run_is_over() -> None:
    async with hosting(TOOLS, overrun_grace_s=0.2) as control:
        control.host.run(run_of("hold_the_gil", 1, idle_timeout_s=0.2))
        reason = await soon(control.exits.get())
    assert (reason.why, reason.overdue) == (ExitReason.OVERDUE, (1,))
