"""The holder's own clock: local durations only, on a clock that runs while the machine is suspended (T1, L7)."""

from __future__ import annotations

import time
from typing import Protocol

# CLOCK_MONOTONIC stands still in suspend on Linux, so that a laptop would wake up believing its lease fresh.
_BOOTTIME = getattr(time, "CLOCK_BOOTTIME", None)


class Clock(Protocol):
    """A source of local instants; only differences of them mean anything."""

    def now_s(self) -> float:
        """Seconds since some fixed point, suspend included."""
        ...


class BootClock:
    """The clock of this machine: CLOCK_BOOTTIME where there is one, else the monotonic clock."""

    def now_s(self) -> float:
        """Seconds since the machine started, suspend included where the system counts it."""
        if _BOOTTIME is None:
            return time.monotonic()
        return time.clock_gettime(_BOOTTIME)
