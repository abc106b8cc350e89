"""Builds the receipts of a row, unsigned, from the row and the moves that it made."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

from ...leases.errors import ReceiptError
from ...leases.store import Store
from ..past import PastWord, read_past
from ..record import Entry, Record, read_body, read_record
from ..replies import text
from ..states import HELD, TERMINAL, Boundary, State
from .receipt import Receipt, ReceiptKind, receipt_id_of

SETTLED = TERMINAL | {State.UNKNOWN}
"""States that a call is told to have come to."""

RELEASE = "operator"
"""The word in a row's history for a release by a person."""

NOTE = "note"
"""The word in a row's history for a fact that moved nothing."""


@dataclass(frozen=True, slots=True)
class Row:
    """A row, as far as receipts tell of it.

    Attributes:
        record: the transition.
        result_sha256: hex digits of the stored result or error; empty: there is none, or its retention is over.
        past: what people recorded of earlier attempts.
    """

    record: Record
    result_sha256: str = ""
    past: tuple[PastWord, ...] = ()


async def read_row(store: Store, request_id: str) -> Row:
    """Read a row and the digest of its result, both of one moment.

    Raises:
        JobNotFoundError: nothing is on record under this id.
        ScriptError: the row was not written by this product.
        ReceiptError: the row never stood still.
        ServerError: the server could not be asked.
    """
    for _ in range(100):
        record = await read_record(store, request_id)
        body = await read_body(store, record.request_id)
        past = await read_past(store, record.request_id) if record.resolution else []
        number = await store.calls.read("HGET", store.keys.row(record.request_id), "n")
        if record.history and text(number or b"") == str(record.history[-1].number):
            return Row(record, hashlib.sha256(body).hexdigest() if body else "", tuple(past))
    what = f"The row of {request_id!r} changes all the time."
    raise ReceiptError(what, next_step="Nothing was written. Try again when it has settled.")


def is_told(what: str, why: str) -> bool:
    """Tell whether a move has a receipt."""
    return what in SETTLED or _is_release(what, why)


def _is_release(what: str, why: str) -> bool:
    # The claim that uses a release up is told with the same word.
    return why == RELEASE and what != NOTE and what not in HELD


def receipts_of(row: Row) -> list[Receipt]:
    """Build every receipt that a row's own history shows, oldest first.

    Raises:
        ReceiptError: the history does not reach back to how the row stands, or to its last release.
    """
    moves = [entry for entry in row.record.history if is_told(entry.what, entry.why)]
    settled = row.record.state not in SETTLED or any(_is_current(row.record, entry) for entry in moves)
    released = not row.record.resolution or any(entry.at_ms == row.record.resolved_ms for entry in moves)
    if not (settled and released):
        raise _forgotten(row.record)
    return [receipt for entry in moves for receipt in receipts_at(row, entry)]


def receipts_at(row: Row, entry: Entry) -> list[Receipt]:
    """Build the receipts of one move of a row: of its outcome, of its release, or of both.

    Of an outcome that the row has left since, as a failure that was retried, only what the move itself tells is known:
    such a receipt has no attempt number, no error and no digest, and says that the boundary may have been crossed.

    Args:
        row: as it stands by now.
        entry: the move; its number is not looked at.

    Raises:
        ReceiptError: it is a release of which the row does not know any more who recorded it.
    """
    found: list[Receipt] = []
    current = _is_current(row.record, entry)
    digest = row.result_sha256 if current else ""
    if _is_release(entry.what, entry.why):
        by, reason = _releaser(row, entry)
        completed = entry.what == State.COMPLETED
        boundary = Boundary.CROSSED if completed else Boundary.NOT_CROSSED
        found.append(
            _receipt(ReceiptKind.RELEASED, row.record, entry, boundary, result_sha256=digest, by=by, reason=reason)
        )
    if entry.what not in SETTLED:
        return found
    if current:
        record = row.record
        told = _receipt(
            ReceiptKind.SETTLED,
            record,
            entry,
            record.boundary,
            attempt=record.attempts,
            result_sha256=digest,
            error=record.error,
        )
    else:
        told = _receipt(ReceiptKind.SETTLED, row.record, entry, Boundary.MAYBE_CROSSED)
    return [*found, told]


def _is_current(record: Record, entry: Entry) -> bool:
    """Whether the row still stands where this move brought it."""
    last = next((one for one in reversed(record.history) if one.what != NOTE), None)
    return last is not None and (last.what, last.fence, last.why, last.at_ms) == (
        entry.what,
        entry.fence,
        entry.why,
        entry.at_ms,
    )


def _releaser(row: Row, entry: Entry) -> tuple[str, str]:
    """Who released the row with this move, and why."""
    record = row.record
    if record.resolution and record.resolved_ms == entry.at_ms:
        return record.resolved_by, record.resolution_reason
    for word in row.past:
        if word.what != "dead" and word.at_ms == entry.at_ms:
            return word.by, word.reason
    raise _forgotten(record)


def _receipt(  # noqa: PLR0913 - what differs between the kinds
    kind: ReceiptKind,
    record: Record,
    entry: Entry,
    boundary: Boundary,
    *,
    attempt: int = 0,
    result_sha256: str = "",
    error: str = "",
    by: str = "",
    reason: str = "",
) -> Receipt:
    state = State(entry.what)
    return Receipt(
        receipt_id=receipt_id_of(
            kind, request_id=record.request_id, effect_id=record.effect_id, fence=entry.fence, state=state
        ),
        kind=kind,
        request_id=record.request_id,
        effect_id=record.effect_id,
        tool=record.tool,
        agent_id=record.about.agent_id,
        policy_version=record.about.policy_version,
        state=state,
        boundary=boundary,
        fence=entry.fence,
        attempt=attempt,
        result_sha256=result_sha256,
        error=error,
        why=entry.why,
        at_ms=entry.at_ms,
        by=by,
        reason=reason,
    )


def _forgotten(record: Record) -> ReceiptError:
    what = f"The history of transition {record.request_id!r} does not reach back to the move that its receipt is of."
    return ReceiptError(what, state=record.state, next_step="It cannot be made again; none is made up.")
