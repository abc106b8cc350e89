"""Lets a transition that ended without an effect run again, as a person asks."""

from __future__ import annotations

from enum import StrEnum

from ..leases.errors import LedgerReleaseRefusedError, ScriptError
from ..leases.scripts import scripted
from ..leases.store import Store
from .refusals import not_on_record
from .replies import text, words
from .signature import sign


class RequeueReply(StrEnum):
    """What the store says of a requeue."""

    REQUEUED = "requeued"
    """It is ready, with its history, and its counts begin anew."""
    OPEN = "open"
    """It has not ended: nothing was written."""
    COMPLETED = "completed"
    """It had its effect: nothing was written."""
    FORGOTTEN = "forgotten"
    """Its arguments are no longer kept: nothing was written."""
    MISSING = "missing"
    """No such row."""
    CORRUPT = "corrupt"
    """The row is not ours."""


@scripted("mycelium.ledger", "requeue", RequeueReply)
def requeue_script(*, op: str, request_id: str, by: str, reason: str) -> None:
    """Stub of `requeue.lua`."""


_REFUSED = {
    RequeueReply.OPEN: ("has not ended", "It runs, or will, by itself. An unknown one is released: see `release`."),
    RequeueReply.COMPLETED: ("had its effect", "Submit it under another request id if it is wanted once more."),
    RequeueReply.FORGOTTEN: ("has no arguments any more", "Submit it again under another request id."),
}


async def requeue(store: Store, request_id: str, *, by: str, reason: str) -> str:
    """Make a dead, cancelled or failed transition ready again: no effect of it exists, and its record says so.

    Args:
        store: the server.
        request_id: its own id, or one that joined it.
        by: who asks, for the record.
        reason: why, for the record.

    Returns:
        Its own request id.

    Raises:
        LedgerReleaseRefusedError: it has not ended, had its effect, or its arguments are gone; or `by` or `reason` is
            blank. Nothing was written.
        JobNotFoundError: nothing is on record under this id.
        ScriptError: the row was not written by this product.
        ServerError: the store could not be asked; asking again is safe.
    """
    signed = sign(by, reason)
    command = requeue_script(op=signed.op, request_id=request_id, by=signed.by, reason=signed.reason)
    word, found, state = [text(value) for value in words(await store.calls.run(command))]
    reply = RequeueReply(word)
    if reply in _REFUSED:
        why, next_step = _REFUSED[reply]
        raise LedgerReleaseRefusedError(
            f"{request_id!r} {why}.", next_step=f"Nothing was written. {next_step}", state=state
        )
    if reply is RequeueReply.MISSING:
        raise not_on_record(store.keys.namespace, request_id, "Nothing was written. Check id and namespace.")
    if reply is RequeueReply.CORRUPT:
        what = f"The record of {request_id!r} was not written by this product."
        raise ScriptError(what, next_step="Nothing was written. Look at the key by hand.")
    return found
