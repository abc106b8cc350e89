"""The clock of a test: it runs like any other, and jumps ahead when it is told to.

One shift moves all that a worker knows of time: the loop's own time (timers, time-outs, a tool's `asyncio.sleep`), the
clock by which a session is trusted, and what the scripts take for the server's time. The server's time stands still
between two jumps, so that what falls due does not depend on how fast a test runs; the loop's time goes on, so that
nothing hangs that waits for a moment.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Generator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta

from ..leases.clock import BootClock
from ..leases.errors import SettingsError
from ..leases.store import Store


class FakeClock:
    """A clock that only ever goes forward. It is a `Clock` of leases/clock.py."""

    def __init__(self) -> None:
        self._real = BootClock()
        self._ahead_s = 0.0
        self._began_ms = time.time_ns() // 1_000_000
        self._stores: list[Store] = []

    def now_s(self) -> float:
        """Seconds on the holder's own clock, jumps included."""
        return self._real.now_s() + self._ahead_s

    @property
    def now_ms(self) -> int:
        """What the scripts take for the server's time, in milliseconds."""
        return self._began_ms + round(self._ahead_s * 1000)

    @property
    def now(self) -> datetime:
        """The same instant, in UTC."""
        return datetime.fromtimestamp(0, UTC) + timedelta(milliseconds=self.now_ms)

    def rules(self, store: Store) -> None:
        """Have the scripts of a store take this clock's time for the server's."""
        self._stores.append(store)
        self._tell(store)

    def jump(self, seconds: float) -> None:
        """Be later, at once. Whoever waits hears of it when the loop turns next."""
        self._ahead_s += seconds
        for store in self._stores:
            self._tell(store)

    @contextmanager
    def over(self, loop: asyncio.AbstractEventLoop) -> Generator[None, None, None]:
        """Have a loop take its time from this clock while the block runs.

        Raises:
            SettingsError: this kind of loop does not let its time be moved.
        """
        real = loop.time
        before = vars(loop).get("time") if hasattr(loop, "__dict__") else None
        try:
            setattr(loop, "time", lambda: real() + self._ahead_s)  # noqa: B010 - a checker takes it for a method
        except AttributeError:
            what = f"The time of a {type(loop).__module__}.{type(loop).__name__} cannot be moved."
            raise SettingsError(what, next_step="Run the test on one of asyncio's own loops.") from None
        try:
            yield
        finally:
            if before is None:
                delattr(loop, "time")
            else:
                setattr(loop, "time", before)  # noqa: B010 - (the same)

    def _tell(self, store: Store) -> None:
        store.calls.now_ms = store.renewals.now_ms = self.now_ms
