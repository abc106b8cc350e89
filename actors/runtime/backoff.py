"""How long a supervisor waits before it starts a crashed child again."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from random import Random

from ...leases.errors import SettingsError


@dataclass(frozen=True, slots=True)
class Backoff:
    """Exponential back-off with full jitter: each delay is drawn evenly between 0 and its ceiling.

    Full jitter, because crashed children share a cause: with a fixed delay all of them would come back in one instant.

    Attributes:
        first_s: ceiling of the first delay, in seconds.
        factor: by how much the ceiling grows with each crash in a row.
        most_s: the highest ceiling, in seconds.
        reset_after_s: a life that lasted this long counts as healthy: the next delay is a first one again.
    """

    first_s: float = 0.1
    factor: float = 2.0
    most_s: float = 30.0
    reset_after_s: float = 60.0

    def __post_init__(self) -> None:
        if self.first_s < 0 or self.factor < 1 or self.most_s < self.first_s:
            what = f"Back-off settings contradict each other: {self}."
            raise SettingsError(what, next_step="Use 0 <= first_s <= most_s and factor >= 1.")

    def ceiling_s(self, attempt: int) -> float:
        """The longest delay before restart number `attempt` in a row, counted from 0."""
        # The exponent is capped: past it every ceiling is most_s anyway, and a float overflows near 2**1024.
        return min(self.most_s, self.first_s * self.factor ** min(attempt, 64))

    def delay_s(self, attempt: int, rng: Random) -> float:
        """The delay before restart number `attempt` in a row, counted from 0."""
        return rng.uniform(0.0, self.ceiling_s(attempt))

    def delays(self, rng: Random) -> Iterator[float]:
        """The delays of crashes in a row, without end."""
        return (self.delay_s(attempt, rng) for attempt in itertools.count())
