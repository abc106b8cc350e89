"""A control process for tests: it keeps what a host tells, and answers marks as it is told to."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncGenerator, Awaitable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

import msgspec

from mycelium.actors.hosts.frames import Answer, Ask, Done, Mark, Outcome, Pong, Progress, Run
from mycelium.actors.hosts.host import HostProcess, HostSettings
from mycelium.actors.hosts.listener import HostExit
from mycelium.ledger.states import Boundary

T = TypeVar("T")

TOOLS = Path(__file__).parents[1] / "actors" / "hosts"
TESTS = TOOLS.parents[1]
SETTINGS = HostSettings(path=(str(TOOLS), str(TESTS)))
WAIT_S = 30.0


class Control:
    """Owner of one host.

    Attributes:
        host: the host.
        order: everything that the host told, in order.
        marks_say: "ok", "refuse", or "hold": what marks are answered with.
    """

    def __init__(self, spec: str, slots: int, settings: HostSettings) -> None:
        self.host = HostProcess(spec, slots, self, settings)
        self.order: list[object] = []
        self.marks_say = "ok"
        self.dones: asyncio.Queue[Done] = asyncio.Queue()
        self.marks: asyncio.Queue[Mark] = asyncio.Queue()
        self.answers: asyncio.Queue[Answer] = asyncio.Queue()
        self.pongs: asyncio.Queue[Pong] = asyncio.Queue()
        self.progress: asyncio.Queue[Progress] = asyncio.Queue()
        self.silences: asyncio.Queue[float] = asyncio.Queue()
        """A 0 when the host becomes busy, then for how long it was."""
        self.exits: asyncio.Queue[HostExit] = asyncio.Queue()

    def on_done(self, done: Done) -> None:
        self.order.append(done)
        self.dones.put_nowait(done)

    def on_mark(self, mark: Mark) -> None:
        self.order.append(mark)
        self.marks.put_nowait(mark)
        if self.marks_say != "hold":
            self.host.mark_reply(mark, ok=self.marks_say == "ok", why="stale fence")

    def on_answer(self, answer: Answer) -> None:
        self.answers.put_nowait(answer)

    def on_pong(self, pong: Pong) -> None:
        self.pongs.put_nowait(pong)

    def on_progress(self, progress: Progress) -> None:
        self.order.append(progress)
        self.progress.put_nowait(progress)

    def on_busy(self) -> None:
        self.silences.put_nowait(0.0)

    def on_answers(self, silent_s: float) -> None:
        self.silences.put_nowait(silent_s)

    def on_exit(self, reason: HostExit) -> None:
        self.order.append(reason)
        self.exits.put_nowait(reason)

    def send(self, tool: str, slot: int = 0, **arguments: object) -> None:
        """Run a tool with JSON arguments; nothing is marked yet."""
        self.host.run(run_of(tool, slot, arguments))

    async def run(self, tool: str, **arguments: object) -> Done:
        """Run a tool and wait for its end."""
        self.host.run(run_of(tool, 0, arguments))
        return await soon(self.dones.get())

    async def ask(self, tool: str, *, timeout_s: float = 10.0, **arguments: object) -> Answer:
        """Ask a tool's reconciler."""
        self.host.ask(Ask(0, tool, "r", "e", "e", "pi_9", msgspec.json.encode(arguments), 5.0, 1, timeout_s))
        return await soon(self.answers.get())


_numbers = itertools.count(1)


def run_of(tool: str, slot: int = 0, arguments: object = None, **changes: object) -> Run:
    """A run as the control process would send it."""
    number = str(next(_numbers))
    args = arguments if isinstance(arguments, bytes) else msgspec.json.encode(arguments or {})
    run = Run(slot, f"r{number}", f"e{number}", tool, number, 1, args, 60.0, Boundary.NOT_CROSSED)
    return msgspec.structs.replace(run, **changes)


async def soon(awaited: Awaitable[T]) -> T:
    """Await something that is certain to come; a defect must not hang the tests."""
    return await asyncio.wait_for(awaited, WAIT_S)


@asynccontextmanager
async def hosting(spec: str = "host_tools", slots: int = 4, **changes: object) -> AsyncGenerator[Control]:
    """A started host, which is gone afterwards."""
    control = Control(spec, slots, replace(SETTINGS, **changes))  # type: ignore[arg-type]
    await control.host.start()
    try:
        yield control
    finally:
        control.host.kill()
        await control.host.wait()


SLOT_OF_CLOCK = 3


async def some_time_passes(control: Control, seconds: float = 1.2) -> None:
    """A run in another slot is the clock; a limit of a tenth of it would be noticed meanwhile, on both sides."""
    control.host.run(run_of("hang", SLOT_OF_CLOCK, timeout_s=seconds))
    done = await soon(control.dones.get())
    assert (done.slot, done.outcome) == (SLOT_OF_CLOCK, Outcome.TIMEOUT)


def gate_in(folder: Path) -> Path:
    """A file that tools wait behind until it is gone."""
    gate = folder / "gate"
    gate.touch()
    return gate
