"""Tools that fork, cancel themselves, lie, and act where their host cannot see it."""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import subprocess
import sys
from pathlib import Path
from typing import NoReturn

from mycelium.actors.client import connect
from mycelium.actors.effect import side_effect
from mycelium.actors.hosts.frames import Done, Mark, Outcome, append_frame
from mycelium.actors.tool import tool
from mycelium.leases.errors import BoundaryError, SettingsError
from mycelium.ledger.states import Boundary


@tool(effect_class="read")
async def echo(value: object = None) -> object:
    return value


@tool(effect_class="read")
async def hang() -> None:
    await asyncio.Event().wait()


# ── cancellation ─────────────────────────────────────────────────────────────────────────────────────────────────────


def _cancel_myself() -> None:
    task = asyncio.current_task()
    assert task is not None
    task.cancel()


@tool(effect_class="non_idempotent_mutate")
async def cancel_itself_and_return() -> str:
    await asyncio.sleep(0)
    _cancel_myself()
    return "done"


@tool(effect_class="non_idempotent_mutate")
async def cancel_itself_at_once() -> str:
    _cancel_myself()
    return "done"


@tool(effect_class="non_idempotent_mutate")
async def cancel_itself_and_raise() -> str:
    _cancel_myself()
    raise ConnectionResetError


@tool(effect_class="non_idempotent_mutate")
async def cancel_itself_and_wait() -> None:
    _cancel_myself()
    await asyncio.sleep(0)


# ── forks ────────────────────────────────────────────────────────────────────────────────────────────────────────────


@tool(effect_class="read")
async def fork_async(then: str) -> int:
    """The child goes on as if it were the tool. Tells its exit code."""
    child = os.fork()
    if child == 0:
        if then == "wait":
            await asyncio.sleep(0.05)
        if then == "raise":
            raise RuntimeError
        return -1
    return await asyncio.to_thread(_exit_code, child)


@tool(effect_class="read")
def fork_plain(then: str) -> int:
    child = os.fork()
    if child == 0:
        if then == "raise":
            raise RuntimeError
        return -1
    return _exit_code(child)


def _exit_code(child: int) -> int:
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


@tool(effect_class="read")
async def leave_three_lines(book: str) -> None:
    """Three steps, and who takes them."""
    for _ in range(3):
        with Path(book).open("a", encoding="ascii") as lines:  # noqa: ASYNC230 - a local file
            lines.write(f"{os.getpid()}\n")
        await asyncio.sleep(0)


@tool(effect_class="non_idempotent_mutate", boundary="explicit")
def charge_in_a_fork() -> str:
    child = os.fork()
    if child == 0:
        try:
            with side_effect():
                os._exit(1)
        except BoundaryError:
            os._exit(2)
    return {1: "charged", 2: "BoundaryError"}[_exit_code(child)]


@tool(effect_class="read")
async def compute_in_a_forked_process() -> int | None:
    work = multiprocessing.get_context("fork").Process(target=_exit, args=(7,))
    work.start()
    await asyncio.to_thread(work.join)
    return work.exitcode


def _exit(code: int) -> NoReturn:
    sys.exit(code)


@tool(effect_class="read")
async def tell_lies(about: int) -> None:
    """As a copy of this host would, whose own run in that slot was over long ago."""
    lies = bytearray()
    append_frame(lies, Mark(about, 1, Boundary.MAYBE_CROSSED, "pi_lie", "old"))
    append_frame(lies, Done(about, Outcome.COMPLETED, Boundary.CROSSED, b'"lie"', fence="old"))
    append_frame(lies, Done(about, Outcome.COMPLETED, Boundary.CROSSED, b'"lie"'))
    os.write(int(sys.argv[1]), lies)


# ── programs, and what hides an effect ───────────────────────────────────────────────────────────────────────────────

_CHARGE = """
from mycelium import side_effect, record_external_operation
for act in (side_effect, lambda: record_external_operation("pi_1")):
    try: act()
    except Exception as error: print(type(error).__name__)
"""


@tool(effect_class="non_idempotent_mutate")
def charge_in_a_program() -> list[str]:
    told = subprocess.run([sys.executable, "-c", _CHARGE], check=True, capture_output=True, text=True)
    return told.stdout.split()


@tool(effect_class="non_idempotent_mutate")
def charge_automatic() -> str:
    return "charged"


@tool(effect_class="idempotent_mutate")
async def put() -> str:
    return "put"


@tool(effect_class="read")
async def read_that_charges(how: str) -> str:
    if how == "put":
        return await put()
    if how == "thread":
        return await asyncio.to_thread(charge_automatic)
    return charge_automatic()


@tool(effect_class="irreversible")
async def strong_tool_that_calls_weaker_ones() -> list[object]:
    return [await put(), charge_automatic(), await echo(1)]


@tool(effect_class="read")
async def connect_without_a_url() -> str:
    try:
        async with connect():
            return "connected"
    except SettingsError as error:
        return type(error).__name__


@tool(effect_class="read")
def spawn_and_wait(tell: str) -> None:
    """Run a program that tells its process id."""
    subprocess.run(["/bin/sh", "-c", 'echo $$ > "$0"; exec sleep 600', tell], check=False)
