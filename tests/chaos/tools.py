"""Tools that leave a trace of each effect: one appended line. A gated one then waits until the test opens its gate."""

from __future__ import annotations

import asyncio
import ctypes
import fcntl
import os
import time
from collections import Counter
from pathlib import Path

from mycelium.actors.effect import side_effect
from mycelium.actors.tool import tool
from mycelium.leases.errors import NotExecuted
from mycelium.reconcilers.protocol import Lookup
from mycelium.reconcilers.verdict import Verdict

TIMEOUT_S = 1.5


def leave_trace(book: str, key: str) -> None:
    """The effect: whole or not at all, whoever else writes."""
    descriptor = os.open(book, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    try:
        os.write(descriptor, f"{key}\n".encode())
    finally:
        os.close(descriptor)


def read_traces(book: str | Path) -> Counter[str]:
    """How often each effect happened."""
    try:
        return Counter(Path(book).read_text(encoding="utf-8").splitlines())
    except FileNotFoundError:
        return Counter()


def pass_gate(gate: str) -> None:
    """Wait in the kernel while the test holds the gate's lock."""
    if gate:
        descriptor = os.open(gate, os.O_RDONLY)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_SH)
        finally:
            os.close(descriptor)


def act(book: str, key: str, gate: str, seconds: float) -> str:
    """An effect in the middle of some seconds of work."""
    time.sleep(seconds / 2)
    leave_trace(book, key)
    time.sleep(seconds / 2)
    pass_gate(gate)
    return key


class Book:
    """The adapter: it reads what the tools wrote, and what it reads is always up to date."""

    lag_s = 0.1

    def reconcile(self, lookup: Lookup) -> Verdict:
        key = str(lookup.arguments["key"])
        seen = read_traces(str(lookup.arguments["book"]))[key]
        if seen:
            return Verdict.completed(key, {"seen": seen})
        return Verdict.not_executed({"seen": 0})


@tool(effect_class="read", timeout_s=30)
def look(book: str, key: str, gate: str = "", seconds: float = 0.0) -> str:
    return act(book, key, gate, seconds)


@tool(effect_class="idempotent_mutate", timeout_s=30)
def put(book: str, key: str, gate: str = "", seconds: float = 0.0) -> str:
    return act(book, key, gate, seconds)


@tool(effect_class="non_idempotent_mutate", timeout_s=30)
def charge(book: str, key: str, gate: str = "", seconds: float = 0.0) -> str:
    return act(book, key, gate, seconds)


@tool(effect_class="non_idempotent_mutate", timeout_s=TIMEOUT_S, reconciler=Book())
def charge_asked(book: str, key: str, gate: str = "", seconds: float = 0.0) -> str:
    return act(book, key, gate, seconds)


@tool(effect_class="non_idempotent_mutate", boundary="explicit", timeout_s=30)
def charge_marked(book: str, key: str, gate: str = "", seconds: float = 0.0) -> str:
    with side_effect():
        return act(book, key, gate, seconds)


@tool(effect_class="non_idempotent_mutate", boundary="explicit", timeout_s=TIMEOUT_S, reconciler=Book())
async def charge_marked_asked(book: str, key: str, gate: str = "", seconds: float = 0.0) -> str:
    async with side_effect():
        return await asyncio.to_thread(act, book, key, gate, seconds)


@tool(effect_class="non_idempotent_mutate", boundary="explicit", timeout_s=30)
def charge_after_gate(book: str, key: str, gate: str = "", seconds: float = 0.0) -> str:
    pass_gate(gate)
    with side_effect():
        return act(book, key, "", seconds)


@tool(effect_class="non_idempotent_mutate", timeout_s=30)
def refuse(book: str, key: str, seconds: float = 0.0) -> None:
    del book
    time.sleep(seconds)
    said = f"{key}: card declined"
    raise NotExecuted(said)


@tool(effect_class="non_idempotent_mutate", timeout_s=60)
async def block_the_loop(book: str, key: str, seconds: float) -> str:
    leave_trace(book, key)
    time.sleep(seconds)  # noqa: ASYNC251 - rude on purpose
    return key


@tool(effect_class="non_idempotent_mutate", timeout_s=60)
def hold_the_gil(book: str, key: str, seconds: int) -> str:
    """A call into C that does not let the interpreter go, as long as it lasts."""
    leave_trace(book, key)
    ctypes.PyDLL(None).sleep(seconds)
    return key


@tool(effect_class="non_idempotent_mutate", timeout_s=60)
def eat_memory(book: str, key: str) -> str:
    leave_trace(book, key)
    eaten: list[bytes] = []
    while len(eaten) < 40:
        eaten.append(b"x" * (16 << 20))
        time.sleep(0.02)
    time.sleep(30)
    return key
