"""Makes the recorded calls again: each run in its order, many runs at once, and a few workers' deaths in between."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Protocol

from .calls import RecordedCall, by_run
from .http_client import AirlineClient
from .score import Ending
from .stage import LOOK_EVERY_S, Actor, Stage

PARALLEL_RUNS = 40
CATCH_LIMIT_S = 3.0
"""How long a kill waits for the moment at which its victim has a write in flight."""


class Way(Protocol):
    """A way to run calls: the product's, or the naive one."""

    async def start_worker(self, stage: Stage, number: int) -> Actor:
        """Start one worker process."""
        ...

    async def wait_for_workers(self, stage: Stage, number: int) -> None:
        """Wait until so many workers take calls."""
        ...

    async def perform(self, call: RecordedCall) -> Ending:
        """Run one call, and tell how it ended."""
        ...

    async def bury(self, worker: Actor) -> None:
        """Do what is done by hand after a worker was killed."""
        ...

    async def unknown_now(self) -> int:
        """How many calls are in doubt at this moment."""
        ...

    async def review(self, endings: dict[str, Ending]) -> dict[str, Ending]:
        """Look at the endings once more when all calls are over."""
        ...


@dataclass(slots=True)
class Tally:
    """How far the replay is.

    Attributes:
        calls: all of them.
        done: those that ended.
        unknown: those in doubt at this moment.
        killed: workers killed.
    """

    calls: int
    done: int = 0
    unknown: int = 0
    killed: int = 0


Tell = Callable[[Tally], None]


class Replay:
    """One replay on a stage that stands.

    Args:
        stage: the server and the airline.
        way: how calls are run.
        calls: what is replayed.
        kills: how many workers are killed on the way.
        tell: hears of progress.
    """

    def __init__(self, stage: Stage, way: Way, calls: list[RecordedCall], *, kills: int, tell: Tell) -> None:
        self.tally = Tally(len(calls))
        self._stage = stage
        self._way = way
        self._calls = calls
        self._kills = kills
        self._tell = tell
        self._workers: list[Actor] = []
        self._endings: dict[str, Ending] = {}
        self._over = False

    async def run(self, *, workers: int) -> dict[str, Ending]:
        """Start workers, make every call, and give the endings by key.

        Raises:
            MyceliumError: a process ended by itself.
        """
        self._workers = [await self._way.start_worker(self._stage, number + 1) for number in range(workers)]
        directing = asyncio.create_task(self._direct())
        making = asyncio.create_task(self._make_all(workers))
        try:
            await asyncio.wait({directing, making}, return_when=asyncio.FIRST_COMPLETED)
            # A process that ended explains more than what its end broke.
            self._stage.check()
            if directing.done():
                await directing
            await making
            self._over = True
            await directing
        finally:
            for task in (directing, making):
                task.cancel()
                with suppress(asyncio.CancelledError, Exception):
                    await task
        self._tell(self.tally)
        return await self._way.review(self._endings)

    async def _make_all(self, workers: int) -> None:
        await self._way.wait_for_workers(self._stage, workers)
        at_once = asyncio.Semaphore(PARALLEL_RUNS)

        async def make(run: list[RecordedCall]) -> None:
            async with at_once:
                for call in run:
                    self._endings[call.key] = await self._way.perform(call)
                    self.tally.done += 1

        try:
            async with asyncio.TaskGroup() as runs:
                for run in by_run(self._calls):
                    runs.create_task(make(run))
        except ExceptionGroup as group:
            # What one run met, the others met as well: one is told.
            raise group.exceptions[0] from group

    async def _direct(self) -> None:
        """Watch the processes, tell of progress, and kill workers at evenly spaced points, until all calls ended."""
        airline = AirlineClient(self._stage.airline_url, name="demo")
        while not self._over:
            self._stage.check()
            self.tally.unknown = await self._way.unknown_now()
            self._tell(self.tally)
            if self.tally.killed < self._kills and self.tally.done >= self._next_kill_at():
                await self._kill_one(airline)
            await asyncio.sleep(LOOK_EVERY_S)
        await airline.aclose()

    def _next_kill_at(self) -> int:
        return self.tally.calls * (self.tally.killed + 1) // (self._kills + 1)

    async def _kill_one(self, airline: AirlineClient) -> None:
        at = self.tally.killed % len(self._workers)
        victim = self._workers[at]
        with suppress(TimeoutError):
            async with asyncio.timeout(CATCH_LIMIT_S):
                while not self._over and not await _has_write_in_flight(airline, victim):  # noqa: ASYNC110 - it is another process
                    await asyncio.sleep(LOOK_EVERY_S / 4)
        if self._over:
            return
        await victim.kill()
        self.tally.killed += 1
        self._workers[at] = await self._way.start_worker(self._stage, len(self._workers) + self.tally.killed)
        await self._way.bury(victim)


async def _has_write_in_flight(airline: AirlineClient, worker: Actor) -> bool:
    try:
        in_flight = (await airline.stats()).get("writes_in_flight")
    except OSError:
        return False
    return isinstance(in_flight, dict) and str(worker.pid) in in_flight
