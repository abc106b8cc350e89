"""Builds the receipts of a row from the row alone: made again, a receipt is the same to the last byte."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

from ...leases.errors import ReceiptError
from ...leases.store import Store
from ..record import Entry, Record, read_record
from ..replies import items, text
from ..states import TERMINAL, Boundary, State
from .receipt import Receipt, ReceiptKind, receipt_id_of

SETTLED = TERMINAL | {State.UNKNOWN}
"""States that a call is told to have come to."""

RELEASE = "operator"
"""The word in a row's history for a release by a person."""


@dataclass(frozen=True, slots=True)
class Digests:
    """What stands in a receipt for the content.

    Attributes:
        args_sha256: hex digits of the canonical arguments; empty: not known.
        result_sha256: hex digits of the stored result or error; empty: none, or not known.
    """

    args_sha256: str = ""
    result_sha256: str = ""

    @classmethod
    def of(cls, args: bytes, result: bytes = b"") -> Digests:
        """Take the digests of what is in hand; an empty result is none."""
        return cls(hashlib.sha256(args).hexdigest(), hashlib.sha256(result).hexdigest() if result else "")


UNKNOWN = Digests()
"""The content is not known any more."""


async def read_row(store: Store, request_id: str) -> tuple[Record, Digests]:
    """Read a row and the digests on it, both of one moment.

    Raises:
        JobNotFoundError: nothing is on record under this id.
        ScriptError: the row was not written by this product.
        ReceiptError: the row never stood still.
        ServerError: the server could not be asked.
    """
    for _ in range(100):
        record = await read_record(store, request_id)
        key = store.keys.row(record.request_id)
        reply = items(await store.calls.read("HMGET", key, "n", "args_sha", "result_sha"))
        number, args, result = [text(value or b"") for value in reply]
        if record.history and number == str(record.history[-1].number):
            return record, Digests(args, result)
    what = f"The row of {request_id!r} changes all the time."
    raise ReceiptError(what, next_step="Nothing was written. Try again when it has settled.")


def receipts_of(record: Record, digests: Digests = UNKNOWN) -> list[Receipt]:
    """Build every receipt that a row has by now, unsigned: of its outcome, and of its release.

    Raises:
        ReceiptError: the row's history does not reach back to one of them.
    """
    found: list[Receipt] = []
    if record.resolution:
        found.append(release_receipt(record, digests))
    if record.state in SETTLED:
        found.append(settled_receipt(record, digests))
    return found


def settled_receipt(record: Record, digests: Digests = UNKNOWN) -> Receipt:
    """Build the receipt of how a call ended, unsigned.

    Raises:
        ReceiptError: it has not ended, or its history does not reach back to it.
    """
    if record.state not in SETTLED:
        what = f"Transition {record.request_id!r} has not settled: there is no receipt of it yet."
        raise ReceiptError(what, state=record.state, next_step="Ask again when it has.")
    moves = [entry for entry in record.history if entry.what != "note"]
    if not moves or moves[-1].what != record.state:
        raise _forgotten(record)
    return _receipt(
        ReceiptKind.SETTLED,
        record,
        moves[-1],
        boundary=record.boundary,
        attempt=record.attempts,
        digests=digests,
        error=record.error,
    )


def release_receipt(record: Record, digests: Digests = UNKNOWN) -> Receipt:
    """Build the receipt of the last release by a person, unsigned.

    It stays the same while the transition runs again, so it tells nothing of later attempts.

    Raises:
        ReceiptError: nobody released it, or its history does not reach back to it.
    """
    if not record.resolution:
        what = f"Nobody released transition {record.request_id!r}: there is no receipt of it."
        raise ReceiptError(what, state=record.state, next_step="Look at its timeline.")
    moves = [entry for entry in record.history if entry.why == RELEASE]
    if not moves:
        raise _forgotten(record)
    happened = record.resolution == State.COMPLETED
    return _receipt(
        ReceiptKind.RELEASED,
        record,
        moves[-1],
        boundary=Boundary.CROSSED if happened else Boundary.NOT_CROSSED,
        attempt=0,
        digests=digests if happened else Digests(digests.args_sha256),
        by=record.resolved_by,
        reason=record.resolution_reason,
    )


def _receipt(  # noqa: PLR0913 - what differs between the kinds
    kind: ReceiptKind,
    record: Record,
    entry: Entry,
    *,
    boundary: Boundary,
    attempt: int,
    digests: Digests,
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
        args_sha256=digests.args_sha256,
        result_sha256=digests.result_sha256,
        error=error,
        why=entry.why,
        at_ms=entry.at_ms,
        by=by,
        reason=reason,
    )


def _forgotten(record: Record) -> ReceiptError:
    what = f"The history of transition {record.request_id!r} does not reach back to the move that its receipt is of."
    return ReceiptError(what, state=record.state, next_step="It cannot be made again; none is made up.")
