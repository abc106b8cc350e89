"""Brings a task to its end when it does not come by itself: wait, cancel, cancel again, give up."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final

from .timer import Cancellable, Timer

CANCEL_AGAIN_S: Final = 0.5
CANCELS: Final = 4


class Ending:
    """One deadline for one task.

    One CancelledError is not enough: code that a task waits in can lose it (a time-out that fires in the same instant,
    an `except` that is too wide). So it is sent `CANCELS` times, `CANCEL_AGAIN_S` apart; what then still runs cannot be
    ended by anybody in this process.
    """

    __slots__ = ("_at", "_cancel", "_due", "_give_up", "_sent", "_timer")

    def __init__(self, timer: Timer, *, cancel: Callable[[], None], give_up: Callable[[], None]) -> None:
        self._timer = timer
        self._cancel = cancel
        self._give_up = give_up
        self._due: Cancellable | None = None
        self._at = math.inf
        self._sent = 0

    @property
    def begun(self) -> bool:
        """True once a cancel has been sent."""
        return self._sent > 0

    def within(self, delay_s: float) -> None:
        """Begin to cancel after `delay_s` seconds (0: now; infinity: never). The soonest of several counts."""
        at = self._timer.monotonic() + delay_s
        if self._sent or at >= self._at:
            return
        self.disarm()
        self._at = at
        if delay_s <= 0:
            self._push()
        else:
            self._due = self._timer.call_later(delay_s, self._push)

    def disarm(self) -> None:
        """Call the deadline off."""
        self._at = math.inf
        if self._due is not None:
            self._due.cancel()
            self._due = None

    def _push(self) -> None:
        if self._sent == CANCELS:
            self._give_up()
            return
        self._sent += 1
        self._cancel()
        self._due = self._timer.call_later(CANCEL_AGAIN_S, self._push)
