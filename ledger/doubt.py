"""Shows what is in doubt: a ready row that may have been sent, and may not be sent again, becomes unknown."""

from __future__ import annotations

from enum import StrEnum

from ..leases.channel import Channel
from ..leases.scripts import scripted
from .replies import text, words


class DoubtReply(StrEnum):
    """What the store says of one such row."""

    UNKNOWN = "unknown"
    """It is unknown."""
    CHANGED = "changed"
    """It has moved on, or nothing is in doubt: nothing was changed."""
    MISSING = "missing"
    """No such row."""
    CORRUPT = "corrupt"
    """The row is not ours."""


@scripted("mycelium.ledger", "doubt", DoubtReply)
def doubt_script(*, request_id: str, expect: str, error: str) -> None:
    """Stub of `doubt.lua`."""


async def doubt_if_unsendable(calls: Channel, request_id: str, *, version: str, error: str) -> DoubtReply:
    """Make a ready row in doubt unknown, if it still is as it was shown.

    Args:
        calls: the channel for job traffic.
        request_id: the transition.
        version: digits: its version as it was shown.
        error: why it may not be sent again, as a reason word.

    Raises:
        ServerError: the store could not be asked.
    """
    return DoubtReply(text(words(await calls.run(doubt_script(request_id=request_id, expect=version, error=error)))[0]))
