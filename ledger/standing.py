"""Tells of transitions whether their last attempt may still act, and for how long: the scripts' rule, for people."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Sequence
from dataclasses import dataclass

from ..leases.store import Store
from .record import Record, read_now_ms
from .replies import integer, items, text
from .signature import PRESUMED_DEAD_S
from .states import HELD, Liveness, State


@dataclass(frozen=True, slots=True)
class Standing:
    """Whether the last attempt of a transition may still act.

    Attributes:
        liveness: whether it may.
        for_ms: of one that is held, until its session lapses if it is not renewed; in its grace, until the attempt is
            presumed dead; else 0.
    """

    liveness: Liveness
    for_ms: int = 0

    @property
    def for_s(self) -> int:
        """The same in whole seconds, so that after them it is over."""
        return math.ceil(self.for_ms / 1000)


async def read_standings(
    store: Store, records: Sequence[Record], presumed_dead_s: float = PRESUMED_DEAD_S
) -> list[Standing]:
    """Read how transitions stand, in their order.

    Args:
        store: the server.
        records: what was read of them.
        presumed_dead_s: so long after it became unknown, an attempt is taken for unable to send.

    Raises:
        ServerError: the server could not be asked.
    """
    presumed_ms = math.ceil(presumed_dead_s * 1000)
    now_ms = await read_now_ms(store)
    holders = sorted({record.session for record in records if record.state in HELD})
    known = dict(zip(holders, await asyncio.gather(*[_signs(store, holder) for holder in holders]), strict=True))

    async def one(record: Record) -> Standing:
        if record.state in HELD:
            return _of_held(known[record.session], now_ms)
        if record.state is not State.UNKNOWN:
            return Standing(Liveness.NOBODY)
        return await _of_unknown(store, record, now_ms, presumed_ms)

    return await asyncio.gather(*[one(record) for record in records])


@dataclass(frozen=True, slots=True)
class _Signs:
    """What is known of a session: its deadline, its grace after that, and whether it was declared dead."""

    deadline_ms: int
    grace_ms: int
    dead: bool


async def _signs(store: Store, session_id: str) -> _Signs | None:
    score, facts = await asyncio.gather(
        store.calls.read("ZSCORE", store.keys.sessions(), session_id),
        store.calls.read("HMGET", store.keys.session(session_id), "grace_ms", "dead"),
    )
    if score is None:
        return None
    grace, dead = items(facts)
    return _Signs(int(float(text(score))), integer(grace or b"0"), dead is not None)


def _of_held(signs: _Signs | None, now_ms: int) -> Standing:
    if signs is None or signs.dead:
        return Standing(Liveness.DEAD)
    if signs.deadline_ms > now_ms:
        return Standing(Liveness.HELD, signs.deadline_ms - now_ms)
    left_ms = signs.deadline_ms + signs.grace_ms - now_ms
    return Standing(Liveness.GRACE, left_ms) if left_ms > 0 else Standing(Liveness.DEAD)


async def _of_unknown(store: Store, record: Record, now_ms: int, presumed_ms: int) -> Standing:
    """The rule of a release: an earlier attempt in doubt may send too, though the last one is known to be over."""
    doubt, since = items(await store.calls.read("HMGET", store.keys.row(record.request_id), "doubt", "unknown_ms"))
    if record.ended and text(doubt or b"") != "1":
        return Standing(Liveness.NOBODY)
    left_ms = integer(since or b"0") + presumed_ms - now_ms
    return Standing(Liveness.GRACE, left_ms) if left_ms > 0 else Standing(Liveness.DEAD)
