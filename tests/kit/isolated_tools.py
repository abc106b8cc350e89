"""Tools that say what they share with others, and how far they have come."""

from __future__ import annotations

import asyncio
import contextvars
import os
import re
import subprocess
import threading
import time
from pathlib import Path

from mycelium.actors.progress_call import progress
from mycelium.actors.tool import tool
from mycelium.leases.errors import NotExecuted, Retry, Snooze

_PAIR = threading.Barrier(2)


def _until_gone(gate: str) -> None:
    while Path(gate).exists():
        time.sleep(0.01)


@tool(effect_class="read")
async def hang() -> None:
    await asyncio.Event().wait()


@tool(effect_class="read")
async def pid() -> int:
    return os.getpid()


@tool(effect_class="read")
def wait_in_thread(gate: str) -> int:
    _until_gone(gate)
    return os.getpid()


@tool(effect_class="read")
def hang_in_thread() -> None:
    threading.Event().wait()


@tool(effect_class="read")
def hold_the_gil() -> None:
    re.match(r"(a+)+$", "a" * 60 + "b")


@tool(effect_class="read")
async def block_the_loop(gate: str) -> None:
    _until_gone(gate)


@tool(effect_class="read", isolation="host")
def meet_alone() -> list[object]:
    """Wait for a second one, which must not come."""
    try:
        _PAIR.wait(0.3)
    except threading.BrokenBarrierError:
        _PAIR.reset()
        return ["alone", threading.get_ident()]
    return ["met", threading.get_ident()]


@tool(effect_class="read", isolation="host")
def wait_alone(gate: str) -> str:
    _until_gone(gate)
    return "waited"


@tool(effect_class="read", isolation="process")
def hang_apart(tell: str = "") -> None:
    """Start a program that tells its process id, and never end."""
    if tell:
        subprocess.run(["/bin/sh", "-c", 'echo $$ > "$0"; exec sleep 600', tell], check=False)
    threading.Event().wait()


@tool(effect_class="read", isolation="process")
def pid_apart() -> int:
    return os.getpid()


@tool(effect_class="read", isolation="process")
async def finish_apart_when_cancelled() -> str:
    try:
        await asyncio.Event().wait()
    except asyncio.CancelledError:
        return "it was done after all"
    return ""


@tool(effect_class="read", isolation="process")
async def hang_apart_stubbornly() -> None:
    while True:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            continue


@tool(effect_class="read", isolation="process")
async def fail_apart_beside_a_task() -> None:
    async def other() -> None:
        await asyncio.Event().wait()

    async def failing() -> None:
        await asyncio.sleep(0)
        raise OSError

    await asyncio.gather(other(), failing())


# ── progress ─────────────────────────────────────────────────────────────────────────────────────────────────────────


@tool(effect_class="read")
async def count_up(to: int, note: str = "") -> None:
    for done in range(1, to + 1):
        await progress(done, to, note)


@tool(effect_class="read")
def count_up_plain(to: int) -> None:
    for done in range(1, to + 1):
        progress(done, to)


@tool(effect_class="read")
async def count_up_elsewhere() -> None:
    await asyncio.to_thread(progress, 1, 2, "in a thread")


@tool(effect_class="read")
async def report_after_the_end() -> None:
    context = contextvars.copy_context()
    asyncio.get_running_loop().call_later(0.05, lambda: context.run(lambda: progress(9)))


@tool(effect_class="read")
async def report_until_gone(gate: str) -> str:
    while Path(gate).exists():  # noqa: ASYNC240 - a local file
        progress(1)
        await asyncio.sleep(0.02)
    return "reported"


@tool(effect_class="read")
def report_until_gone_plain(gate: str) -> str:
    while Path(gate).exists():
        progress(1)
        time.sleep(0.02)
    return "reported"


@tool(effect_class="read")
def report_in_a_fork() -> int:
    child = os.fork()
    if child == 0:
        progress(1)
        os._exit(3)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


# ── what errors say of being run again ───────────────────────────────────────────────────────────────────────────────

_SECONDS = {"nan": float("nan"), "inf": float("inf"), "huge": 10**400, "text": "5", "true": True}


class BadAddressError(Exception):
    pass


@tool(effect_class="read", non_retryable=BadAddressError)
def fail(how: str, after: str = "5") -> None:
    seconds: object = _SECONDS.get(after) if after in _SECONDS else float(after)
    errors: dict[str, BaseException] = {
        "refused": NotExecuted("429", retry_after_s=seconds),  # type: ignore[arg-type]
        "refused for good": NotExecuted("402"),
        "snooze": Snooze(seconds),  # type: ignore[arg-type]
        "retry": Retry("try later", after_s=seconds),  # type: ignore[arg-type]
        "bad address": BadAddressError(),
        "plain": ValueError(),
    }
    raise errors[how]


@tool(effect_class="read", timeout_s=60)
async def wish_when_cancelled() -> None:
    try:
        await asyncio.Event().wait()
    except asyncio.CancelledError:
        raise Retry("later", after_s=5) from None


# ── in a whole worker ────────────────────────────────────────────────────────────────────────────────────────────────


@tool(effect_class="non_idempotent_mutate", isolation="process", timeout_s=1)
def charge_apart_and_hang(book: str) -> None:
    leave_line(book)
    threading.Event().wait()


@tool(effect_class="read", isolation="process", timeout_s=1, max_timeouts=2, retry_delay_s=0.01)
def look_apart_and_hang(book: str) -> None:
    leave_line(book)
    threading.Event().wait()


@tool(effect_class="idempotent_mutate", timeout_s=0.2, retry_delay_s=0.01)
def put_slowly(book: str, gate: str) -> str:
    leave_line(book)
    _until_gone(gate)
    leave_line(book)
    return "put"


@tool(effect_class="non_idempotent_mutate")
async def charge(book: str) -> str:
    leave_line(book)
    return "charged"


@tool(effect_class="read", retry_delay_s=0.01)
async def block_until_gone(book: str, gate: str) -> None:
    leave_line(book)
    _until_gone(gate)


def leave_line(book: str) -> None:
    """Write the process down."""
    with Path(book).open("a", encoding="ascii") as lines:
        lines.write(f"{os.getpid()}\n")
