"""Which hosts there are, which tools they know, and how many attempts each can still take."""

from __future__ import annotations

import random
from collections.abc import Mapping

from ...ledger.turn import Known
from ..hosts.frames import ToolFacts
from ..terms import Isolation


class Slots:
    """Counts free slots; a host that has gone takes its slots with it.

    Shared hosts and those that run one attempt at a time (`solo`) are counted apart. A busy host gives no slot until it
    answers: what it got meanwhile would be lost with it, though it had never begun.
    """

    def __init__(self, rng: random.Random) -> None:
        self._free: dict[str, int] = {}
        self._solo: set[str] = set()
        self._busy: set[str] = set()
        self._tools: dict[str, ToolFacts] = {}
        self._rng = rng

    @property
    def free(self) -> int:
        """Attempts that could start in shared hosts now."""
        return self.room()

    @property
    def hosts(self) -> int:
        """How many hosts run, of both kinds."""
        return len(self._free)

    def all_there(self, shared: int, solo: int) -> bool:
        """Whether every host runs that is to run: the solo ones, where a tool wants them."""
        wanted = solo if any(_known(facts).alone for facts in self._tools.values()) else 0
        return len(self._free) - len(self._solo) >= shared and len(self._solo) >= wanted

    @property
    def busy(self) -> int:
        """How many of them are busy."""
        return len(self._busy)

    def room(self, *, solo: bool = False) -> int:
        """Attempts that could start now, in shared hosts or in solo ones."""
        return sum(self._free[host] for host in self._open(solo=solo))

    def facts(self, tool: str) -> ToolFacts | None:
        """What is known of a tool; None: no host here can run it."""
        return self._tools.get(tool)

    def tools_in_turn(self) -> dict[str, Known]:
        """The tools that can be run, in a changing order, so that no backlog stands before all others for ever."""
        names = list(self._tools)
        self._rng.shuffle(names)
        return {name: _known(self._tools[name]) for name in names}

    def know(self, tools: Mapping[str, ToolFacts]) -> None:
        """The hosts know these tools from now on."""
        self._tools = dict(tools)

    def add(self, host: str, slots: int, tools: Mapping[str, ToolFacts], *, solo: bool = False) -> None:
        """A host runs."""
        self.remove(host)
        self._free[host] = slots
        if solo:
            self._solo.add(host)
        self.know(tools)

    def remove(self, host: str) -> None:
        """A host has ended."""
        self._free.pop(host, None)
        self._solo.discard(host)
        self._busy.discard(host)

    def close(self, host: str) -> None:
        """A host is busy."""
        if host in self._free:
            self._busy.add(host)

    def open(self, host: str) -> None:
        """A host answers again."""
        self._busy.discard(host)

    def take(self, *, solo: bool = False) -> str | None:
        """Take a slot of the host that has the most; None: there is none."""
        host = max(self._open(solo=solo), key=self._free.__getitem__, default=None)
        if host is None or not self._free[host]:
            return None
        self._free[host] -= 1
        return host

    def give_back(self, host: str) -> None:
        """A slot is free again, if its host still runs."""
        if host in self._free:
            self._free[host] += 1

    def _open(self, *, solo: bool) -> list[str]:
        return [host for host in self._free if (host in self._solo) is solo and host not in self._busy]


def _known(facts: ToolFacts) -> Known:
    return Known(facts.binding, alone=facts.isolation is Isolation.PROCESS)
