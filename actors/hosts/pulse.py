"""Whether a host's loop answers: one that does not is busy, not dead."""

from __future__ import annotations

from .frames import Pong

PING_EVERY_S = 1.0


class Pulse:
    """Keeps one ping on its way at a time.

    Args:
        busy_after_s: seconds of silence after which the host counts as busy.

    Attributes:
        lag_s: how late the host's loop was at worst, as its last pong told.
        busy: it has been silent for too long.
    """

    def __init__(self, busy_after_s: float) -> None:
        self.lag_s = 0.0
        self.busy = False
        self._busy_after_s = busy_after_s
        self._number = 0
        self._sent_s = -PING_EVERY_S
        self._waits = False

    def next_ping(self, now_s: float) -> int | None:
        """The number of the ping to send now; None: one is on its way, or it is not time yet."""
        if self._waits or now_s - self._sent_s < PING_EVERY_S:
            return None
        self._number += 1
        self._sent_s, self._waits = now_s, True
        return self._number

    def silent_s(self, now_s: float) -> float:
        """For how long a ping has had no answer; 0: none is on its way."""
        return now_s - self._sent_s if self._waits else 0.0

    def falls_silent(self, now_s: float) -> bool:
        """Whether the host becomes busy by now; said once for each silence."""
        if self.busy or self.silent_s(now_s) < self._busy_after_s:
            return False
        self.busy = True
        return True

    def hear(self, pong: Pong, now_s: float) -> float | None:
        """Take an answer; tell how long a busy host was silent, or None if it was not busy."""
        if pong.n != self._number or not self._waits:
            return None
        silent_s = self.silent_s(now_s) if self.busy else None
        self.lag_s = pong.lag_s
        self.busy = self._waits = False
        return silent_s
