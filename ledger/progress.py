"""Keeps how far running attempts say they have come, for waiters and for people. Nothing is decided by it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

import msgspec

from ..leases.channel import Channel
from ..leases.scripts import scripted
from ..leases.store import Store
from .replies import text, words

MAX_NOTE = 200


class ProgressReply(StrEnum):
    """What the store says of the progress of attempts."""

    OK = "ok"
    """Each was looked at."""
    TOLD = "told"
    """It is kept."""
    STALE = "stale"
    """Another attempt holds the transition, or nobody does."""


class ProgressItem(NamedTuple):
    """How far one attempt has come, as `progress.lua` takes it."""

    id: str
    fence: str
    told: str

    def __repr__(self) -> str:
        # Notes are the tool's own words, and a repr ends up in logs.
        return f"<progress of {self.id!r}>"


@scripted("mycelium.ledger", "progress", ProgressReply)
def progress_script(*, session: str, item: Sequence[ProgressItem]) -> None:
    """Stub of `progress.lua`."""


@dataclass(frozen=True, slots=True)
class Progress:
    """How far an attempt has come, in its own words.

    Attributes:
        done: how much is done.
        total: of how much; None: it did not say.
        note: a few words, at most 200 characters.
        at_ms: server milliseconds at which it was heard.
    """

    done: float
    total: float | None = None
    note: str = ""
    at_ms: int = 0

    def __repr__(self) -> str:
        # The note is the tool's own words, and a repr ends up in logs.
        return f"<progress {self.done:g} of {'?' if self.total is None else f'{self.total:g}'}>"

    @property
    def share(self) -> float | None:
        """How much of it is done, from 0 to 1; None: nobody can say."""
        return min(1.0, max(0.0, self.done / self.total)) if self.total else None


async def tell_progress(calls: Channel, session_id: str, told: Sequence[tuple[str, str, Progress]]) -> list[bool]:
    """Keep how far attempts have come.

    Args:
        calls: the channel for job traffic.
        session_id: the holder.
        told: request id, fence and progress of each.

    Returns:
        Whether each was kept.

    Raises:
        ServerError: the store could not be asked.
    """
    item = [
        ProgressItem(
            request_id,
            fence,
            msgspec.json.encode([one.done, one.total, one.note[:MAX_NOTE]]).decode(),
        )
        for request_id, fence, one in told
    ]
    _, *said = words(await calls.run(progress_script(session=session_id, item=item)))
    return [text(word) == ProgressReply.TOLD for word in said]


def read_told(field: str) -> Progress | None:
    """Read what a row has; what cannot be read says nothing."""
    at_ms, _, body = field.partition(" ")
    try:
        done, total, note = msgspec.json.decode(body, type=tuple[float, float | None, str])
        return Progress(done, total, note, int(at_ms))
    except (msgspec.DecodeError, ValueError):
        return None


async def read_progress(store: Store, request_id: str) -> Progress | None:
    """Read how far a transition has come; None: nothing was told of it.

    Raises:
        ServerError: the store could not be asked.
    """
    told = await store.calls.read("HGET", store.keys.row(request_id), "progress")
    return None if told is None else read_told(text(told))
