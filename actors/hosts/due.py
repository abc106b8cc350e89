"""When each run of a host is past its time, as the control process knows it: a deaf host cannot tell."""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass

from .frames import Run


@dataclass(slots=True)
class _Clock:
    run: Run
    grace_s: float
    end_s: float = math.inf
    silent_s: float = math.inf
    """When it has reported no progress for too long."""

    def begin(self, now_s: float) -> None:
        self.end_s = now_s + self.run.timeout_s + self.grace_s
        self.hear(now_s)

    def hear(self, now_s: float) -> None:
        if self.run.idle_timeout_s and self.end_s < math.inf:
            self.silent_s = now_s + self.run.idle_timeout_s + self.grace_s


class Due:
    """The runs that a host has, by slot, and until when it may have each.

    Runs of tools that run one at a time wait in a line inside their host, in the order in which they were sent: the
    time of each begins when the one before it has ended. All instants are those of the control process's loop.
    """

    def __init__(self) -> None:
        self._clocks: dict[int, _Clock] = {}
        self._line: deque[int] = deque()

    def __contains__(self, slot: int) -> bool:
        """Whether the slot is taken."""
        return slot in self._clocks

    def __len__(self) -> int:
        """How many slots are taken."""
        return len(self._clocks)

    def add(self, run: Run, now_s: float, *, grace_s: float, in_line: bool = False) -> None:
        """A run was sent.

        Args:
            run: what was sent.
            now_s: when.
            grace_s: seconds that it may take beyond its timeouts.
            in_line: it begins only when those before it in the line have ended.
        """
        clock = self._clocks[run.slot] = _Clock(run, grace_s)
        if in_line:
            self._line.append(run.slot)
        if not in_line or self._line[0] == run.slot:
            clock.begin(now_s)

    def end(self, slot: int, now_s: float) -> None:
        """A run has ended: its slot is free."""
        del self._clocks[slot]
        if slot not in self._line:
            return
        first = self._line[0] == slot
        self._line.remove(slot)
        if first and self._line:
            self._clocks[self._line[0]].begin(now_s)

    def hear(self, slot: int, now_s: float) -> None:
        """A run has told how far it is: its idle time begins anew."""
        self._clocks[slot].hear(now_s)

    def stands(self, slot: int, fence: str) -> bool:
        """Whether the slot has the run of this fence now."""
        clock = self._clocks.get(slot)
        return clock is not None and clock.run.fence == fence != ""

    def run_in(self, slot: int) -> Run | None:
        """What runs in a slot, if anything does."""
        clock = self._clocks.get(slot)
        return None if clock is None else clock.run

    def overdue(self, now_s: float) -> tuple[int, ...]:
        """The slots whose runs are past their time."""
        return tuple(slot for slot, clock in self._clocks.items() if min(clock.end_s, clock.silent_s) <= now_s)

    def next_s(self) -> float:
        """When the first of them is past its time, if it tells nothing more."""
        return min((min(clock.end_s, clock.silent_s) for clock in self._clocks.values()), default=math.inf)

    def clear(self) -> None:
        """The host has ended, and everything in it."""
        self._clocks.clear()
        self._line.clear()
