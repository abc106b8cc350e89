"""How an actor and everything below it stands now, as plain values for a person to look at."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class ActorState(StrEnum):
    """Where an actor is between its birth and its end."""

    NEW = "new"
    """Has its Ref; has not been started."""
    STARTING = "starting"
    """Its `started` hook runs."""
    RUNNING = "running"
    """Takes messages."""
    STOPPING = "stopping"
    """Told to end; its last message or last hook runs."""
    WAITING = "waiting"
    """Its life has ended, and its supervisor is about to start the next. Messages queue up."""
    STOPPED = "stopped"
    """Ended for good."""
    DETACHED = "detached"
    """Did not end when cancelled: its coroutine may still run."""


@dataclass(frozen=True, slots=True)
class ActorSnapshot:
    """One actor.

    Attributes:
        path: as `/worker/hosts/host-0`.
        state: where it is.
        depth: messages that wait in its mailbox.
        capacity: bound of its mailbox.
        restarts: lives after the first.
        last_error: class of the last error that ended a life, or None.
        age_s: seconds since its last life began; 0 before the first.
        failed_s_ago: seconds since that error, or None.
        children: those below it, in start order.
    """

    path: str
    state: ActorState
    depth: int
    capacity: int
    restarts: int
    last_error: str | None
    age_s: float = 0.0
    failed_s_ago: float | None = None
    children: tuple[ActorSnapshot, ...] = ()
