"""Processes that make ledgered calls of their own, for chaos tests: started, looked at, and gone at the end."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from chaos.stage import Gate, runs, until
from chaos.tools import leave_trace, read_traces

from kit.inprocess import World, tool
from kit.proxy import FaultProxy
from mycelium import (
    ActionLedger,
    LedgerHardBlockError,
)
from mycelium.actors.effect import side_effect
from mycelium.leases.session import SessionSettings

StartProxy = Callable[[str], Awaitable[FaultProxy]]
TIMES = {"ttl_s": 1.0, "renew_every_s": 0.2, "call_timeout_s": 0.15, "margin_s": 0.2, "grace_s": 0.3}
QUICK = SessionSettings(**TIMES)
LAPSED_S = TIMES["ttl_s"] + TIMES["grace_s"] + 0.2


@dataclass
class Cast:
    """Processes that make calls, their world, and the book of effects."""

    world: World
    place: Path
    nursery: subprocess.Popen[str]
    started: list[int] = field(default_factory=list[int])
    gates: list[Gate] = field(default_factory=list[Gate])
    living: ActionLedger | None = None

    @property
    def book(self) -> str:
        return str(self.place / "book")

    @property
    def effects(self) -> dict[str, int]:
        return dict(read_traces(self.book))

    def gate(self) -> Gate:
        self.gates.append(Gate(self.place / f"gate-{len(self.gates)}"))
        return self.gates[-1]

    def start(self, key: str, case: str = "call", **told: Any) -> int:  # noqa: ANN401 - to be told in JSON
        """A process that makes one call; its id."""
        given = {
            "case": case,
            "key": key,
            "url": self.world.url,
            "namespace": self.world.namespace,
            "book": self.book,
            "out": str(self.out(key)),
            "session": TIMES,
            "effect_class": "non_idempotent_mutate",
            "explicit": False,
        }
        assert self.nursery.stdin is not None
        assert self.nursery.stdout is not None
        self.nursery.stdin.write(json.dumps(given | told) + "\n")
        self.nursery.stdin.flush()
        self.started.append(int(self.nursery.stdout.readline()))
        return self.started[-1]

    def out(self, key: str) -> Path:
        return self.place / f"out-{key}"

    def said(self, key: str) -> list[list[Any]]:
        """What the process of a key has told so far."""
        try:
            return [json.loads(line) for line in self.out(key).read_text(encoding="utf-8").splitlines()]
        except FileNotFoundError:
            return []

    async def at(self, key: str) -> None:
        """Wait until it has come to the point where it waits."""
        await until(lambda: any(line[0] == "at" for line in self.said(key)))

    async def gone(self, *pids: int) -> None:
        await until(lambda: not any(map(runs, pids)))

    def again(self, key: str, effect_class: str, *, explicit: bool) -> Any:  # noqa: ANN401 - what a tool returns
        """The same call, by a process that lives: this one."""

        def act(key: str) -> str:
            if effect_class == "read":
                leave_trace(self.book, key)
                return "again"
            with side_effect():
                leave_trace(self.book, key)
            return "again"

        self.living = self.living or self.world.ledger(session=QUICK)
        try:
            return tool(self.living, act, effect_class, explicit=explicit)(key, request_id=key)
        except LedgerHardBlockError as refused:
            return refused

    def close(self) -> None:
        for pid in self.started:
            if runs(pid):
                os.kill(pid, signal.SIGKILL)
        for gate in self.gates:
            gate.open()


@contextmanager
def casting(at: World, place: Path) -> Generator[Cast]:
    here = Path(__file__).parent.parent
    path = os.pathsep.join([str(here), *filter(None, [os.environ.get("PYTHONPATH")])])
    command = [sys.executable, str(here / "kit" / "inprocess_child.py")]
    with (
        (place / "log").open("wb") as log,
        subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
            env=os.environ | {"PYTHONPATH": path},
        ) as nursery,
    ):
        made = Cast(at, place, nursery)
        try:
            yield made
        finally:
            made.close()
            assert nursery.stdin is not None
            nursery.stdin.close()
