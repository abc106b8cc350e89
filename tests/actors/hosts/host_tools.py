"""Tools that the hosts of these tests run: well-behaved, rude and broken ones."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from mycelium.actors.context import current_call
from mycelium.actors.effect import record_external_operation, side_effect
from mycelium.actors.tool import tool
from mycelium.leases.errors import BoundaryError, NotExecuted
from mycelium.reconcilers.protocol import Lookup
from mycelium.reconcilers.verdict import Verdict


@tool(effect_class="read")
async def echo(value: object = None) -> object:
    return value


@tool(effect_class="read")
def echo_plain(value: object = None) -> object:
    return value


@tool(effect_class="read")
def meet(parties: int) -> str:
    """Return only when so many threads are inside at a time."""
    _barrier(parties).wait(10)
    return threading.current_thread().name


_barriers: dict[int, threading.Barrier] = {}


def _barrier(parties: int) -> threading.Barrier:
    return _barriers.setdefault(parties, threading.Barrier(parties))


@tool(effect_class="read")
async def hang() -> None:
    await asyncio.Event().wait()


@tool(effect_class="read", timeout_s=5)
async def hang_stubbornly() -> None:
    while True:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            continue


@tool(effect_class="read")
async def finish_when_cancelled() -> str:
    try:
        await asyncio.Event().wait()
    except asyncio.CancelledError:
        return "it was done after all"
    return ""


@tool(effect_class="read")
def hang_plain() -> None:
    threading.Event().wait()


@tool(effect_class="read")
async def block_the_loop(seconds: float) -> None:
    time.sleep(seconds)  # noqa: ASYNC251 - rude on purpose


@tool(effect_class="read")
def hold_the_gil() -> None:
    re.match(r"(a+)+$", "a" * 60 + "b")


@tool(effect_class="read")
def eat_memory() -> None:
    eaten: list[bytes] = []
    while len(eaten) < 64:
        eaten.append(b"x" * (16 << 20))
        threading.Event().wait(0.02)
    threading.Event().wait()


@tool(effect_class="read")
async def raise_async(what: str) -> None:
    raise _error(what)


@tool(effect_class="read")
def raise_plain(what: str) -> None:
    raise _error(what)


def _error(what: str) -> BaseException:
    kinds: dict[str, BaseException] = {
        "SystemExit": SystemExit(3),
        "KeyboardInterrupt": KeyboardInterrupt(),
        "CancelledError": asyncio.CancelledError(),
        "GeneratorExit": GeneratorExit(),
        "StopIteration": StopIteration(1),
        "ValueError": ValueError("bad \ud800 " + "x" * 1000),
        "NotExecuted": NotExecuted("the provider said 402"),
        "Rude": RudeError(),
    }
    return kinds[what]


class RudeError(Exception):
    def __str__(self) -> str:
        raise SystemExit


@tool(effect_class="read")
async def leave_a_bomb() -> str:
    async def bomb() -> None:
        raise SystemExit(9)

    task = asyncio.create_task(bomb())
    asyncio.get_running_loop().call_soon(asyncio.get_running_loop().stop)
    task.add_done_callback(lambda task: task.exception())
    return "left"


@tool(effect_class="read")
def die(how: str) -> None:
    if how == "exit":
        os._exit(7)
    os.kill(os.getpid(), signal.SIGKILL)


@tool(effect_class="read")
async def die_some_turns_later() -> None:
    for _ in range(20):
        await asyncio.sleep(0)
    os._exit(7)


@tool(effect_class="read")
def spoil_the_socket(how: str) -> None:
    descriptor = int(sys.argv[1])
    if how == "rubbish":
        os.write(descriptor, b"\xff" * 64)
    else:
        socket.socket(fileno=os.dup(descriptor)).shutdown(socket.SHUT_RDWR)
    threading.Event().wait()


@tool(effect_class="read")
def spawn_sleeper() -> int:
    return subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"]).pid


@tool(effect_class="read")
def terminate_a_program() -> int:
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"]) as program:
        program.terminate()
        return program.wait(30)


@dataclass
class Receipt:
    order: str
    tags: set[str]


@tool(effect_class="read")
def result_of_kind(kind: str) -> object:
    kinds: dict[str, object] = {
        "dataclass": Receipt("ORD-1", {"a"}),
        "object": object(),
        "nan": {"x": [1.0, float("nan")], "y": None},
        "none": {"y": None},
        "surrogate": "\ud800",
        "large": "x" * 2000,
        "iterator": iter([1]),
        "bigint": 2**70,
        "bytes": b"\xff",
    }
    return kinds[kind]


@tool(effect_class="non_idempotent_mutate", boundary="explicit")
async def charge(then: str = "return") -> str:
    async with side_effect():
        if then == "raise":
            raise ConnectionResetError("hung up")
        await record_external_operation("pi_1")
    return "charged"


@tool(effect_class="non_idempotent_mutate", boundary="explicit")
def charge_plain(then: str = "return") -> str:
    with side_effect():
        if then == "raise":
            raise ConnectionResetError("hung up")
        record_external_operation("pi_2")
    return "charged"


@tool(effect_class="non_idempotent_mutate", boundary="explicit")
def charge_with_own_loop() -> str:
    async def work() -> str:
        async with side_effect():
            return "charged"

    return asyncio.run(work())


@tool(effect_class="non_idempotent_mutate", boundary="explicit")
async def charge_blocking_the_loop() -> None:
    with side_effect():
        pass


@tool(effect_class="non_idempotent_mutate", boundary="explicit")
async def charge_when_cancelled() -> str:
    try:
        await asyncio.Event().wait()
    except asyncio.CancelledError:
        try:
            async with side_effect():
                return "an effect after the end"
        except BoundaryError as error:
            return type(error).__name__
    return ""


@tool(effect_class="non_idempotent_mutate")
async def charge_automatic() -> str:
    async with side_effect():
        return "charged"


@tool(effect_class="non_idempotent_mutate", boundary="explicit")
async def record_and_leave() -> None:
    record_external_operation("pi_3")


@tool(effect_class="non_idempotent_mutate", boundary="explicit")
def charge_in_a_bare_thread() -> str:
    said: list[str] = []

    def work() -> None:
        try:
            with side_effect():
                said.append("an effect without a mark")
        except BoundaryError as error:
            said.append(type(error).__name__)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    return said[0]


@tool(effect_class="read")
async def charge_in_a_read() -> None:
    async with side_effect():
        pass


@tool(effect_class="keyed_mutate", key_param="key", key_window_s=3600)
def keyed(amount: int, key: str) -> list[object]:
    return [amount, key]


@tool(effect_class="read")
def who_am_i() -> list[object]:
    call = current_call()
    return [call.request_id, call.effect_id, call.attempt, call.fence, call.tool, 0 < call.deadline_s <= 60]


class Desk:
    """Answers what the arguments say."""

    lag_s = 2.0

    def reconcile(self, lookup: Lookup) -> Verdict:
        answers: dict[str, Callable[[], object]] = {
            "completed": lambda: Verdict.completed({"ok": lookup.external_operation_ref}, {"id": lookup.effect_id}),
            "not_executed": lambda: Verdict.not_executed("no such key"),
            "unknown": lambda: Verdict.unknown("too early"),
            "true": lambda: True,
            "exit": lambda: sys.exit(1),
            "stop": lambda: next(iter(())),
            "object": lambda: Verdict.completed(1, object()),
            "hang": threading.Event().wait,
        }
        return cast("Verdict", answers[str(lookup.arguments["say"])]())


class AsyncDesk(Desk):
    async def reconcile_async(self, lookup: Lookup) -> Verdict:
        if lookup.arguments["say"] == "hang":
            await asyncio.Event().wait()
        if lookup.arguments["say"] == "cancel":
            raise asyncio.CancelledError
        if lookup.arguments["say"] == "exit":
            sys.exit(1)
        return Verdict.completed("async", "seen")


@tool(effect_class="non_idempotent_mutate", reconciler=Desk())
def doubtful(say: str) -> None:
    del say


@tool(effect_class="non_idempotent_mutate", reconciler=AsyncDesk())
async def doubtful_async(say: str) -> None:
    del say


@tool(effect_class="non_idempotent_mutate")
async def charge_in_to_thread(gate: str, trace: str, wait: bool) -> None:  # noqa: FBT001 - arguments go by name
    def charge() -> None:
        while Path(gate).exists():
            time.sleep(0.01)
        Path(trace).write_text("charged")

    work = asyncio.get_running_loop().run_in_executor(None, charge)
    if wait:
        await work


@tool(effect_class="non_idempotent_mutate")
async def fail_beside_a_task(leave: bool) -> None:  # noqa: FBT001 - arguments go by name
    async def other() -> None:
        await asyncio.Event().wait() if leave else None

    async def failing() -> None:
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        raise OSError

    await asyncio.gather(other(), failing())
