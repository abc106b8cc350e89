"""Lists transitions and sessions for people. No index on the hot path serves it: it reads what is there anyway."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import cast

from ..leases.errors import JobNotFoundError, ScriptError
from ..leases.store import Store
from .record import Record, read_record
from .replies import integer, items, text
from .states import HELD, State

_PAGE = 100
_MOST_PAGES = 20
"""Pages of events that one listing looks back over."""
_AT_ONCE = 200
"""Rows read together."""

NEXT_ACTION = {
    State.DELAYED: "becomes ready when it is due",
    State.READY: "waits for a worker that has this tool",
    State.PARKED: "waits for a person",
    State.CLAIMED: "a worker is about to start it",
    State.ATTEMPTING: "running",
    State.COMPLETED: "none",
    State.FAILED: "none: no effect exists; a new request id tries again",
    State.UNKNOWN: "its provider is asked; never run again by guess",
    State.CANCELLED: "none: it never ran",
    State.DEAD: "mend the cause; a new request id tries again",
}
"""What happens next, or what to do, by state."""

NOBODY_TO_ASK = "nobody can be asked: look at the provider; never run again by guess"
"""The same for an unknown transition whose tool has no reconciler."""


def next_action(record: Record) -> str:
    """Say what happens next with a transition, or what to do."""
    if record.state is State.UNKNOWN and not record.asked:
        return NOBODY_TO_ASK
    return NEXT_ACTION[record.state]


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


async def list_jobs(
    store: Store, *, state: State | None = None, tool: str | None = None, limit: int = 50
) -> list[Record]:
    """List transitions, the last changed first.

    Open ones are found through the lists that they are in, ended ones through the tail of the event stream: those that
    ended long ago are not found, but each can still be read by its id.

    Args:
        store: the server.
        state: only those in this state.
        tool: only those of this tool.
        limit: at most so many.

    Raises:
        ServerError: the server could not be asked.
    """
    # What is filtered only after the row was read needs more than `limit` to choose from.
    wanted = limit if tool is None else limit * 5
    ids = dict.fromkeys(await _moved(store, state, wanted))
    records = await _read(store, ids)
    tools = {tool} if tool is not None else {record.tool for record in records} | await _known_tools(store)
    more = dict.fromkeys(await _open(store, state, tools, wanted))
    records += await _read(store, [request_id for request_id in more if request_id not in ids])
    chosen = [record for record in records if state in {None, record.state} and tool in {None, record.tool}]
    return sorted(chosen, key=lambda record: record.changed_ms, reverse=True)[:limit]


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


async def _moved(store: Store, state: State | None, wanted: int) -> list[str]:
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
                if request_id not in last and state in {None, to}:
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
