"""Tools for the public failures of worker pools, beside those of the pool; the book tells when each body ran."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

from chaos.pool_tools import charge_slowly, tell, think_alone, think_and_charge
from chaos.tools import charge, charge_asked, charge_marked, leave_trace, put, read_traces, refuse

from mycelium.actors.tool import tool
from mycelium.leases.errors import Retry

__all__ = [
    "charge",
    "charge_asked",
    "charge_marked",
    "charge_slowly",
    "put",
    "refuse",
    "think_alone",
    "think_and_charge",
]

BIG = 64 << 20


def told(book: str | Path, what: str) -> dict[str, list[float]]:
    """When each key told so, on the machine's boot clock."""
    found: dict[str, list[float]] = {}
    for line in sorted(read_traces(book)):
        key, _, rest = line.partition(" ")
        word, _, at = rest.partition(" ")
        if word == what:
            found.setdefault(key, []).append(float(at))
    return {key: sorted(times) for key, times in found.items()}


@tool(effect_class="read", timeout_s=60)
async def watch(book: str, key: str, seconds: float = 0.0) -> float:
    """A read: whoever takes its holder for lost starts it again, and the book tells. Its result is when it began."""
    began_s = round(time.clock_gettime(time.CLOCK_BOOTTIME), 6)
    leave_trace(book, f"{key} begin {began_s:.6f}")
    await asyncio.sleep(seconds)
    leave_trace(book, key)
    return began_s


@tool(effect_class="idempotent_mutate", timeout_s=0.3, max_timeouts=2, retry_delay_s=0.01)
def overrun(book: str, key: str, seconds: float = 1.0) -> None:
    """Plain code that nobody can stop: its effect comes long after its time is over."""
    tell(book, key, "begin")
    time.sleep(seconds)
    leave_trace(book, key)
    tell(book, key, "end")
    raise ConnectionError


@tool(effect_class="idempotent_mutate", timeout_s=0.3, max_timeouts=2, retry_delay_s=0.01, isolation="process")
def overrun_alone(book: str, key: str, seconds: float = 1.0) -> None:
    tell(book, key, "begin")
    time.sleep(seconds)
    leave_trace(book, key)


@tool(effect_class="non_idempotent_mutate", timeout_s=60)
def answer_at_length(book: str, key: str, size: int = BIG) -> str:
    leave_trace(book, key)
    return "x" * size


@tool(effect_class="non_idempotent_mutate", timeout_s=30)
async def charge_at_once(book: str, key: str, seconds: float = 0.0) -> str:
    """Has had its effect when somebody cancels it."""
    leave_trace(book, key)
    await asyncio.sleep(seconds)
    return key


@tool(effect_class="non_idempotent_mutate", timeout_s=0.2)
async def charge_and_hang(book: str, key: str) -> None:
    leave_trace(book, key)
    await asyncio.sleep(60)


@tool(effect_class="read", max_attempts=4, retry_delay_s=0.01)
async def be_told_to_wait(book: str, key: str, after_s: float) -> None:
    """Never succeeds, and says each time when to ask again."""
    tell(book, key, "begin")
    said = f"{key} is not there yet"
    raise Retry(said, after_s=after_s)


@tool(effect_class="read", max_attempts=1)
async def fail_by_name(book: str, key: str, name: str) -> None:
    """Raises an error whose class has a name that the caller made up."""
    del book
    await asyncio.sleep(0)
    raise type(name, (Exception,), {})(key)


@tool(effect_class="read")
async def count_one(n: int) -> int:
    return n
