"""What a person's word has before it is asked of the ledger: a name, a reason, and a record that it is said of."""

from __future__ import annotations

import math
import uuid
from dataclasses import dataclass

from ..leases.errors import JobNotFoundError, LedgerReleaseRefusedError, ScriptError
from ..leases.store import Store
from .record import Record, read_record

PRESUMED_DEAD_S = 30.0
"""A holder that was silent for so long is taken for unable to send."""

NOTHING = "Nothing was recorded."

MOST_BY, MOST_REASON = 200, 2000


@dataclass(frozen=True, slots=True)
class Signature:
    """Who says something, and why, each on one line.

    Attributes:
        by: who. A stamp, not a proof.
        reason: why.
        op: new for each word that is given, so that one which is sent again after a lost reply is known.
    """

    by: str
    reason: str
    op: str


def sign(by: str, reason: str) -> Signature:
    """Take a name and a reason.

    Raises:
        LedgerReleaseRefusedError: one of them is blank, too long, or holds control characters.
    """
    return Signature(_line("by", by, MOST_BY), _line("reason", reason, MOST_REASON), uuid.uuid4().hex)


def silence_ms(presumed_dead_s: float) -> int:
    """Take a silence in seconds as the server takes it.

    Raises:
        LedgerReleaseRefusedError: it is negative, or no number of seconds.
    """
    if not (math.isfinite(presumed_dead_s) and presumed_dead_s >= 0):
        what = f"presumed_dead_s is {presumed_dead_s}."
        raise LedgerReleaseRefusedError(what, next_step=f"{NOTHING} Give 0 or more seconds.")
    return math.ceil(presumed_dead_s * 1000)


async def read_shown(store: Store, request_id: str) -> Record:
    """Read the record that something is said of.

    Raises:
        LedgerReleaseRefusedError: nothing is on record under this id.
        ScriptError: the row was not written by this product.
        ServerError: the server could not be asked.
    """
    try:
        return await read_record(store, request_id)
    except JobNotFoundError as error:
        raise LedgerReleaseRefusedError(error.what, next_step=error.next_step) from error


def corrupt(request_id: str) -> ScriptError:
    """The row is not what a script of ours writes."""
    what = f"The record of {request_id!r} is corrupt: it was not written by this product."
    return ScriptError(what, next_step=f"{NOTHING} It never runs as it is. Look at the key by hand.")


def one_line(given: object, most: int) -> str | None:
    """Put a text on one line; None: it is no text, too long, or holds control characters."""
    line = " ".join(given.split()) if isinstance(given, str) else None
    return line if line is not None and len(line) <= most and line.isprintable() else None


def _line(name: str, given: object, most: int) -> str:
    if not isinstance(given, str) or not given.split():
        raise LedgerReleaseRefusedError(f"{name!r} is blank.", next_step=f"{NOTHING} Say who says so, and why.")
    line = one_line(given, most)
    if line is None:
        what = f"{name!r} is longer than {most} characters, or holds control characters."
        raise LedgerReleaseRefusedError(what, next_step=f"{NOTHING} Shorten it, and point to where the rest is.")
    return line
