"""Lists transitions and sessions for people. No index on the hot path serves it: it reads what is there anyway."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import cast

from ..leases.errors import JobNotFoundError, ScriptError
from ..leases.store import Store
from .advice import OVERDUE_MS, Advice, Stuck, next_action, stuck
from .record import Record, read_now_ms, read_record
from .replies import integer, items, text
from .signature import PRESUMED_DEAD_S
from .states import HELD, Liveness, State

_PAGE = 100
_MOST_PAGES = 20
"""Pages of events that one listing looks back over."""
_AT_ONCE = 200
"""Rows read together."""


@dataclass(frozen=True, slots=True)
class Listed:
    """One transition, and how it stands at the moment of the listing.

    Attributes:
        record: what is on record.
        liveness: whether its last attempt may still act.
        why: why it is stuck; None: it is not.
        advice: what to do about it.
    """

    record: Record
    liveness: Liveness
    why: Stuck | None
    advice: Advice


@dataclass(frozen=True, slots=True)
class SessionLine:
    """One session as it stands; instants are server milliseconds.

    Attributes:
        session_id: minted by its holder.
        name: what people call the holder.
        epoch: the epoch in which it was opened.
        opened_ms: when it was opened.
        renewed_ms: when it was renewed last.
        deadline_ms: when it lapses.
        held: how many transitions it holds.
        info: what the holder says of itself: pid, host, hosts, slots, tools.
    """

    session_id: str
    name: str
    epoch: int
    opened_ms: int
    renewed_ms: int
    deadline_ms: int
    held: int
    info: dict[str, object]


async def list_transitions(  # noqa: PLR0913 - each narrows the list
    store: Store,
    *,
    state: State | None = None,
    tool: str | None = None,
    stuck: bool = False,
    parent: str | None = None,
    older_than_s: float | None = None,
    limit: int = 50,
) -> list[Listed]:
    """List transitions, the last changed first; stuck ones, the longest stuck first.

    Open ones are found through the lists that they are in, ended ones through the tail of the event stream: those that
    ended long ago are not found, but each can still be read by its id. Nothing is ever searched through whole.

    Args:
        store: the server.
        state: only those in this state.
        tool: only those of this tool.
        stuck: only those that will not end by themselves, or not soon: see `Stuck`.
        parent: only those that this transition handed off.
        older_than_s: only those that have stood as they do for so long.
        limit: at most so many.

    Raises:
        ServerError: the server could not be asked.
    """
    # What is filtered only after the row was read needs more than `limit` to choose from.
    wanted = limit if (tool, parent, older_than_s) == (None, None, None) else limit * 5
    records = await (_stuck_records(store, tool, wanted) if stuck else _records(store, state, tool, wanted))
    listed = await _stand(store, records)
    now_ms = await read_now_ms(store)
    chosen = [
        line
        for line in listed
        if state in {None, line.record.state}
        and tool in {None, line.record.tool}
        and parent in {None, line.record.about.parent_request_id}
        and (older_than_s is None or now_ms - line.record.changed_ms >= older_than_s * 1000)
        and (not stuck or line.why is not None)
    ]
    return sorted(chosen, key=lambda line: line.record.changed_ms, reverse=not stuck)[:limit]


async def look_at(store: Store, request_id: str) -> Listed:
    """Read one transition, and how it stands.

    Raises:
        JobNotFoundError: nothing is on record under this id.
        ScriptError: the row was not written by this product.
        ServerError: the server could not be asked.
    """
    return (await _stand(store, [await read_record(store, request_id)]))[0]


async def list_sessions(store: Store) -> list[SessionLine]:
    """List sessions, the oldest first.

    Raises:
        ServerError: the server could not be asked.
    """
    reply = items(await store.calls.read("ZRANGE", store.keys.sessions(), 0, -1, "WITHSCORES"))
    pairs = [(text(reply[at]), int(float(text(reply[at + 1])))) for at in range(0, len(reply) - 1, 2)]
    lines = await asyncio.gather(*[_session(store, session_id, deadline) for session_id, deadline in pairs])
    return sorted([line for line in lines if line is not None], key=lambda line: line.opened_ms)


async def _session(store: Store, session_id: str, deadline_ms: int) -> SessionLine | None:
    fields, held = await asyncio.gather(
        store.calls.read("HMGET", store.keys.session(session_id), "name", "epoch", "opened_ms", "ttl_ms", "info"),
        store.calls.read("HLEN", store.keys.held(session_id)),
    )
    name, epoch, opened, ttl, info = [text(field or b"") for field in items(fields)]
    if not opened:
        return None
    return SessionLine(
        session_id=session_id,
        name=name,
        epoch=integer(epoch),
        opened_ms=integer(opened),
        renewed_ms=deadline_ms - integer(ttl),
        deadline_ms=deadline_ms,
        held=integer(held),
        info=_info(info),
    )


def _info(body: str) -> dict[str, object]:
    try:
        told: object = json.loads(body)
    except ValueError:
        return {}
    return cast("dict[str, object]", told) if isinstance(told, dict) else {}


# ── finding ──────────────────────────────────────────────────────────────────────────────────────────────────────────


async def _records(store: Store, state: State | None, tool: str | None, wanted: int) -> list[Record]:
    ids = dict.fromkeys(await _moved(store, set(State) if state is None else {state}, wanted))
    records = await _read(store, ids)
    tools = {tool} if tool is not None else {record.tool for record in records} | await _known_tools(store)
    more = dict.fromkeys(await _open(store, state, tools, wanted))
    return records + await _read(store, [request_id for request_id in more if request_id not in ids])


async def _stuck_records(store: Store, tool: str | None, wanted: int) -> list[Record]:
    """All that may be stuck: unknown, held, parked, overdue, and what is at the heads of the ready lists."""
    keys, last, now_ms = store.keys, wanted - 1, await read_now_ms(store)
    # What is held by a session that left nothing behind is in no list, and neither is what is parked.
    ids = await _moved(store, HELD | {State.PARKED}, wanted)
    tools = {tool} if tool is not None else await _known_tools(store)
    reads = [("ZRANGE", keys.unknown(name), 0, last) for name in sorted(tools)]
    reads += [("LRANGE", keys.ready(name), 0, last) for name in sorted(tools)]
    replies = await asyncio.gather(*[store.calls.read(*words) for words in reads])
    ids += [text(value) for reply in replies for value in items(reply)]
    overdue = await store.calls.read("ZRANGEBYSCORE", keys.delayed(), "-inf", now_ms - OVERDUE_MS, "LIMIT", 0, wanted)
    ids += [text(value) for value in items(overdue)]
    ids += await _held(store, wanted)
    return await _read(store, dict.fromkeys(ids))


async def _moved(store: Store, states: Collection[str], wanted: int) -> list[str]:
    """Ids from the tail of the events, the last moved first; the last move of each says its state."""
    last: set[str] = set()
    found: list[str] = []
    end = "+"
    for _ in range(_MOST_PAGES):
        page = items(await store.calls.read("XREVRANGE", store.keys.events(), end, "-", "COUNT", _PAGE))
        for entry in page:
            entry_id, fields = items(entry)
            end = "(" + text(entry_id)
            for request_id, to in _moves(items(fields)):
                if request_id not in last and to in states:
                    found.append(request_id)
                last.add(request_id)
        if len(page) < _PAGE or len(found) >= wanted:
            break
    return found[:wanted]


def _moves(fields: list[object]) -> list[tuple[str, str]]:
    named = {text(fields[at]): text(fields[at + 1]) for at in range(0, len(fields) - 1, 2)}
    rows = [line.split("\t") for line in named.get("moves", "").split("\n")]
    return [(row[0], row[2]) for row in reversed(rows) if len(row) > 2]  # noqa: PLR2004 - id, from, to, fence, why


async def _known_tools(store: Store) -> set[str]:
    return {text(name) for name in items(await store.calls.read("HKEYS", store.keys.tools()))}


async def _open(store: Store, state: State | None, tools: Iterable[str], wanted: int) -> list[str]:
    """Ids from the lists that open transitions are in."""
    keys, last = store.keys, wanted - 1
    reads: list[tuple[str, str, int, int]] = []
    if state in {None, State.READY}:
        reads += [("LRANGE", keys.ready(tool), 0, last) for tool in sorted(tools)]
    if state in {None, State.DELAYED}:
        reads.append(("ZRANGE", keys.delayed(), 0, last))
    if state in {None, State.UNKNOWN}:
        reads += [("ZRANGE", keys.unknown(tool), 0, last) for tool in sorted(tools)]
    replies = await asyncio.gather(*[store.calls.read(*words) for words in reads])
    ids = [text(value) for reply in replies for value in items(reply)]
    if state is None or state in HELD:
        ids += await _held(store, wanted)
    return ids


async def _held(store: Store, wanted: int) -> list[str]:
    sessions = [text(value) for value in items(await store.calls.read("ZRANGE", store.keys.sessions(), 0, -1))]
    replies = await asyncio.gather(*[store.calls.read("HKEYS", store.keys.held(session)) for session in sessions])
    return [text(value) for reply in replies for value in items(reply)[:wanted]]


async def _read(store: Store, request_ids: Iterable[str]) -> list[Record]:
    ids = list(request_ids)
    records: list[Record] = []
    for at in range(0, len(ids), _AT_ONCE):
        found = await asyncio.gather(*[_record(store, request_id) for request_id in ids[at : at + _AT_ONCE]])
        records.extend(record for record in found if record is not None)
    return records


async def _record(store: Store, request_id: str) -> Record | None:
    try:
        return await read_record(store, request_id)
    except (JobNotFoundError, ScriptError):
        return None  # its retention is over, or it is not a row of ours


# ── how they stand ───────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class _Signs:
    """What is known of a session: its deadline, its grace after that, and whether it was declared dead."""

    deadline_ms: int
    grace_ms: int
    dead: bool


async def _stand(store: Store, records: list[Record]) -> list[Listed]:
    now_ms = await read_now_ms(store)
    holders = sorted({record.session for record in records if record.state in HELD})
    delayed = [record.request_id for record in records if record.state is State.DELAYED]
    known = dict(zip(holders, await asyncio.gather(*[_signs(store, holder) for holder in holders]), strict=True))
    scores = await asyncio.gather(*[store.calls.read("ZSCORE", store.keys.delayed(), name) for name in delayed])
    due = {name: _instant(score) for name, score in zip(delayed, scores, strict=True)}
    listed: list[Listed] = []
    for record in records:
        liveness = _liveness(record, known.get(record.session), now_ms)
        why = stuck(record, liveness, now_ms, due.get(record.request_id))
        listed.append(Listed(record, liveness, why, next_action(record, liveness)))
    return listed


async def _signs(store: Store, session_id: str) -> _Signs | None:
    score, facts = await asyncio.gather(
        store.calls.read("ZSCORE", store.keys.sessions(), session_id),
        store.calls.read("HMGET", store.keys.session(session_id), "grace_ms", "dead"),
    )
    deadline = _instant(score)
    if deadline is None:
        return None
    grace, dead = items(facts)
    return _Signs(deadline, integer(grace or b"0"), dead is not None)


def _liveness(record: Record, signs: _Signs | None, now_ms: int) -> Liveness:
    """The same rule by which the scripts judge a holder; of an unknown one, the rule of a release."""
    if record.state in HELD:
        if signs is None or signs.dead:
            return Liveness.DEAD
        if signs.deadline_ms > now_ms:
            return Liveness.HELD
        return Liveness.GRACE if signs.deadline_ms + signs.grace_ms > now_ms else Liveness.DEAD
    if record.state is not State.UNKNOWN or record.ended:
        return Liveness.NOBODY
    silent_ms = now_ms - _unknown_since_ms(record)
    return Liveness.GRACE if silent_ms < PRESUMED_DEAD_S * 1000 else Liveness.DEAD


def _unknown_since_ms(record: Record) -> int:
    moves = [entry for entry in record.history if entry.what == State.UNKNOWN]
    return moves[-1].at_ms if moves else record.created_ms


def _instant(score: object) -> int | None:
    return None if score is None else int(float(text(score)))
