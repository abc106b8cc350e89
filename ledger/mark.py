"""Records decisions and points of no return before the first byte of an effect leaves."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from ..leases.channel import Channel
from ..leases.scripts import scripted
from .replies import text, words
from .states import Boundary


class MarkReply(StrEnum):
    """What the store says of a batch of marks, and of each."""

    OK = "ok"
    """The session stands; a word for each mark follows."""
    LOST = "lost"
    """The session has ended: no effect of it may start."""
    EPOCH = "epoch"
    """The data set changed: no effect may start."""
    MARKED = "marked"
    """Recorded: the effect may start."""
    STOPPED = "stopped"
    """Refused: a cancel was asked for, or the deadline has passed; nothing was sent, so it is given back."""
    STALE = "stale"
    """The attempt is not the current one: its effect must not start."""
    MISSING = "missing"
    """No such row: its effect must not start."""
    CORRUPT = "corrupt"
    """The row is not ours: its effect must not start."""


class MarkItem(NamedTuple):
    """One mark, as `mark.lua` takes it."""

    id: str
    fence: str
    boundary: str
    ref: str


@scripted("mycelium.ledger", "mark", MarkReply)
def mark_script(*, session: str, epoch: int, item: Sequence[MarkItem]) -> None:
    """Stub of `mark.lua`."""


@dataclass(frozen=True, slots=True)
class Mark:
    """One attempt's boundary, or the provider's handle of its operation, to be recorded.

    Attributes:
        request_id: the transition.
        fence: the attempt's fence.
        boundary: how far the attempt is about to come; it only moves forward.
        ref: the provider's handle; empty: none.
    """

    request_id: str
    fence: str
    boundary: Boundary
    ref: str = ""


async def mark(
    calls: Channel, marks: Sequence[Mark], *, session_id: str, epoch: int, patience_s: float = 5.0
) -> list[MarkReply]:
    """Record marks; only `marked` allows an effect to start (E2).

    Args:
        calls: the channel for job traffic.
        marks: the attempts' boundaries.
        session_id: the holder.
        epoch: the epoch in which it opened its session.
        patience_s: how long to ask again when the server is away.

    Returns:
        One word a mark. A lost session or epoch is the word of each of them.

    Raises:
        ServerError: the server could not be asked; asking again is safe.
    """
    items = [MarkItem(m.request_id, m.fence, m.boundary, m.ref) for m in marks]
    command = mark_script(session=session_id, epoch=epoch, item=items)
    word, *rest = words(await calls.run(command, patience_s=patience_s))
    standing = MarkReply(text(word))
    if standing is not MarkReply.OK:
        return [standing] * len(items)
    return [MarkReply(text(value)) for value in rest]
