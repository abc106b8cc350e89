"""Only a body whose first line was never reached is told as never begun: such an attempt runs again uncharged."""

from __future__ import annotations

import msgspec
import pytest

from kit.hosting import hosting, run_of, soon
from mycelium.actors.hosts.frames import NEVER_BEGAN, Outcome
from mycelium.ledger.states import Boundary


@pytest.mark.parametrize("tool", ["cancel_itself_and_return", "cancel_itself_at_once"])
async def test_a_body_that_returned_is_completed_although_its_task_counts_as_cancelled(tool: str) -> None:
    async with hosting("rude_tools") as control:
        control.host.run(run_of(tool, boundary=Boundary.MAYBE_CROSSED))
        done = await soon(control.dones.get())
    assert (done.outcome, done.boundary) == (Outcome.COMPLETED, Boundary.MAYBE_CROSSED)
    assert msgspec.json.decode(done.body) == "done"


@pytest.mark.parametrize(
    "tool, error", [("cancel_itself_and_raise", "ConnectionResetError"), ("cancel_itself_and_wait", "CancelledError")]
)
async def test_a_body_that_raised_is_told_as_what_it_raised(tool: str, error: str) -> None:
    async with hosting("rude_tools") as control:
        done = await control.run(tool)
    assert done.outcome is Outcome.FAILED
    assert done.error_class.endswith(error)


@pytest.mark.parametrize("tool", ["cancel_itself_and_return", "hang"])
async def test_a_cancel_before_the_first_step_is_never_begun_whatever_the_tool_would_have_done(tool: str) -> None:
    async with hosting("rude_tools") as control:
        # Both frames come in one read: the task is cancelled before its first step.
        control.send(tool)
        control.host.cancel(0)
        done = await soon(control.dones.get())
    assert (done.outcome, done.error_class) == (Outcome.NOT_EXECUTED, NEVER_BEGAN)
