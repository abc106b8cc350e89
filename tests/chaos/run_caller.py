"""A crowd of processes that call declared functions when they are told to: `run_caller.py URL NAMESPACE SOCKET`.

A line on standard input, `spawn N`, forks N more, so that all of them share what is imported. Each connects to the
socket, says its process id, and answers each line of JSON that it gets with one.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import sys
import threading
import time
from contextlib import nullcontext
from typing import Any

from redis import Redis

from mycelium import ActionLedger, LedgerSettings, NotExecuted, SessionSettings, StoreSettings, side_effect
from mycelium import ledger_sync as declared

URL, NAMESPACE, SOCKET = sys.argv[1:4]
SESSION = SessionSettings(ttl_s=2.0, renew_every_s=0.5, call_timeout_s=0.3, margin_s=0.2, grace_s=0.5)
STORE = StoreSettings(patience_s=10.0)
LEDGER = ActionLedger(
    URL, namespace=NAMESPACE, settings=LedgerSettings(session=SESSION, store=STORE, poll_timeout_s=30.0, poll_s=1.0)
)


class Provider:
    """What is done outside, counted by order: begun, sent, and one for each key that was sent."""

    def __init__(self) -> None:
        self.redis: Any = Redis.from_url(URL)

    def count(self, what: str, order: str) -> int:
        return int(self.redis.incr(f"storm:{NAMESPACE}:{what}:{order}"))

    def send(self, order: str, key: str) -> None:
        self.redis.sadd(f"storm:{NAMESPACE}:keys:{order}", key)
        self.count("sent", order)


PROVIDER: list[Provider] = []


def act(order: str, plan: list[str], *, key: str = "", marks: bool = False) -> str:
    """Do what the plan has for this attempt."""
    begun = PROVIDER[0].count("begun", order)
    step = plan[begun - 1] if begun <= len(plan) else "return"
    if step == "fail":
        raise NotExecuted("The order was refused.")
    if step == "die":
        os.kill(os.getpid(), signal.SIGKILL)
    if step == "freeze":
        os.kill(os.getpid(), signal.SIGSTOP)
    if step == "slow":
        time.sleep(0.05)
    with side_effect() if marks else nullcontext():
        PROVIDER[0].send(order, key or str(begun))
    if step == "die-after":
        os.kill(os.getpid(), signal.SIGKILL)
    if step == "raise-after":
        raise RuntimeError(step)
    return f"{order} by {begun}"


@declared(effect_class="read", ledger=LEDGER, request_id_from="order")
def look(order: str, plan: list[str]) -> str:
    return act(order, plan)


@declared(effect_class="idempotent_mutate", ledger=LEDGER, request_id_from="order")
def put(order: str, plan: list[str]) -> str:
    return act(order, plan)


@declared(
    effect_class="keyed_mutate",
    ledger=LEDGER,
    request_id_from="order",
    key_param="key",
    key_window_s=600.0,
    timeout_s=5.0,
)
def pay(order: str, plan: list[str], *, key: str = "") -> str:
    return act(order, plan, key=key)


@declared(effect_class="non_idempotent_mutate", ledger=LEDGER, request_id_from="order")
def charge(order: str, plan: list[str]) -> str:
    return act(order, plan)


@declared(effect_class="non_idempotent_mutate", boundary="explicit", ledger=LEDGER, request_id_from="order")
def charge_marked(order: str, plan: list[str]) -> str:
    return act(order, plan, marks=True)


TOOLS: dict[str, Any] = {tool.__name__: tool for tool in (look, put, pay, charge, charge_marked)}


def call(told: dict[str, Any]) -> str:
    """One call; gives what came of it as a word, and the result."""
    try:
        return f"returned {TOOLS[told['tool']](told['order'], told['plan'])}"
    except Exception as error:  # noqa: BLE001 - whatever it is, it is told
        return f"{type(error).__name__} {error}"


def serve() -> None:
    """Call when told, each call in a thread of its own."""
    PROVIDER.append(Provider())
    with socket.socket(socket.AF_UNIX) as line:
        line.connect(SOCKET)
        lock = threading.Lock()

        def answer(text: str) -> None:
            with lock:
                line.sendall(text.encode() + b"\n")

        def run(told: dict[str, Any]) -> None:
            answer(json.dumps({"order": told["order"], "said": call(told)}))

        answer(str(os.getpid()))
        for text in line.makefile():
            threading.Thread(target=run, args=(json.loads(text),), daemon=True).start()
    os._exit(0)


def main() -> None:
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    for order in sys.stdin:
        for _ in range(int(order.split()[1])):
            if os.fork() == 0:
                signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                sys.stdin.close()
                serve()


main()
