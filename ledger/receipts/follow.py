"""Follows the ledger's own events and writes the receipts of what settled or was released, however it came to that.

    events of the ledger ── from the place that was reached ──▶ moves ── rows ──▶ receipts ── writer ──▶ sink
             ▲                                                                                            │
             └──────────────── the place moves, by compare-and-set, once the sink has them ◀──────────────┘

The place is a field of the ledger: whoever follows goes on from there, after any crash. A crash between sink and place
writes a page again, and sinks keep one receipt of each id. So do several followers at once. No call waits for this.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from ...leases.errors import JobNotFoundError, MyceliumError, ReceiptError, ScriptError
from ...leases.scripts import scripted
from ...leases.store import Store
from ..record import Entry
from ..replies import integer, items, mapping, text, words
from .facts import Row, is_told, read_row, receipts_at
from .receipt import Receipt
from .writer import ReceiptWriter

log = logging.getLogger(__name__)

PAGE = 100
"""Events read at once; each is one script call of the ledger, with up to some hundred moves."""

_AT_ONCE = 32
"""Rows read at once: a result may be large, and only its digest is kept."""
_NAMED = 5
"""Transitions that a log line names."""


class FollowReply(StrEnum):
    """What the store says of a place that was reached."""

    MOVED = "moved"
    """It is the place now."""
    ELSEWHERE = "elsewhere"
    """Another follower has moved it: nothing was changed."""


@scripted("mycelium.ledger", "follow_if_at", FollowReply)
def follow_script(*, expect: str, to: str) -> None:
    """Stub of `follow_if_at.lua`."""


@dataclass(frozen=True, slots=True)
class FollowReport:
    """What one run did.

    Attributes:
        events: events that were followed.
        written: receipts that the sink keeps, now or before.
        missed: receipts that could not be made or were given up.
        lost: events that the ledger kept no longer when they were to be followed.
    """

    events: int = 0
    written: int = 0
    missed: int = 0
    lost: int = 0

    def __add__(self, other: FollowReport) -> FollowReport:
        return FollowReport(
            self.events + other.events,
            self.written + other.written,
            self.missed + other.missed,
            self.lost + other.lost,
        )


class _Place(NamedTuple):
    """The last event that was followed: its id in the stream, and its number, which has no gaps."""

    entry: str
    number: int

    @classmethod
    def read(cls, written: str) -> _Place:
        entry, _, number = (written or "0-0 0").partition(" ")
        if not number.isdecimal():
            what = "The place up to which receipts follow the ledger is corrupt: it was not written by this product."
            raise ScriptError(what, next_step="Delete the field `followed` of the key `meta`: all is followed again.")
        return cls(entry, int(number))

    def __str__(self) -> str:
        return f"{self.entry} {self.number}"


class _Move(NamedTuple):
    """A move that has receipts."""

    request_id: str
    entry: Entry


class _Event(NamedTuple):
    """One event, and those of its moves that have receipts."""

    place: _Place
    moves: tuple[_Move, ...]


async def run_once(store: Store, writer: ReceiptWriter, *, page: int = PAGE) -> FollowReport:
    """Follow the ledger up to the event that was its last one at the beginning.

    Raises:
        ReceiptError: the sink does not take a page, and the writer is to raise; the place stays before that page.
        ServerError: the ledger could not be asked; it goes on from where it was.
    """
    report = FollowReport()
    end: int | None = None
    while True:
        followed, seq = items(await store.calls.read("HMGET", store.keys.meta(), "followed", "seq"))
        written, last = text(followed or b""), integer(seq or b"")
        end = last if end is None else end
        if _Place.read(written).number >= end:
            return report
        report += await _follow(store, writer, written, last, page)


async def _follow(store: Store, writer: ReceiptWriter, written: str, last: int, page: int) -> FollowReport:
    """Follow one page, from the place that is written, in a ledger that has counted so many events."""
    at = _Place.read(written)
    events = await _events(store, at, page)
    moves = [move for event in events for move in event.moves]
    rows = await _rows(store, {move.request_id for move in moves})
    receipts, faults = _receipts(rows, moves)
    kept = await writer.write(receipts)
    # No event there, though the ledger has counted on: all were dropped, and what comes next is read from the first.
    to = events[-1].place if events else _Place("0-0", last)
    reply = await store.calls.run(follow_script(expect=written, to=str(to)))
    if FollowReply(text(words(reply)[0])) is FollowReply.ELSEWHERE:
        # Whoever was there before has told what there is to tell.
        return FollowReport(len(events), kept)
    lost = _lost(at, events, last)
    _say(at, lost, faults)
    return FollowReport(len(events), kept, len(faults) + len(receipts) - kept, lost)


async def _events(store: Store, at: _Place, page: int) -> list[_Event]:
    reply = await store.calls.read("XRANGE", store.keys.events(), f"({at.entry}", "+", "COUNT", page)
    found: list[_Event] = []
    number = at.number
    for item in items(reply):
        entry, values = items(item)
        fields = mapping(values)
        seq, at_ms = fields.get("seq", ""), fields.get("at", "")
        moves: Iterable[_Move] = ()
        # What somebody else put there is passed over: it has no number.
        if seq.isdecimal() and at_ms.isdecimal():
            number = max(number, int(seq))
            moves = _moves(fields.get("moves", ""), int(at_ms))
        found.append(_Event(_Place(text(entry), number), tuple(moves)))
    return found


def _moves(lines: str, at_ms: int) -> Iterable[_Move]:
    for line in lines.split("\n"):
        request_id, *rest = line.split("\t")
        if len(rest) != 4:  # noqa: PLR2004 - from, to, fence, why
            continue
        _, to, fence, why = rest
        if is_told(to, why):
            yield _Move(request_id, Entry(0, at_ms, to, fence, why))


async def _rows(store: Store, request_ids: Iterable[str]) -> Mapping[str, Row | MyceliumError]:
    """Read rows, each once; of one that cannot be told from, why."""
    gate = asyncio.Semaphore(_AT_ONCE)

    async def read(request_id: str) -> tuple[str, Row | MyceliumError]:
        async with gate:
            try:
                return request_id, await read_row(store, request_id)
            except (JobNotFoundError, ReceiptError, ScriptError) as error:
                return request_id, error

    return dict(await asyncio.gather(*map(read, request_ids)))


def _receipts(
    rows: Mapping[str, Row | MyceliumError], moves: Sequence[_Move]
) -> tuple[list[Receipt], list[tuple[str, MyceliumError]]]:
    """Build the receipts of moves; and say which have none, and why."""
    receipts: list[Receipt] = []
    faults: list[tuple[str, MyceliumError]] = []
    for request_id, entry in moves:
        row = rows[request_id]
        try:
            if isinstance(row, MyceliumError):
                raise row
            receipts.extend(receipts_at(row, entry))
        except MyceliumError as error:
            faults.append((request_id, error))
    return receipts, faults


def _lost(at: _Place, events: Sequence[_Event], last: int) -> int:
    """How many events are missing between the place and the last of these; all, where there is none."""
    if not events:
        return last - at.number
    lost, before = 0, at.number
    for event in events:
        lost += max(0, event.place.number - before - 1)
        before = event.place.number
    return lost


def _say(at: _Place, lost: int, faults: Sequence[tuple[str, MyceliumError]]) -> None:
    if lost:
        log.error(
            "the ledger has dropped %d events after number %d before their receipts were written: what settled or was "
            "released in them has none. `mycelium receipts issue --since` makes those whose rows are kept.",
            lost,
            at.number,
        )
    if faults:
        named = ", ".join(sorted({request_id for request_id, _ in faults})[:_NAMED])
        log.warning("%d receipts cannot be made, of %s: %s", len(faults), named, faults[0][1])
