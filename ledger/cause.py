"""Why a transition ended without a result, though nobody recorded a failure as its end."""

from __future__ import annotations

from enum import StrEnum


class Cause(StrEnum):
    """What ended a dead or a cancelled transition."""

    ATTEMPTS = "attempts"
    """Dead: it failed as often as it may."""
    DEATHS = "deaths"
    """Dead: as many hosts or sessions ended under it as may."""
    TIMEOUTS = "timeouts"
    """Dead: it was past its time as often as it may."""
    EXPIRED = "expired"
    """Cancelled: it had not started by the time at which it had to."""
    DEADLINE = "deadline"
    """Cancelled: its deadline passed before it ended."""
    CANCELLED = "cancelled"
    """Cancelled: somebody asked for it."""


def read_cause(word: str) -> Cause | None:
    """Read a stored word; None: it says nothing that is known here."""
    return Cause(word) if word in set(Cause) else None
