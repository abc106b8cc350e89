"""Collects the processes that a worker inherits where it is process 1, as in a container without an init.

A host's guardian, and whatever a tool has left behind, is then a child of the worker that it never started: ended, it
would stay in the process table as long as the container runs.
"""

from __future__ import annotations

import asyncio
import os
from contextlib import suppress
from pathlib import Path

LOOK_S = 5.0


async def collect_orphans() -> None:
    """Collect for ever, where this is process 1; elsewhere somebody else inherits, and this ends at once."""
    seen: frozenset[int] = frozenset()
    while os.getpid() == 1:
        seen = collect(seen)
        await asyncio.sleep(LOOK_S)


def collect(seen: frozenset[int]) -> frozenset[int]:
    """Collect the ended children that had ended at the last look already, and give those that have ended since.

    Whoever starts a child here collects it at once when it ends. So one that is still there at the next look is
    nobody's, and no exit status is taken from anybody.
    """
    ended = ended_children()
    for pid in ended & seen:
        with suppress(ChildProcessError):
            os.waitpid(pid, os.WNOHANG)
    return ended - seen


def ended_children() -> frozenset[int]:
    """Children of this process that have ended and were not collected; none where the system does not tell."""
    me = str(os.getpid())
    return frozenset(int(place.name) for place in Path("/proc").glob("[0-9]*") if _stat(place)[:2] == ["Z", me])


def _stat(place: Path) -> list[str]:
    try:
        # The name before it is in brackets, and may hold anything.
        return (place / "stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
    except OSError:
        return []
