"""Lists transitions for people: a page of rows is read and judged at a time, until there are enough.

No index on the hot path serves it. It looks through the tail of the events and the heads of the lists that open
transitions are in, both so far and no further; where that was not far enough, it says so.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest

from ..leases.errors import JobNotFoundError, ScriptError
from ..leases.store import Store
from .advice import OVERDUE_MS, Advice, Stuck, next_action, stuck
from .fleet import Fleet, read_fleet
from .record import Record, read_now_ms, read_record
from .replies import items, text
from .standing import read_standings
from .states import HELD, Liveness, State
from .waiting import read_ready_ids

LOOK_BACK = 5_000
"""Moves that one listing looks back over, and rows of lists that it reads, unless told otherwise."""

_PAGE = 500
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
class Wanted:
    """Which transitions are asked for.

    Attributes:
        state: only those in this state.
        tool: only those of this tool.
        stuck: only those that will not end by themselves, or not soon: see `Stuck`.
        parent: only those that this transition handed off.
        older_than_s: only those that have stood as they do for so long.
        queue: only those of this queue.
        tenant: only those of this tenant.
        labels: only those that have all of these labels.
    """

    state: State | None = None
    tool: str | None = None
    stuck: bool = False
    parent: str | None = None
    older_than_s: float | None = None
    queue: str | None = None
    tenant: str | None = None
    labels: Mapping[str, str] = field(default_factory=dict[str, str])

    def takes(self, line: Listed, now_ms: int) -> bool:
        """Tell whether it is one of them."""
        record = line.record
        return (
            self.state in {None, record.state}
            and self.tool in {None, record.tool}
            and self.parent in {None, record.about.parent_request_id}
            and self.queue in {None, record.queue}
            and self.tenant in {None, record.tenant}
            and self.labels.items() <= record.about.labels.items()
            and (self.older_than_s is None or now_ms - record.changed_ms >= self.older_than_s * 1000)
            and (not self.stuck or line.why is not None)
        )

    @property
    def moved_to(self) -> frozenset[State]:
        """States of a last move that it may have."""
        if self.stuck:
            # What is held by a session that left nothing behind is in no list, and neither is what is parked.
            return HELD | {State.PARKED}
        return frozenset(State) if self.state is None else frozenset({self.state})


@dataclass(frozen=True, slots=True)
class Listing:
    """What was found, and how far was looked.

    Attributes:
        lines: what was found.
        more: more were found than are listed.
        cut: it was looked back no further, and there may be more before that.
        looked_back_to_ms: the oldest move that was looked at; server milliseconds; None: there was none.
        seen: how many transitions were looked at, wanted or not.
    """

    lines: tuple[Listed, ...]
    more: bool
    cut: bool
    looked_back_to_ms: int | None
    seen: int


async def list_transitions(  # noqa: PLR0913 - each narrows the list
    store: Store,
    *,
    state: State | None = None,
    tool: str | None = None,
    stuck: bool = False,
    parent: str | None = None,
    older_than_s: float | None = None,
    queue: str | None = None,
    tenant: str | None = None,
    labels: Mapping[str, str] | None = None,
    limit: int = 50,
    look_back: int = LOOK_BACK,
) -> list[Listed]:
    """List transitions; see `find_transitions`, which tells as well how far it looked."""
    wanted = Wanted(state, tool, stuck, parent, older_than_s, queue, tenant, labels or {})
    return list((await find_transitions(store, wanted, limit=limit, look_back=look_back)).lines)


async def find_transitions(store: Store, wanted: Wanted, *, limit: int = 50, look_back: int = LOOK_BACK) -> Listing:
    """Find transitions, the last changed first; stuck ones, the longest stuck first.

    Open ones are found through the lists that they are in, ended ones through the tail of the event stream: those that
    ended long ago are not found, but each can still be read by its id. Nothing is ever searched through whole.

    Args:
        store: the server.
        wanted: which ones.
        limit: at most so many.
        look_back: how many moves of the tail are looked at, and how many rows of the lists, at most.

    Raises:
        ServerError: the server could not be asked.
    """
    return await _Search(store, wanted, limit, look_back).run()


async def look_at(store: Store, request_id: str) -> Listed:
    """Read one transition, and how it stands.

    Raises:
        JobNotFoundError: nothing is on record under this id.
        ScriptError: the row was not written by this product.
        ServerError: the server could not be asked.
    """
    return (await _stand(store, [await read_record(store, request_id)]))[0]


class _Search:
    """One search.

    Args:
        store: the server.
        wanted: what is looked for.
        limit: at most so many are listed.
        look_back: at most so many moves, and so many rows of lists, are looked at.
    """

    def __init__(self, store: Store, wanted: Wanted, limit: int, look_back: int) -> None:
        self._store = store
        self._wanted = wanted
        self._limit = limit
        self._look_back = look_back
        self._seen: set[str] = set()
        self._tools: set[str] = set()
        self._found: list[Listed] = []
        self._cut = False
        self._back_to_ms: int | None = None

    async def run(self) -> Listing:
        """Look through the events, then through the lists."""
        async for moved in self._moved():
            await self._look(moved)
            if self._enough():
                break
        if not self._enough():
            await self._look_through_lists()
        lines = sorted(self._found, key=lambda line: line.record.changed_ms, reverse=not self._wanted.stuck)
        more = len(lines) > self._limit
        cut = self._cut and not self._enough()
        return Listing(tuple(lines[: self._limit]), more, cut, self._back_to_ms, len(self._seen))

    def _enough(self) -> bool:
        # Events come the last first; of what is stuck the longest is wanted, and it may come last.
        return not self._wanted.stuck and len(self._found) > self._limit

    async def _look(self, request_ids: Iterable[str]) -> None:
        new = [name for name in dict.fromkeys(request_ids) if name not in self._seen]
        self._seen.update(new)
        for at in range(0, len(new), _AT_ONCE):
            found = await asyncio.gather(*[_record(self._store, name) for name in new[at : at + _AT_ONCE]])
            records = [record for record in found if record is not None]
            self._tools |= {record.tool for record in records}
            now_ms = await read_now_ms(self._store)
            self._found += [line for line in await _stand(self._store, records) if self._wanted.takes(line, now_ms)]
            if self._enough():
                return

    async def _moved(self) -> AsyncGenerator[list[str]]:
        """Pages of ids from the tail of the events, the last moved first; the last move of each says its state."""
        last: set[str] = set()
        key, end, left = self._store.keys.events(), "+", self._look_back
        while left > 0:
            count = min(_PAGE, left)
            page = items(await self._store.calls.read("XREVRANGE", key, end, "-", "COUNT", count))
            moved: list[str] = []
            for entry in page:
                entry_id, fields = text(items(entry)[0]), items(items(entry)[1])
                end, self._back_to_ms = f"({entry_id}", int(entry_id.partition("-")[0])
                for request_id, to in _moves(fields):
                    if request_id not in last and to in self._wanted.moved_to:
                        moved.append(request_id)
                    last.add(request_id)
            yield moved
            left -= len(page)
            if len(page) < count:
                return
        self._cut = bool(await self._store.calls.read("XREVRANGE", key, end, "-", "COUNT", 1))

    async def _look_through_lists(self) -> None:
        lists = await self._lists()
        # The head of each before the rest of any: those have waited longest.
        ids = list(dict.fromkeys(name for row in zip_longest(*lists) for name in row if name is not None))
        new = [name for name in ids if name not in self._seen]
        self._cut |= len(new) > self._look_back
        await self._look(new[: self._look_back])

    async def _lists(self) -> Sequence[Sequence[str]]:
        """Ids from the lists that open transitions are in."""
        keys, state, last = self._store.keys, self._wanted.state, self._look_back
        known = {text(name) for name in items(await self._store.calls.read("HKEYS", keys.tools()))}
        tools = sorted({self._wanted.tool} if self._wanted.tool is not None else self._tools | known)
        now_ms = await read_now_ms(self._store)
        due_ms = now_ms - OVERDUE_MS if self._wanted.stuck else "+inf"
        # They become ready in this order: where the head is not stuck, what comes after it is not.
        ready = self._limit if self._wanted.stuck and self._wanted.parent is None else last
        reads: list[tuple[str | int, ...]] = []
        if state in {None, State.UNKNOWN}:
            reads += [("ZRANGE", keys.unknown(tool), 0, last) for tool in tools]
        if state in {None, State.DELAYED}:
            reads.append(("ZRANGEBYSCORE", keys.delayed(), "-inf", due_ms, "LIMIT", 0, last + 1))
        replies = await asyncio.gather(*[self._store.calls.read(*words) for words in reads])
        lists = [[text(value) for value in items(reply)] for reply in replies]
        if state in {None, State.READY}:
            lists += await read_ready_ids(self._store, tools, ready)
        return lists + (await _held(self._store) if state is None or state in HELD else [])


async def _stand(store: Store, records: list[Record]) -> list[Listed]:
    """Tell how transitions stand, in their order."""
    now_ms = await read_now_ms(store)
    delayed = [record.request_id for record in records if record.state is State.DELAYED]
    scores = await asyncio.gather(*[store.calls.read("ZSCORE", store.keys.delayed(), name) for name in delayed])
    due = {
        name: None if score is None else int(float(text(score))) for name, score in zip(delayed, scores, strict=True)
    }
    # Only what is ready can wait for somebody to come, or for an order to be lifted.
    fleet = await read_fleet(store) if any(record.state is State.READY for record in records) else Fleet()
    listed: list[Listed] = []
    for record, standing in zip(records, await read_standings(store, records), strict=True):
        why = stuck(record, standing.liveness, now_ms, due.get(record.request_id))
        listed.append(Listed(record, standing.liveness, why, next_action(record, standing, fleet)))
    return listed


async def _held(store: Store) -> list[list[str]]:
    sessions = [text(value) for value in items(await store.calls.read("ZRANGE", store.keys.sessions(), 0, -1))]
    replies = await asyncio.gather(*[store.calls.read("HKEYS", store.keys.held(session)) for session in sessions])
    return [[text(value) for value in items(reply)] for reply in replies]


async def _record(store: Store, request_id: str) -> Record | None:
    try:
        return await read_record(store, request_id)
    except (JobNotFoundError, ScriptError):
        return None  # its retention is over, or it is not a row of ours


def _moves(fields: list[object]) -> list[tuple[str, str]]:
    named = {text(fields[at]): text(fields[at + 1]) for at in range(0, len(fields) - 1, 2)}
    rows = [line.split("\t") for line in named.get("moves", "").split("\n")]
    return [(row[0], row[2]) for row in reversed(rows) if len(row) > 2]  # noqa: PLR2004 - id, from, to, fence, why
