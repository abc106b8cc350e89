"""What the runtime itself says: why an actor ended, and the message that watchers get."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol


class StopReason(StrEnum):
    """Why one life of an actor ended."""

    NORMAL = "normal"
    """The actor stopped itself: its work is done."""
    SHUTDOWN = "shutdown"
    """Its supervisor or the system stopped it."""
    RESTART = "restart"
    """Stopped to be started again, because a sibling or its supervisor failed."""
    CRASHED = "crashed"
    """A hook, a handler or a background task raised an exception."""
    CANCELLED = "cancelled"
    """Somebody outside cancelled its task, as the loop does when it shuts down."""
    FATAL = "fatal"
    """KeyboardInterrupt, SystemExit or their like: the whole system has to end."""
    DETACHED = "detached"
    """It did not end when told, nor when cancelled: its coroutine may still run."""


@dataclass(frozen=True, slots=True)
class Exit:
    """How one life of an actor ended."""

    reason: StopReason
    error: BaseException | None = None


class Addressed(Protocol):
    """What a watcher needs to know an actor by. Every Ref is one."""

    @property
    def name(self) -> str:
        """The last part of the path."""
        raise NotImplementedError

    @property
    def path(self) -> str:
        """The whole path, as `/worker/hosts/host-0`."""
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class Terminated:
    """Told to every watcher, once, when an actor has ended for good. A restart is not an end.

    It overtakes what waits in the watcher's mailbox and is never refused by a full one.

    Attributes:
        ref: the Ref that was watched (the same object).
        reason: why it ended. After `DETACHED` its coroutine may still run.
        error: name of the error's class, or None.
    """

    ref: Addressed
    reason: StopReason
    error: str | None = None


@dataclass(frozen=True, slots=True)
class Failed:
    """Told to whoever watches failures, when a life anywhere in the system has ended by an error.

    Attributes:
        path: whose life it was.
        error: name of the error's class.
    """

    path: str
    error: str


@dataclass(frozen=True, slots=True)
class Refusal:
    """Returned by `receive` to refuse an ask: the asker gets `error` raised, and the actor goes on.

    To raise in `receive` says that the actor itself is broken, and restarts it.
    """

    error: Exception
