"""A periodic call that takes its turn among an actor's messages."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from random import Random

from ...leases.errors import SettingsError
from .timer import Cancellable, Timer


class Ticking:
    """Calls `fn` every so often, never two at once and never beside a message.

    When due it puts itself ahead of the waiting messages. The next interval begins when `fn` has returned, so slow
    ticks do not pile up; jitter keeps the processes of a fleet out of lockstep.
    """

    __slots__ = ("_due", "_fn", "_interval_s", "_jitter", "_post", "_rng", "_timer", "cancelled")

    def __init__(  # noqa: PLR0913 - made in one place only
        self,
        interval_s: float,
        fn: Callable[[], Awaitable[object]],
        *,
        jitter: float,
        timer: Timer,
        rng: Random,
        post: Callable[[object], None],
    ) -> None:
        if interval_s <= 0 or not 0 <= jitter < 1:
            what = f"A tick every {interval_s} s with a jitter of {jitter} is not possible."
            raise SettingsError(what, next_step="Use interval_s > 0 and 0 <= jitter < 1.")
        self._interval_s = interval_s
        self._fn = fn
        self._jitter = jitter
        self._timer = timer
        self._rng = rng
        self._post = post
        self._due: Cancellable | None = None
        self.cancelled = False

    def arm(self) -> None:
        """Be due one jittered interval from now."""
        spread = 1.0 + self._jitter * self._rng.uniform(-1.0, 1.0)
        self._due = self._timer.call_later(self._interval_s * spread, self._post, self)

    def cancel(self) -> None:
        """Tick no more; a tick that is due already is skipped."""
        self.cancelled = True
        if self._due is not None:
            self._due.cancel()

    async def run(self) -> None:
        """One tick, in the actor's turn."""
        if self.cancelled:
            return
        await self._fn()
        if not self.cancelled:
            self.arm()
