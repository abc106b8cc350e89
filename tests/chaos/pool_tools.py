"""Tools for the worker pool: each tells in the book when it began and when it ended, on the machine's boot clock."""

from __future__ import annotations

import asyncio
import time
from itertools import count

from chaos.tools import leave_trace, pass_gate

from mycelium.actors.context import current_call
from mycelium.actors.effect import side_effect
from mycelium.actors.progress_call import progress
from mycelium.actors.tool import tool
from mycelium.leases.errors import NotExecuted, Retry, Snooze
from mycelium.ledger.limits import Concurrency, Rate


def tell(book: str, key: str, what: str) -> None:
    leave_trace(book, f"{key} {what} {time.clock_gettime(time.CLOCK_BOOTTIME):.6f}")


@tool(effect_class="read")
async def look(book: str, key: str, seconds: float = 0.0) -> str:
    tell(book, key, "begin")
    await asyncio.sleep(seconds)
    tell(book, key, "end")
    return key


@tool(effect_class="read", limits=[Concurrency("mailbox:{mailbox}", 2)])
async def look_in(book: str, key: str, mailbox: str, seconds: float = 0.0) -> str:
    tell(book, f"{mailbox}/{key}", "begin")
    await asyncio.sleep(seconds)
    tell(book, f"{mailbox}/{key}", "end")
    return key


@tool(effect_class="read", limits=[Rate("account", 20, burst=5, cost="cost")])
async def spend(book: str, key: str, cost: int = 1) -> str:
    tell(book, key, f"spent-{cost}")
    return key


@tool(effect_class="non_idempotent_mutate", timeout_s=30)
async def charge_slowly(book: str, key: str, seconds: float = 20.0) -> str:
    tell(book, key, "begin")
    await asyncio.sleep(seconds)
    leave_trace(book, key)
    return key


@tool(effect_class="non_idempotent_mutate", boundary="explicit", timeout_s=30)
async def think_and_charge(book: str, key: str, seconds: float = 20.0) -> str:
    tell(book, key, "begin")
    await asyncio.sleep(seconds)
    async with side_effect():
        leave_trace(book, key)
    return key


@tool(effect_class="non_idempotent_mutate", boundary="explicit", timeout_s=2, isolation="process")
def think_alone(book: str, key: str, gate: str) -> str:
    tell(book, key, "begin")
    pass_gate(gate)
    with side_effect():
        leave_trace(book, key)
    return key


@tool(effect_class="read", timeout_s=60)
async def count_up(book: str, key: str, to: int) -> str:
    del book
    for done in range(to + 1):
        await progress(done, to, f"{key} at {done}")
        await asyncio.sleep(0.05)
    await asyncio.sleep(60)
    return key


@tool(effect_class="read", timeout_s=60, idle_timeout_s=0.5, max_timeouts=2, retry_delay_s=0.01)
async def go_silent(book: str, key: str) -> None:
    tell(book, key, "begin")
    for done in range(5):
        await progress(done)
        await asyncio.sleep(0.2)
    await asyncio.sleep(60)


@tool(effect_class="read", timeout_s=60)
async def tell_what_is_left(book: str, key: str) -> float:
    del book, key
    return current_call().deadline_s


_asked = count(1)


@tool(effect_class="non_idempotent_mutate", max_attempts=2)
async def wait_for_the_bank(book: str, key: str, snoozes: int) -> int:
    """Snoozes more often than it may be attempted, then does it."""
    asked = next(_asked)
    tell(book, key, "asked")
    if asked <= snoozes:
        raise Snooze(0.05)
    leave_trace(book, key)
    return asked


@tool(effect_class="non_idempotent_mutate", max_attempts=3)
async def be_declined(book: str, key: str, after_s: float) -> None:
    tell(book, key, "asked")
    said = "the provider is busy, and says that nothing was done"
    raise NotExecuted(said, retry_after_s=after_s)


@tool(effect_class="read", max_attempts=3)
async def be_told_when(book: str, key: str, after_s: float) -> None:
    tell(book, key, "asked")
    said = "too many requests"
    raise Retry(said, after_s=after_s)


@tool(effect_class="read", max_attempts=5, retry_delay_s=0.01, non_retryable=(KeyError, PermissionError))
async def fail_for_good(book: str, key: str) -> None:
    tell(book, key, "asked")
    raise PermissionError
