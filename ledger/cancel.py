"""Cancels a transition: what has not begun ends, what is held is asked to stop, what may be sent is found out."""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from enum import StrEnum

from ..leases.errors import BadCallError, ScriptError
from ..leases.scripts import scripted
from ..leases.store import Store
from .refusals import not_on_record
from .replies import text, words
from .signature import MOST_BY, MOST_REASON, one_line
from .states import State

CANCEL_BELL = b"cancel"
"""What the bell says when a holder is asked to cancel something."""


class CancelReply(StrEnum):
    """What the store says of a cancel."""

    CANCELLED = "cancelled"
    """It never ran, and will not."""
    ASKED = "asked"
    """Somebody holds it, and is asked to stop. Where nothing was sent it ends cancelled; else it is found out."""
    UNKNOWN = "unknown"
    """It may have had its effect: whatever is found out, it is not run again."""
    ENDED = "ended"
    """It had ended; nothing was written."""
    MISSING = "missing"
    """No such row."""
    CORRUPT = "corrupt"
    """The row is not ours."""


@scripted("mycelium.ledger", "cancel", CancelReply)
def cancel_script(*, op: str, request_id: str, by: str, reason: str) -> None:
    """Stub of `cancel.lua`."""


@dataclass(frozen=True, slots=True)
class Cancelled:
    """What became of a cancel.

    Attributes:
        request_id: the transition.
        word: what was done.
        state: where it stands.
    """

    request_id: str
    word: CancelReply
    state: State


async def cancel(store: Store, request_id: str, *, by: str = "", reason: str = "") -> Cancelled:
    """Cancel one transition. A cancel is a request: only what nobody holds is cancelled at once.

    Args:
        store: the server.
        request_id: its own id, or one that joined it.
        by: who asks, for the record.
        reason: why, for the record.

    Raises:
        BadCallError: `by` or `reason` is no text on one line, or too long.
        JobNotFoundError: nothing is on record under this id.
        ScriptError: the row was not written by this product.
        ServerError: the store could not be asked; asking again is safe.
    """
    stamp, why = _line("by", by, MOST_BY), _line("reason", reason, MOST_REASON)
    command = cancel_script(op=uuid.uuid4().hex, request_id=request_id, by=stamp, reason=why)
    word, found, state = [text(value) for value in words(await store.calls.run(command))]
    reply = CancelReply(word)
    if reply is CancelReply.MISSING:
        raise not_on_record(store.keys.namespace, request_id, "Nothing was cancelled. Check id and namespace.")
    if reply is CancelReply.CORRUPT:
        what = f"The record of {request_id!r} was not written by this product."
        raise ScriptError(what, next_step="Nothing was cancelled; it never runs as it is. Look at the key by hand.")
    return Cancelled(found, reply, State(state))


def _line(name: str, given: object, most: int) -> str:
    line = one_line(given, most)
    if line is None:
        what = f"{name!r} is no text, longer than {most} characters, or holds control characters."
        raise BadCallError(what, next_step="Nothing was cancelled. Shorten it, and point to where the rest is.")
    return line
