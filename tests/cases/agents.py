"""Agents as processes: started, frozen, killed, and what they said."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from chaos.stage import Gate, until
from chaos.tools import read_traces

HERE = Path(__file__).parent
THREE = ("first", "second", "third")


@dataclass
class Agents:
    """Processes that share one namespace and one book of effects."""

    url: str
    namespace: str
    place: Path
    processes: list[subprocess.Popen[str]] = field(default_factory=list[subprocess.Popen[str]])
    gates: list[Gate] = field(default_factory=list[Gate])

    @property
    def book(self) -> str:
        return str(self.place / "book")

    @property
    def effects(self) -> dict[str, int]:
        """How often each call had its effect."""
        return dict(read_traces(self.book))

    def gate(self) -> Gate:
        gate = Gate(self.place / f"gate-{len(self.gates)}")
        self.gates.append(gate)
        return gate

    def start(self, *calls: str, **told: Any) -> subprocess.Popen[str]:  # noqa: ANN401 - JSON
        """Start one that makes these calls."""
        asked = {"url": self.url, "namespace": self.namespace, "book": self.book, **told}
        command = [sys.executable, str(HERE / "agent.py"), json.dumps({**asked, "calls": calls})]
        path = os.pathsep.join([str(HERE.parent), *filter(None, [os.environ.get("PYTHONPATH")])])
        environment = os.environ | {"PYTHONPATH": path}
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)
        self.processes.append(process)
        return process

    async def sent(self, process: subprocess.Popen[str]) -> None:
        """Wait until one has had an effect."""
        await until(lambda: self.effects or process.poll() is not None)
        assert self.effects, (process.returncode, process.stdout and process.stdout.read())

    async def said(self, process: subprocess.Popen[str], within_s: float = 20.0) -> list[str]:
        """What each call of one came to; it has ended by then."""
        await until(lambda: process.poll() is not None, within_s)
        assert process.stdout is not None
        told = process.stdout.read()
        assert told, process.returncode
        return [str(end) for end in json.loads(told)]

    async def killed(self, process: subprocess.Popen[str]) -> None:
        """Wait until one has died of its own SIGKILL."""
        await until(lambda: process.poll() is not None)
        assert process.returncode == -signal.SIGKILL

    def close(self) -> None:
        for process in self.processes:
            process.kill()
            process.wait()
            if process.stdout is not None:
                process.stdout.close()
        for gate in self.gates:
            gate.open()


@contextmanager
def agents_in(url: str, namespace: str, place: Path) -> Generator[Agents, None, None]:
    """Agents that are gone afterwards."""
    place.mkdir(parents=True, exist_ok=True)
    made = Agents(url, namespace, place)
    try:
        yield made
    finally:
        made.close()
