"""Moves what time has moved: rows of lapsed sessions, and delayed rows that are due. No clock of its own."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from ..leases.scripts import scripted
from ..leases.store import Store
from .replies import integer, text, words

PAGE = 50
"""Rows moved by one script call: a few milliseconds of the server, whatever limits they have."""


class ExpireReply(StrEnum):
    """What the store says of one session that was taken for lapsed."""

    ALIVE = "alive"
    """Its deadline has not passed: nothing was touched."""
    MORE = "more"
    """A page was taken; more is held."""
    EXPIRED = "expired"
    """The last of what it held was taken, and the session is gone."""
    GONE = "gone"
    """It was already gone."""


class SweepReply(StrEnum):
    """What the store says of a page of each index whose time has come."""

    OK = "ok"
    """The pages were looked at."""


class LapseReply(StrEnum):
    """What the store says of one row whose holder is taken for dead."""

    TAKEN = "taken"
    """It was taken from its holder."""
    HELD = "held"
    """Its holder's session lives."""
    GRACE = "grace"
    """Its holder's session lapsed, and there is no evidence yet that the holder is dead."""
    FREE = "free"
    """Nobody holds it."""
    MISSING = "missing"
    """No such row."""
    CORRUPT = "corrupt"
    """The row is not ours."""


@scripted("mycelium.ledger", "expire_if_lapsed", ExpireReply)
def expire_script(*, session: str, page: int) -> None:
    """Stub of `expire_if_lapsed.lua`."""


@scripted("mycelium.ledger", "sweep", SweepReply)
def sweep_script(*, page: int) -> None:
    """Stub of `sweep.lua`."""


@scripted("mycelium.ledger", "lapse", LapseReply)
def lapse_script(*, request_id: str) -> None:
    """Stub of `lapse.lua`."""


@dataclass(frozen=True, slots=True)
class SweepReport:
    """What one sweep did.

    Attributes:
        sessions: lapsed sessions that are gone now.
        rows: transitions taken from lapsed sessions.
        promoted: delayed transitions made ready.
        overdue: transitions that were ended because they were past their time.
        woken: transitions that waited for a key that had room after all.
    """

    sessions: int = 0
    rows: int = 0
    promoted: int = 0
    overdue: int = 0
    woken: int = 0


async def run_once(store: Store) -> SweepReport:
    """Sweep until nothing lapsed or due is left. One call, where nothing is.

    Raises:
        ServerError: the server could not be asked; what was swept is swept.
    """
    sessions = rows = 0
    moved = [0, 0, 0]
    more = True
    while more:
        # The server's own clock decides, here and in `expire`.
        _, left, *told = words(await store.calls.run(sweep_script(page=PAGE)))
        moved = [was + integer(now) for was, now in zip(moved, told[:3], strict=True)]
        for session_id in map(text, told[3:]):
            gone, taken = await expire(store, session_id)
            sessions += gone
            rows += taken
        more = bool(integer(left))
    return SweepReport(sessions, rows, *moved)


async def expire(store: Store, session_id: str) -> tuple[int, int]:
    """Take all that one lapsed session held; a session that is alive is not touched.

    Returns:
        How many sessions ended (0 or 1), and how many transitions were taken.
    """
    taken = 0
    while True:
        word, count = words(await store.calls.run(expire_script(session=session_id, page=PAGE)))
        reply = ExpireReply(text(word))
        taken += integer(count)
        if reply is not ExpireReply.MORE:
            return int(reply is ExpireReply.EXPIRED), taken


async def take_if_lapsed(store: Store, request_id: str) -> LapseReply:
    """Take one transition from a holder that is dead; one whose holder may live is not touched.

    Raises:
        ServerError: the store could not be asked.
    """
    return LapseReply(text(words(await store.calls.run(lapse_script(request_id=request_id)))[0]))
