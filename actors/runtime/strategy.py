"""Who is restarted with a failed child, and how many failures are too many."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from ...leases.errors import SettingsError
from .spec import ChildSpec


class Strategy(StrEnum):
    """Whom a failed child takes with it."""

    ONE_FOR_ONE = "one_for_one"
    """Nobody: children are independent."""
    ONE_FOR_ALL = "one_for_all"
    """All: no child is of use without the others."""
    REST_FOR_ONE = "rest_for_one"
    """Those that were started after it: they build on it."""

    def affected(self, names: Sequence[str], failed: str) -> list[str]:
        """The names to start again when `failed` has failed, in start order."""
        if self is Strategy.ONE_FOR_ALL:
            return list(names)
        if self is Strategy.REST_FOR_ONE:
            return list(names[names.index(failed) :])
        return [failed]


@dataclass(frozen=True, slots=True)
class Intensity:
    """How many restarts a supervisor bears. One more, and it gives up to its own supervisor.

    Attributes:
        max_restarts: restarts of all its children within `within_s` seconds: a storm.
        within_s: that window.
        in_a_row: restarts of one child with no healthy life (`Backoff.reset_after_s`) in between: one that fails slowly
            is never a storm, and yet does no work.
    """

    max_restarts: int = 3
    within_s: float = 5.0
    in_a_row: int = 10

    def check(self, spec: ChildSpec) -> None:
        """Refuse a child whose back-off would spread a storm so thin that it is never seen as one.

        Raises:
            SettingsError: the delays of a child that always crashes are longer than the window.
        """
        spread_s = sum(spec.backoff.ceiling_s(attempt) for attempt in range(self.max_restarts))
        if spread_s >= self.within_s:
            raise SettingsError(
                f"The child {spec.name!r} could crash for ever: {self.max_restarts} restarts with its back-off take up "
                f"to {spread_s:.3g} s, and only those within {self.within_s:.3g} s are counted.",
                next_step="Raise within_s, or lower max_restarts or the back-off's first_s.",
            )


class RestartCount:
    """The restarts of one supervisor within the window."""

    __slots__ = ("_at", "_intensity")

    def __init__(self, intensity: Intensity) -> None:
        self._intensity = intensity
        self._at: deque[float] = deque()

    def one_more(self, now_s: float) -> bool:
        """Count a restart at `now_s`; False when it is one too many."""
        self._at.append(now_s)
        while self._at[0] <= now_s - self._intensity.within_s:
            self._at.popleft()
        return len(self._at) <= self._intensity.max_restarts
