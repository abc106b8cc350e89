"""What waits, why, and whether anybody is there to take it: one look at the queues, for people."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass, field

from ..leases.store import Store
from .facets import facet
from .fleet import Fleet, read_fleet
from .line import Priority
from .orders import Pause, Strike
from .record import read_now_ms
from .replies import integer, items, text
from .waiting import Gate, GateKind, Waiting, read_gates, read_queues, read_waiting

TENANTS = 100
"""Tenants of one shelf whose first jobs are looked at for the oldest."""


@dataclass(frozen=True, slots=True)
class Shelf:
    """The jobs of one queue, tool and priority that wait for a worker.

    Attributes:
        queue: the queue.
        tool: the tool.
        priority: the priority.
        jobs: how many wait.
        oldest_s: for how long the oldest has been ready, of the first one of each tenant; None: it has just gone.
        whole: the first ones of all tenants were looked at for it.
        pause: what keeps them back; None: nothing does.
        know: how many live workers know the tool.
        take: how many of them take from the queue, and are not quiet.
    """

    queue: str
    tool: str
    priority: Priority
    jobs: int
    oldest_s: float | None
    whole: bool
    pause: Pause | None
    know: int
    take: int


@dataclass(frozen=True, slots=True)
class Held:
    """Jobs that wait under one key.

    Attributes:
        gate: the key, and how many wait and run under it.
        strike: the order that made it; None: no strike did, or it was lifted.
    """

    gate: Gate
    strike: Strike | None = field(default=None)


@dataclass(frozen=True, slots=True)
class Backlog:
    """What waits now.

    Attributes:
        shelves: in order of queue, priority and tool.
        held: by kind and key.
        fleet: who lives, and what an operator ordered.
    """

    shelves: tuple[Shelf, ...]
    held: tuple[Held, ...]
    fleet: Fleet


async def read_backlog(store: Store) -> Backlog:
    """Look at the queues.

    Raises:
        ServerError: the store could not be asked.
    """
    queues, gates, fleet = await asyncio.gather(read_queues(store), read_gates(store), read_fleet(store))
    waiting = await read_waiting(store, queues)
    now_ms = await read_now_ms(store)
    shelves = await asyncio.gather(*[_shelf(store, one, fleet, now_ms) for one in waiting])
    struck = {f"{one.tool}:{facet(one.parameter, json.loads(one.value))}": one for one in fleet.orders.strikes}
    held = [Held(gate, struck.get(gate.key) if gate.kind is GateKind.STRIKE else None) for gate in gates]
    return Backlog(
        tuple(sorted(shelves, key=lambda one: (one.queue, one.priority.level, one.tool))),
        tuple(sorted(held, key=lambda one: (one.gate.kind, one.gate.key))),
        fleet,
    )


async def _shelf(store: Store, waiting: Waiting, fleet: Fleet, now_ms: int) -> Shelf:
    since_ms, whole = await _oldest_ms(store, waiting)
    queue, tool = waiting.queue, waiting.tool
    return Shelf(
        queue,
        tool,
        waiting.priority,
        waiting.jobs,
        oldest_s=None if since_ms is None else max(0, now_ms - since_ms) / 1000,
        whole=whole,
        pause=fleet.pause_on(queue, tool),
        know=len(fleet.that_know(tool)),
        take=len(fleet.that_take(queue, tool)),
    )


async def _oldest_ms(store: Store, waiting: Waiting) -> tuple[int | None, bool]:
    """Since when the oldest of the first ones is ready, and whether there were no more first ones to look at."""
    keys, read = store.keys, store.calls.read
    shelf = f"{waiting.queue}:{waiting.priority.level}:{waiting.tool}"
    tenants = [text(name) for name in items(await read("ZRANGE", keys.rota(shelf), 0, TENANTS))]
    heads = await asyncio.gather(*[read("ZRANGE", keys.line(f"{shelf}:{name}"), 0, 0) for name in tenants[:TENANTS]])
    rows = [keys.row(text(items(head)[0])) for head in heads if items(head)]
    lengths = await asyncio.gather(*[read("HGET", row, "n") for row in rows])
    entries = await asyncio.gather(
        *[read("HGET", row, f"h{text(length or b'0')}") for row, length in zip(rows, lengths, strict=True)]
    )
    since = [integer(text(entry).partition(" ")[0]) for entry in entries if entry is not None]
    return min(since, default=None), len(tenants) <= TENANTS
