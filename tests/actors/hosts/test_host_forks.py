"""What a tool forks has a copy of its host: it must neither speak for it nor run what belongs to it."""

from __future__ import annotations

import logging
from pathlib import Path

import msgspec
import pytest

from kit.hosting import Control, hosting, soon
from mycelium.actors.hosts.frames import Done, Outcome

CAME_BACK = 70


def value(done: Done) -> object:
    assert done.outcome is Outcome.COMPLETED, done
    return msgspec.json.decode(done.body)


@pytest.mark.parametrize(
    "tool, then",
    [("fork_async", each) for each in ("wait", "return", "raise")]
    + [("fork_plain", each) for each in ("return", "raise")],
)
async def test_a_fork_that_goes_on_as_the_tool_is_ended_unheard(tool: str, then: str) -> None:
    async with hosting("rude_tools", slots=1) as control:
        assert value(await control.run(tool, then=then)) == CAME_BACK
        for number in range(20):
            assert value(await control.run("echo", value=number)) == number
        assert control.dones.empty()
        assert control.host.exited is None


async def test_a_fork_takes_no_step_of_other_tools(tmp_path: Path) -> None:
    book = tmp_path / "book"
    async with hosting("rude_tools") as control:
        control.send("fork_async", 0, then="wait")
        for slot in (1, 2, 3):
            control.send("leave_three_lines", slot, book=str(book))
        ended = [await soon(control.dones.get()) for _ in range(4)]
        assert {done.slot for done in ended} == {0, 1, 2, 3}
    assert book.read_text(encoding="ascii").split() == [str(control.host.pid)] * 9


async def test_an_effect_in_a_fork_is_refused() -> None:
    async with hosting("rude_tools") as control:
        assert value(await control.run("charge_in_a_fork")) == "BoundaryError"
        assert control.marks.empty()


async def test_a_process_of_multiprocessing_does_its_work() -> None:
    async with hosting("rude_tools") as control:
        assert value(await control.run("compute_in_a_forked_process")) == 7
        assert value(await control.run("echo", value=1)) == 1


async def test_frames_of_another_attempt_in_the_same_slot_are_ignored(caplog: pytest.LogCaptureFixture) -> None:
    async with hosting("rude_tools") as control:
        control.send("hang", 1)
        await _lie(control)
        await _lie(control)
        assert control.marks.empty()
        control.host.cancel(1)
        told = await soon(control.dones.get())
    assert (told.slot, told.outcome) == (1, Outcome.CANCELLED)
    warned = [record for record in caplog.records if record.levelno == logging.WARNING]
    assert len(warned) == 1


async def _lie(control: Control) -> None:
    control.send("tell_lies", about=1)
    told = await soon(control.dones.get())
    assert told.slot == 0
