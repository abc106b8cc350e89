"""How the jobs of a tool wait and run, where its binding says what effect they have."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum
from typing import cast

from ..leases.errors import SettingsError, ToolDeclarationError
from ..ledger.limits import MAX_LIMITS, Concurrency, Limit, Rate
from ..ledger.line import DEFAULT_QUEUE, Priority, checked_queue

_CORRECT = "Correct the declaration of the tool."


class Isolation(StrEnum):
    """What a body shares with others, from the most to the least."""

    HOST = "host"
    """A coroutine shares its host's loop. A plain function runs in its host one at a time: for code that is not safe in
    several threads."""
    THREAD = "thread"
    """A plain function runs in a thread of its host, beside others."""
    PROCESS = "process"
    """It has a process to itself while it runs, which a timeout or a cancel ends."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """How the jobs of one tool wait and run, if a call does not say otherwise.

    Attributes:
        queue: the queue that its jobs wait in.
        priority: how soon they are taken within the queue.
        isolation: what a body shares with others; None: `host` for a coroutine, `thread` for a plain function.
        idle_timeout_s: an attempt that reports no progress for so many seconds is past its time; `timeout_s` of the
            binding stays the most that it may take in all. None: no such limit.
        limits: what the fleet shares: see `Concurrency` and `Rate`.

    Raises:
        ToolDeclarationError: a value is none of its kind.
    """

    queue: str = DEFAULT_QUEUE
    priority: Priority = Priority.NORMAL
    isolation: Isolation | None = None
    idle_timeout_s: float | None = None
    limits: tuple[Limit, ...] = ()

    def __post_init__(self) -> None:
        """Take words for their members and refuse what cannot hold."""
        try:
            checked_queue(self.queue)
            object.__setattr__(self, "priority", Priority(self.priority))
            if self.isolation is not None:
                object.__setattr__(self, "isolation", Isolation(self.isolation))
            object.__setattr__(self, "limits", tuple(self.limits))
        except (SettingsError, ValueError, TypeError) as error:
            raise ToolDeclarationError(f"{error}".rstrip(".") + ".", next_step=_CORRECT) from None
        if self.idle_timeout_s is not None and not 0 < self.idle_timeout_s < math.inf:
            raise ToolDeclarationError("idle_timeout_s must be above 0 seconds, and finite.", next_step=_CORRECT)
        given = cast("tuple[object, ...]", self.limits)
        if len(given) > MAX_LIMITS or not all(isinstance(limit, (Concurrency, Rate)) for limit in given):
            what = f"limits are at most {MAX_LIMITS} of Concurrency and Rate."
            raise ToolDeclarationError(what, next_step=_CORRECT)
