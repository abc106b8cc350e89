"""What waits, and where: counted by queue, tool and priority, as the scripts keep it; for people and for health."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import StrEnum

from ..leases.store import Store
from .line import Priority
from .replies import integer, items, mapping, text

_PRIORITIES = tuple(Priority)


@dataclass(frozen=True, slots=True)
class Waiting:
    """Ready jobs of one queue, tool and priority that stand in their lines.

    Attributes:
        queue: the queue.
        tool: the tool.
        priority: the priority.
        jobs: how many.
    """

    queue: str
    tool: str
    priority: Priority
    jobs: int


class GateKind(StrEnum):
    """What a ready job may have to wait for."""

    CONCURRENCY = "concurrency"
    """One of those that are held under its key has to end."""
    RATE = "rate"
    """What it costs has to come in again."""
    STRIKE = "strike"
    """Somebody has to lift the strike on one of its arguments."""
    PAUSE = "pause"
    """Somebody has to resume its queue or its tool; it was woken for another key meanwhile."""


@dataclass(frozen=True, slots=True)
class Gate:
    """Ready jobs that wait for room under one key.

    Attributes:
        kind: what they wait for.
        key: the key; of a strike, the tool and the digest of the argument.
        jobs: how many wait.
        running: how many are held under it now, for a concurrency key.
    """

    kind: GateKind
    # It is made of arguments, and a repr ends up in logs.
    key: str = field(repr=False)
    jobs: int
    running: int


_KINDS = {kind.value[0]: kind for kind in GateKind}


def kind_and_key(name: str) -> tuple[GateKind, str]:
    """Take the name of a gate apart, as a row and the indexes have it.

    Raises:
        ValueError: no gate is named so.
    """
    kind, colon, key = name.partition(":")
    if not colon or kind not in _KINDS:
        raise ValueError(name)
    return _KINDS[kind], key


async def read_queues(store: Store) -> list[str]:
    """The queues that jobs have waited in.

    Raises:
        ServerError: the store could not be asked.
    """
    return sorted(text(name) for name in items(await store.calls.read("SMEMBERS", store.keys.queues())))


async def read_waiting(store: Store, queues: Iterable[str]) -> list[Waiting]:
    """Count the ready jobs of queues, without those that wait under a key.

    Raises:
        ServerError: the store could not be asked.
    """
    names = list(queues)
    replies = await asyncio.gather(*[store.calls.read("HGETALL", store.keys.waiting(name)) for name in names])
    found: list[Waiting] = []
    for queue, reply in zip(names, replies, strict=True):
        for shelf, jobs in sorted(mapping(reply).items()):
            level, _, tool = shelf.partition(":")
            found.append(Waiting(queue, tool, _PRIORITIES[int(level)], int(jobs)))
    return found


async def read_gates(store: Store, most: int = 100) -> list[Gate]:
    """The keys that ready jobs wait for, at most so many of each kind.

    Raises:
        ServerError: the store could not be asked.
    """
    keys, read = store.keys, store.calls.read
    timed, full, struck, paused = await asyncio.gather(
        read("ZRANGE", keys.gates(), 0, most - 1),
        read("ZRANGE", keys.full(), 0, most - 1),
        read("HKEYS", keys.strikes()),
        read("HKEYS", keys.paused()),
    )
    names = {text(name) for reply in (timed, full) for name in items(reply)}
    names |= {f"s:{text(name)}" for name in items(struck)[:most]} | {f"p:{text(name)}" for name in items(paused)[:most]}
    ordered = sorted(names)
    counts = await asyncio.gather(*[read("ZCARD", keys.gate(name)) for name in ordered])
    running = await asyncio.gather(*[read("SCARD", keys.running(name[2:])) for name in ordered])
    return [
        Gate(*kind_and_key(name), integer(jobs), integer(held) if name[0] == "c" else 0)
        for name, jobs, held in zip(ordered, counts, running, strict=True)
        if integer(jobs)
    ]


async def read_ready_ids(store: Store, tools: Iterable[str] | None, most: int) -> list[list[str]]:
    """Ids of ready jobs, the first ones of each line and of each key that some wait for.

    Args:
        store: the server.
        tools: of these tools; None: of all. What waits for a key is listed whatever its tool.
        most: ids of one line at the most, and lines at the most.

    Raises:
        ServerError: the store could not be asked.
    """
    keys, read = store.keys, store.calls.read
    wanted = None if tools is None else set(tools)
    shelves = [
        f"{one.queue}:{one.priority.level}:{one.tool}"
        for one in await read_waiting(store, await read_queues(store))
        if wanted is None or one.tool in wanted
    ]
    rotas = await asyncio.gather(*[read("ZRANGE", keys.rota(shelf), 0, most) for shelf in shelves])
    lines = [f"{shelf}:{text(tenant)}" for shelf, rota in zip(shelves, rotas, strict=True) for tenant in items(rota)][
        : most + 1
    ]
    gates = [f"{gate.kind[0]}:{gate.key}" for gate in await read_gates(store, most)]
    replies = await asyncio.gather(
        *[read("ZRANGE", keys.line(line), 0, most) for line in lines],
        *[read("ZRANGE", keys.gate(gate), 0, most) for gate in gates],
    )
    return [[text(name) for name in items(reply)] for reply in replies]
