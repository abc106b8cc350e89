"""Which call meets which fault: a rule of seed and key, so that a seed gives the same faults in any order of calls."""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass
from enum import StrEnum

from ...leases.errors import SettingsError


class Fault(StrEnum):
    """What goes wrong the first time that a write is asked for."""

    NONE = "none"
    """Nothing."""
    SLOW = "slow"
    """It is done, and answered late."""
    ERROR_BEFORE = "error_before"
    """Not done, and answered with 500."""
    ERROR_AFTER = "error_after"
    """Done, and answered with 500 all the same."""
    HANG_UP = "hang_up"
    """Done, and the connection is closed without an answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultRule:
    """Draws a fault for a key; rates are fractions of all writes.

    Attributes:
        seed: another seed, other faults.
        slow: rate of `SLOW`.
        error_before: rate of `ERROR_BEFORE`.
        error_after: rate of `ERROR_AFTER`.
        hang_up: rate of `HANG_UP`.

    Raises:
        SettingsError: a rate is not between 0 and 1, or they add up to more than 1.
    """

    seed: int = 0
    slow: float = 0.05
    error_before: float = 0.04
    error_after: float = 0.06
    hang_up: float = 0.06

    def __post_init__(self) -> None:
        """Refuse what is no distribution."""
        rates = [rate for _, rate in self._rates()]
        if not all(math.isfinite(rate) and 0 <= rate <= 1 for rate in rates) or sum(rates) > 1:
            what = "The rates of the airline's faults are not fractions that add up to at most 1."
            raise SettingsError(what, next_step="Give rates between 0 and 1.")

    def fault_of(self, key: str) -> Fault:
        """The fault that this key meets the first time."""
        drawn = self.draw(key, "fault")
        for fault, rate in self._rates():
            if drawn < rate:
                return fault
            drawn -= rate
        return Fault.NONE

    def draw(self, key: str, what: str) -> float:
        """A number from 0 up to 1 that depends on seed, key and purpose only."""
        digest = hashlib.sha256(f"{self.seed}/{what}/{key}".encode()).digest()
        return int.from_bytes(digest[:6], "big") / (1 << 48)

    def _rates(self) -> list[tuple[Fault, float]]:
        return [
            (Fault.SLOW, self.slow),
            (Fault.ERROR_BEFORE, self.error_before),
            (Fault.ERROR_AFTER, self.error_after),
            (Fault.HANG_UP, self.hang_up),
        ]
