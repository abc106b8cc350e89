"""What the owner of a tool host is told of it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from .frames import Answer, Done, Mark, Pong, Progress


class ExitReason(StrEnum):
    """Why a host ended, as far as the control process knows."""

    CRASHED = "crashed"
    """By itself, or by somebody else's signal."""
    MEMORY = "memory"
    """Ended by us: above its memory limit."""
    OVERDUE = "overdue"
    """Ended by us: a run did not end within its timeout and the grace."""
    CANCELLED = "cancelled"
    """Ended by us: a run that had it to itself was cancelled."""
    LEFTOVER = "leftover"
    """Ended by us: a run that had it to itself has failed, and tasks that it started had not ended."""
    RECYCLED = "recycled"
    """Ended by us: it had run enough, or grown too much, and nothing ran in it any more."""
    GARBLED = "garbled"
    """Ended by us: it sent something that is no frame."""
    KILLED = "killed"
    """Ended by us: `kill()`."""
    STOPPED = "stopped"
    """Ended by us: its worker ends, or the grace of what it ran was over."""


@dataclass(frozen=True, slots=True)
class HostExit:
    """The end of a host. Its process group is gone: nothing of it runs any more.

    Attributes:
        returncode: exit code, or minus the signal.
        signal: the signal that ended it, or None.
        why: who ended it.
        overdue: slots whose runs were past timeout and grace; for the others the host's end is an accident.
    """

    returncode: int
    signal: int | None
    why: ExitReason
    overdue: tuple[int, ...] = ()


class HostListener(Protocol):
    """Whoever owns a host. All calls come on the loop, in the order in which things happened."""

    def on_done(self, done: Done) -> None:
        """A run has ended; its slot is free."""

    def on_mark(self, mark: Mark) -> None:
        """A tool waits until `mark_reply` answers this mark."""

    def on_answer(self, answer: Answer) -> None:
        """A reconciler has answered an `Ask`."""

    def on_pong(self, pong: Pong) -> None:
        """The host's loop is alive."""

    def on_progress(self, progress: Progress) -> None:
        """A run has told how far it is."""

    def on_busy(self) -> None:
        """The host's loop does not answer: it is busy, not dead."""

    def on_answers(self, silent_s: float) -> None:
        """A host that was busy for so many seconds answers again."""

    def on_exit(self, reason: HostExit) -> None:
        """The host has ended. Called one time, after everything that it sent. Not called if `start` raised."""
