"""How a supervisor is to treat one child."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from ...leases.errors import SettingsError
from .actor import Actor
from .backoff import Backoff
from .messages import StopReason


class Restart(StrEnum):
    """Which ends of a child's life are followed by a new one."""

    PERMANENT = "permanent"
    """Always, also after it stopped itself."""
    TRANSIENT = "transient"
    """After a crash only."""
    TEMPORARY = "temporary"
    """Never; its end is not counted as a failure, and the supervisor forgets it."""

    def follows(self, reason: StopReason) -> bool:
        """True when a life that ended for `reason` is followed by a new one."""
        if self is Restart.TRANSIENT:
            return reason is not StopReason.NORMAL
        return self is Restart.PERMANENT


@dataclass(frozen=True, slots=True)
class ChildSpec:
    """One child of a supervisor.

    Attributes:
        name: unique among its siblings; the last part of its path.
        factory: makes a fresh instance for every life.
        restart: which ends are followed by a new life.
        stop_within_s: seconds it has to finish its message and its `stopping` hook. Then it is cancelled, repeatedly
            for two seconds; then it is left behind, with one loud log line: a coroutine cannot be killed.
        start_within_s: seconds that `started` has; more is a failure to start.
        backoff: the delays before restarts.
        capacity: bound of its mailbox, in messages.
        ends: for the reader: what really ends it (say, "closing its socket ends the read that it waits in").
    """

    name: str
    factory: Callable[[], Actor[Any]]
    restart: Restart = Restart.PERMANENT
    stop_within_s: float = 5.0
    start_within_s: float = 30.0
    backoff: Backoff = field(default_factory=Backoff)
    capacity: int = 1024
    ends: str = "its handlers return within stop_within_s"

    def __post_init__(self) -> None:
        if not self.name or "/" in self.name:
            what = f"{self.name!r} is no name for an actor."
            raise SettingsError(what, next_step="Use a name without slashes.")
        if self.stop_within_s < 0 or self.start_within_s <= 0 or self.capacity < 1:
            what = f"The child {self.name!r} has settings out of range."
            raise SettingsError(what, next_step="Use stop_within_s >= 0, start_within_s > 0 and capacity >= 1.")
