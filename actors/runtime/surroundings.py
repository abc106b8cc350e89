"""What all actors of one system share: the clock, chance, and who is where."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from typing import Any

from .ref import Ref
from .snapshot import ActorSnapshot
from .timer import LoopTimer, Timer


@dataclass(slots=True)
class Surroundings:
    """One for each system.

    Attributes:
        timer: the clock of every deadline, tick and back-off.
        rng: the source of all jitter.
        directory: path → Ref of every actor that has not ended for good.
        last_logged: the error that was logged last: on its way up through the supervisors it is not logged again.
        snapshot: how the whole tree stands now; set by the system.
        failure_watchers: who is told of every life that ends by an error.
        detached: tasks that would not end; held, so that they cannot vanish half-way.
    """

    timer: Timer = field(default_factory=LoopTimer)
    rng: Random = field(default_factory=Random)
    directory: dict[str, Ref[Any]] = field(default_factory=dict[str, Ref[Any]])
    last_logged: BaseException | None = None
    snapshot: Callable[[], ActorSnapshot] | None = None
    failure_watchers: dict[Ref[Any], None] = field(default_factory=dict[Ref[Any], None])
    detached: set[asyncio.Task[Any]] = field(default_factory=set[asyncio.Task[Any]])
