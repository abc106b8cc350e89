"""Makes ledgered calls in processes of their own: each line of input tells one in JSON, and is forked from here.

This process opens no ledger and has no thread, so that each child is as good as a program that has just started. A
child writes what became of its call, a line in JSON, to the file that it was told.
"""

from __future__ import annotations

import asyncio
import fcntl
import gc
import json
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from selectors import EVENT_READ
from typing import Any

from mycelium import (
    ActionLedger,
    Binding,
    LedgerSettings,
    MyceliumError,
    PredicateVerdict,
    StoreSettings,
    register_decision_predicate,
)
from mycelium.actors.effect import side_effect
from mycelium.actors.inprocess.decorators import ledger, ledger_sync
from mycelium.actors.inprocess.tasks import task_ledger_sync
from mycelium.actors.portal import _Selector  # pyright: ignore[reportPrivateUsage]
from mycelium.leases.session import SessionSettings

Told = dict[str, Any]


def die() -> None:
    """As a machine does that loses power."""
    os.kill(os.getpid(), signal.SIGKILL)


def effect(told: Told, key: str) -> None:
    """One line, whole or not at all."""
    descriptor = os.open(told["book"], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(descriptor, f"{key}\n".encode())
    os.close(descriptor)


def say(told: Told, *words: object) -> None:
    """Tell the test."""
    descriptor = os.open(told["out"], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(descriptor, (json.dumps(words) + "\n").encode())
    os.close(descriptor)


def reach(told: Told, point: str) -> None:
    """Die here, or say so and wait until the test opens the gate."""
    if told.get("die") == point:
        die()
    if told.get("wait") == point:
        say(told, "at", point)
        with open(told["gate"], "rb") as gate:  # noqa: PTH123 - a plain descriptor
            fcntl.flock(gate, fcntl.LOCK_SH)


def opened(told: Told) -> ActionLedger:
    store = StoreSettings(patience_s=told.get("patience_s", 5.0), call_timeout_s=1.0)
    settings = LedgerSettings(session=SessionSettings(**told["session"]), store=store, poll_s=0.1, poll_timeout_s=20.0)
    return ActionLedger(told["url"], namespace=told["namespace"], settings=settings)


def facts_of(told: Told, kept: ActionLedger) -> Any:  # noqa: ANN401 - handed on
    facts: dict[str, Any] = {"ledger": kept, "name": "act", "effect_class": told["effect_class"]}
    if told["explicit"] and told["effect_class"] != "read":
        facts["boundary"] = "explicit"
    return facts


def declared(told: Told, kept: ActionLedger) -> Callable[..., str]:
    """The tool: it passes the points that a case may name."""

    def act(key: str) -> str:
        reach(told, "began")
        if told["effect_class"] == "read":
            effect(told, key)
            reach(told, "sent")
            return key
        with side_effect():
            reach(told, "marked")
            effect(told, key)
            reach(told, "sent")
        reach(told, "returned")
        return key

    if told.get("task"):
        task = task_ledger_sync(**facts_of(told, kept))(act)
        return lambda key, request_id: str(task(key, task_id=request_id))  # pyright: ignore[reportUnknownLambdaType]
    return ledger_sync(**facts_of(told, kept))(act)


def call(told: Told) -> None:
    """One call, to its end."""
    kept = opened(told)

    def look(_intent: object, _now: object) -> PredicateVerdict:
        reach(told, "claimed")
        return PredicateVerdict(allowed=True)

    if "claimed" in {told.get("die"), told.get("wait")}:
        register_decision_predicate("look", look)
    reach(told, "before")
    try:
        say(told, "returned", declared(told, kept)(told["key"], request_id=told["key"]))
    except BaseException as error:  # noqa: BLE001 - the test is told
        say(told, "raised", type(error).__name__, str(error))
    reach(told, "settled")
    kept.close()


def interrupted(told: Told) -> None:
    """Call one thing after the other, and begin anew after each interrupt."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    kept, calls = opened(told), 0
    act = declared(told, kept)
    act("warm", request_id="warm")
    say(told, "at", "work")

    def some() -> None:
        nonlocal calls
        while True:
            calls += 1
            act(f"k{calls}", request_id=f"k{calls}")

    deadline_s, hits = time.monotonic() + told["seconds"], 0
    while time.monotonic() < deadline_s:
        try:
            try:
                some()
            except KeyboardInterrupt:
                hits += 1
        except KeyboardInterrupt:
            hits += 1
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    gc.collect()
    # The thread that renews is alive, and answers.
    say(told, "after", hits, calls, act("last", request_id="last"))
    reach(told, "done")
    kept.close()


def exits(told: Told) -> None:
    """The program ends while daemon threads run calls and wait for others."""
    kept = opened(told)
    act = declared(told, kept)
    for key in (told["key"], told["key"], f"{told['key']}-2"):
        threading.Thread(target=act, args=(key,), kwargs={"request_id": key}, daemon=True).start()
    while len(os.read(os.open(told["out"], os.O_RDONLY | os.O_CREAT), 4096).splitlines()) < 2:
        time.sleep(0.01)
    sys.exit(0)


def forks(told: Told) -> None:
    """A program that forked calls on, and so does its child."""
    kept = opened(told)
    act = declared(told, kept)
    act("parent-1", request_id="parent-1")
    entry = kept.claim("manual", (), {}, Binding(), request_id="manual")
    kept.record_decision(entry, {"allowed": True, "verdicts": [], "denied_reasons": []})
    pid = os.fork()
    if pid == 0:
        gc.collect()
        try:
            kept.complete(entry, "not mine")
        except MyceliumError as error:
            say(told, "refused", type(error).__name__)
        say(told, "child", act("child-1", request_id="child-1"), act("parent-1", request_id="parent-1"))
        gc.collect()
        kept.close()
        sys.exit(0)
    for at in range(2, 30):
        act(f"parent-{at}", request_id=f"parent-{at}")
    _, status = os.waitpid(pid, 0)
    time.sleep(1.5 * told["session"]["ttl_s"])
    kept.complete(entry, "mine")
    say(told, "parent", status, act("parent-30", request_id="parent-30"))
    kept.close()


def forks_in_body(told: Told) -> None:
    """A body forks, and both copies go on in it."""
    kept = opened(told)

    def act(key: str) -> str:
        pid = os.fork()
        if pid:
            os.waitpid(pid, 0)
            effect(told, key)
        return f"{'parent' if pid else 'child'} {key}"

    try:
        answer = ledger_sync(**facts_of(told, kept))(act)(told["key"], request_id=told["key"])
        say(told, "returned", answer)
    except BaseException as error:  # noqa: BLE001 - the test is told
        say(told, "raised", type(error).__name__, str(error))
    kept.close()


def polls(told: Told) -> None:
    """A fork drops a socket that its parent still listens to."""
    selector, (reads, writes) = _Selector(), os.pipe()
    selector.register(reads, EVENT_READ)
    pid = os.fork()
    if pid == 0:
        selector.unregister(reads)
        os._exit(0)
    os.waitpid(pid, 0)
    os.write(writes, b"x")
    say(told, "heard", len(selector.select(0)))
    selector.unregister(reads)
    say(told, "heard", len(selector.select(0)))


def blocks(told: Told) -> None:
    """An async body that blocks its loop for some seconds, in one call that lets other threads run."""

    async def act(key: str) -> str:
        time.sleep(told["seconds"])  # noqa: ASYNC251 - that is the point
        effect(told, key)
        return key

    kept = opened(told)
    tool = ledger(**facts_of(told, kept))(act)

    async def main() -> str:
        return str(await tool(told["key"], request_id=told["key"]))

    say(told, "returned", asyncio.run(main()))
    kept.close()


CASES = {case.__name__: case for case in (call, interrupted, exits, forks, forks_in_body, polls, blocks)}


def main() -> None:
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    for line in sys.stdin:
        told: Told = json.loads(line)
        pid = os.fork()
        if pid == 0:
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            CASES[told["case"]](told)
            # As a program of its own ends: with its threads, and what is registered for the end.
            sys.exit(0)
        sys.stdout.write(f"{pid}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
