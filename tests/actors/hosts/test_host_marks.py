"""The mark goes from the tool to the control process and back before the effect."""

from __future__ import annotations

import msgspec
import pytest

from kit.hosting import hosting, run_of, soon
from mycelium.actors.hosts.frames import NEVER_BEGAN, Mark, Outcome
from mycelium.leases.clock import BootClock
from mycelium.ledger.states import Boundary

FLAVOURS = ["charge", "charge_plain"]


@pytest.mark.parametrize("flavour", FLAVOURS)
async def test_the_mark_and_the_reference_come_before_the_end(flavour: str) -> None:
    async with hosting() as control:
        done = await control.run(flavour)
    marks = [(told.boundary, told.ref) for told in control.order if isinstance(told, Mark)]
    assert marks == [(Boundary.MAYBE_CROSSED, None), (Boundary.MAYBE_CROSSED, done.ref)]
    assert (done.outcome, done.boundary) == (Outcome.COMPLETED, Boundary.CROSSED)
    assert done.ref in {"pi_1", "pi_2"}


@pytest.mark.parametrize("flavour", FLAVOURS)
async def test_the_effect_does_not_start_before_the_answer(flavour: str) -> None:
    async with hosting() as control:
        control.marks_say = "hold"
        control.send(flavour)
        mark = await soon(control.marks.get())
        control.send("echo", slot=1)
        assert (await soon(control.dones.get())).slot == 1
        control.marks_say = "ok"
        control.host.mark_reply(mark, ok=True)
        assert (await soon(control.dones.get())).outcome is Outcome.COMPLETED


@pytest.mark.parametrize("flavour", FLAVOURS)
async def test_a_refused_mark_stops_the_tool_before_the_effect(flavour: str) -> None:
    async with hosting() as control:
        control.marks_say = "refuse"
        done = await control.run(flavour)
    assert (done.outcome, done.boundary) == (Outcome.FAILED, Boundary.NOT_CROSSED)
    assert done.error_class.endswith("BoundaryError")
    assert "stale fence" in done.detail


@pytest.mark.parametrize("flavour", FLAVOURS)
async def test_an_unanswered_mark_leaves_the_boundary_in_doubt(flavour: str) -> None:
    async with hosting() as control:
        control.marks_say = "hold"
        control.host.run(run_of(flavour, timeout_s=0.3))
        done = await soon(control.dones.get())
    assert (done.outcome, done.boundary) == (Outcome.TIMEOUT, Boundary.MAYBE_CROSSED)


async def test_a_late_answer_is_not_taken_for_the_next_attempt_in_that_slot() -> None:
    async with hosting() as control:
        control.marks_say = "hold"
        control.host.run(run_of("charge", timeout_s=0.1))
        old = await soon(control.marks.get())
        await soon(control.dones.get())
        control.send("charge")
        new = await soon(control.marks.get())
        control.host.mark_reply(old, ok=True)
        control.host.mark_reply(new, ok=False, why="the newer one")
        assert "the newer one" in (await soon(control.dones.get())).detail


@pytest.mark.parametrize("flavour", FLAVOURS)
async def test_an_exception_inside_leaves_the_boundary_at_maybe(flavour: str) -> None:
    async with hosting() as control:
        done = await control.run(flavour, then="raise")
    assert (done.outcome, done.boundary) == (Outcome.FAILED, Boundary.MAYBE_CROSSED)
    assert done.error_class == "ConnectionResetError"


async def test_a_mark_that_is_already_written_costs_no_round_trip() -> None:
    async with hosting() as control:
        control.host.run(run_of("charge_automatic", boundary=Boundary.MAYBE_CROSSED))
        done = await soon(control.dones.get())
        assert control.marks.empty()
    assert (done.outcome, done.boundary) == (Outcome.COMPLETED, Boundary.CROSSED)


async def test_no_effect_starts_after_the_attempt_has_ended() -> None:
    async with hosting() as control:
        control.host.run(run_of("charge_when_cancelled", timeout_s=0.05))
        done = await soon(control.dones.get())
        assert control.marks.empty()
    assert msgspec.json.decode(done.body) == "BoundaryError"


async def test_a_loop_of_the_tools_own_can_mark_as_well() -> None:
    async with hosting() as control:
        assert (await control.run("charge_with_own_loop")).boundary is Boundary.CROSSED


@pytest.mark.parametrize("wrong", ["charge_blocking_the_loop", "charge_in_a_read"])
async def test_a_mark_in_a_wrong_place_is_refused_at_once(wrong: str) -> None:
    async with hosting() as control:
        done = await control.run(wrong)
        assert control.marks.empty()
    assert (done.outcome, done.boundary) == (Outcome.FAILED, Boundary.NOT_CROSSED)
    assert done.error_class.endswith("BoundaryError")


async def test_a_reference_that_nobody_awaits_travels_with_the_end() -> None:
    async with hosting() as control:
        done = await control.run("record_and_leave")
    assert (done.ref, done.boundary) == ("pi_3", Boundary.MAYBE_CROSSED)


async def test_an_effect_that_belongs_to_no_call_is_refused_in_a_host() -> None:
    async with hosting() as control:
        done = await control.run("charge_in_a_bare_thread")
        assert control.marks.empty()
    assert msgspec.json.decode(done.body) == "BoundaryError"


@pytest.mark.parametrize("flavour", FLAVOURS)
async def test_an_effect_does_not_start_on_a_mark_whose_time_is_over(flavour: str) -> None:
    async with hosting() as control:
        control.marks_say = "hold"
        control.send(flavour)
        mark = await soon(control.marks.get())
        control.host.mark_reply(mark, ok=True, begin_by_s=BootClock().now_s())
        done = await soon(control.dones.get())
    assert (done.outcome, done.error_class) == (Outcome.FAILED, "mycelium.leases.errors.BoundaryError")


@pytest.mark.parametrize("tool", ["echo", "echo_plain"])
async def test_a_body_does_not_begin_after_the_time_in_which_its_session_is_trusted(tool: str) -> None:
    late = run_of(tool, begin_by_s=BootClock().now_s())
    in_time = run_of(tool, begin_by_s=BootClock().now_s() + 60)
    async with hosting() as control:
        control.host.run(late)
        assert (await soon(control.dones.get())).error_class == NEVER_BEGAN
        control.host.run(in_time)
        assert (await soon(control.dones.get())).outcome is not Outcome.NOT_EXECUTED
