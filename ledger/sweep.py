"""Moves what time has moved: rows of lapsed sessions, and delayed rows that are due. No clock of its own."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from ..leases.scripts import scripted
from ..leases.store import Store
from .record import read_now_ms
from .replies import integer, items, text, words

PAGE = 100
"""Rows moved by one script call: about five milliseconds of the server."""


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


class PromoteReply(StrEnum):
    """What the store says of a page of delayed rows."""

    OK = "ok"
    """The page was looked at."""


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


@scripted("mycelium.ledger", "promote", PromoteReply)
def promote_script(*, page: int) -> None:
    """Stub of `promote.lua`."""


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
    """

    sessions: int = 0
    rows: int = 0
    promoted: int = 0


async def run_once(store: Store) -> SweepReport:
    """Sweep until nothing lapsed or due is left.

    Raises:
        ServerError: the server could not be asked; what was swept is swept.
    """
    sessions = rows = 0
    for session_id in await _lapsed(store):
        gone, taken = await expire(store, session_id)
        sessions += gone
        rows += taken
    return SweepReport(sessions, rows, await _promote(store))


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


async def _lapsed(store: Store) -> list[str]:
    # The server's own clock decides in the script; this only chooses whom to ask about, and a wrong choice is answered
    # `alive`.
    now_ms = await read_now_ms(store)
    reply = await store.calls.read("ZRANGEBYSCORE", store.keys.sessions(), "-inf", now_ms, "LIMIT", 0, PAGE)
    return [text(value) for value in items(reply)]


async def _promote(store: Store) -> int:
    promoted = 0
    while True:
        _, moved, looked = words(await store.calls.run(promote_script(page=PAGE)))
        promoted += integer(moved)
        if integer(looked) < PAGE:
            return promoted
