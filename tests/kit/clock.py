"""A clock that stands still until a test moves it: the actors' timer without waiting."""

from __future__ import annotations

import asyncio
import heapq
import itertools
from collections.abc import Callable

# Loop turns in which everything that a due call set off has come to rest. Actors hand on at most a few wake-ups each.
TURNS = 50


class Due:
    """A call that is due at `at`."""

    def __init__(self, at: float, callback: Callable[..., object], args: tuple[object, ...]) -> None:
        self.at = at
        self.callback = callback
        self.args = args
        self.cancelled = False

    def cancel(self) -> None:
        self.cancelled = True


class FakeClock:
    """A `Timer` (actors/runtime) in seconds. `await advance(s)` makes every call that falls due, in order of time."""

    def __init__(self, now: float = 1000.0) -> None:
        self.now = now
        self._order = itertools.count()
        self._due: list[tuple[float, int, Due]] = []

    def monotonic(self) -> float:
        return self.now

    def call_later(self, delay_s: float, callback: Callable[..., object], *args: object) -> Due:
        due = Due(self.now + delay_s, callback, args)
        heapq.heappush(self._due, (due.at, next(self._order), due))
        return due

    async def sleep(self, delay_s: float) -> None:
        over: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        due = self.call_later(delay_s, _wake, over)
        try:
            await over
        finally:
            due.cancel()

    @property
    def pending(self) -> int:
        """How many calls are due later."""
        return sum(not due.cancelled for _, _, due in self._due)

    async def advance(self, seconds: float) -> None:
        """Move on by `seconds`, letting the loop come to rest before and after each call that falls due."""
        until = self.now + seconds
        await settle()
        while self._due and self._due[0][0] <= until:
            at, _, due = heapq.heappop(self._due)
            self.now = max(self.now, at)
            if not due.cancelled:
                due.callback(*due.args)
                await settle()
        self.now = until


def _wake(over: asyncio.Future[None]) -> None:
    if not over.done():
        over.set_result(None)


async def settle() -> None:
    """Let everything that can run without time passing run."""
    for _ in range(TURNS):
        await asyncio.sleep(0)
