"""Small actors for the tests of the actor runtime, and a system on a clock that a test moves."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from random import Random

from kit.clock import FakeClock
from mycelium.actors.runtime import Actor, ActorSystem, Backoff, ChildSpec, Restart, StopReason, Terminated

QUICK = Backoff(first_s=0.1, factor=2.0, most_s=1.0)


class Boom(Exception):  # noqa: N818 - what a test actor dies of
    """A defect in a handler."""


@dataclass(frozen=True, slots=True)
class Say:
    text: str


@dataclass(frozen=True, slots=True)
class Crash:
    error: BaseException = field(default_factory=Boom)


@dataclass(frozen=True, slots=True)
class Finish:
    """Stop yourself."""


@dataclass(frozen=True, slots=True)
class Hold:
    """Be busy until the event is set."""

    until: asyncio.Event
    begun: asyncio.Event = field(default_factory=asyncio.Event)


@dataclass(frozen=True, slots=True)
class Cling:
    """Be busy until the event is set, and lose every cancel on the way."""

    until: asyncio.Event
    begun: asyncio.Event = field(default_factory=asyncio.Event)


@dataclass(frozen=True, slots=True)
class Background:
    """Crash in a background task once the event is set."""

    when: asyncio.Event
    error: BaseException = field(default_factory=Boom)


Message = Say | Crash | Finish | Hold | Cling | Background | Terminated


class Diary:
    """What all actors of a test did, in order."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.lives: dict[str, int] = {}
        self.fail_starts: dict[str, int] = {}

    def write(self, line: str) -> None:
        self.lines.append(line)

    def clear(self) -> None:
        self.lines.clear()


class Worker(Actor[Message]):
    """Does what its messages say, and writes it down."""

    def __init__(self, diary: Diary, name: str) -> None:
        self.diary = diary
        self.name = name
        self.said: list[str] = []

    async def started(self) -> None:
        self.diary.lives[self.name] = self.diary.lives.get(self.name, 0) + 1
        if self.diary.fail_starts.get(self.name, 0) > 0:
            self.diary.fail_starts[self.name] -= 1
            raise Boom(self.name)
        self.diary.write(f"{self.name} started")

    async def receive(self, message: Message) -> object:
        match message:
            case Say(text):
                self.said.append(text)
                return list(self.said)
            case Crash(error):
                raise error
            case Finish():
                self.stop()
            case Hold(until, begun):
                begun.set()
                await until.wait()
            case Cling(until, begun):
                begun.set()
                await _cling(until)
            case Background(when, error):
                self.spawn_task(_crash_when(when, error))
            case Terminated(ref, reason, error):
                self.diary.write(f"{self.name} heard that {ref.name} ended: {reason} {error}")
        return None

    async def stopping(self, reason: StopReason) -> None:
        self.diary.write(f"{self.name} stopping: {reason}")

    async def restarting(self, error: BaseException) -> None:
        self.diary.write(f"{self.name} restarting: {type(error).__name__}")


async def _crash_when(when: asyncio.Event, error: BaseException) -> None:
    await when.wait()
    raise error


async def _cling(until: asyncio.Event) -> None:
    while not until.is_set():
        try:
            await until.wait()
        except asyncio.CancelledError:
            continue


def child(  # a spec in one short line
    diary: Diary,
    name: str,
    restart: Restart = Restart.PERMANENT,
    *,
    capacity: int = 100,
    stop_within_s: float = 5.0,
    backoff: Backoff = QUICK,
) -> ChildSpec:
    return ChildSpec(
        name,
        lambda: Worker(diary, name),
        restart=restart,
        capacity=capacity,
        stop_within_s=stop_within_s,
        backoff=backoff,
    )


async def _stop(system: ActorSystem) -> None:
    # What an actor interrupted the system with is for the test's own `run` to see.
    with suppress(KeyboardInterrupt, SystemExit):
        await system.stop()


@asynccontextmanager
async def running(root: ChildSpec, clock: FakeClock) -> AsyncGenerator[ActorSystem, None]:
    """A started system, which is stopped at the end whatever its root did."""
    system = ActorSystem(root, timer=clock, rng=Random(7))
    await system.start()
    try:
        yield system
    finally:
        stopping = asyncio.ensure_future(_stop(system))
        while not stopping.done():
            await clock.advance(1.0)


def custom(name: str, factory: Callable[[], Actor[Message]], *, start_within_s: float = 30.0) -> ChildSpec:
    return ChildSpec(name, factory, backoff=QUICK, start_within_s=start_within_s)
