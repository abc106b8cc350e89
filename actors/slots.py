"""Which hosts there are, which tools they know, and how many attempts each can still take."""

from __future__ import annotations

import random
from collections.abc import Mapping

from ..ledger.binding import Binding
from .hosts.frames import ToolFacts


class Slots:
    """Counts free slots; a host that has gone takes its slots with it."""

    def __init__(self, rng: random.Random) -> None:
        self._free: dict[str, int] = {}
        self._tools: dict[str, ToolFacts] = {}
        self._rng = rng

    @property
    def free(self) -> int:
        """Attempts that could start now."""
        return sum(self._free.values())

    def facts(self, tool: str) -> ToolFacts | None:
        """What is known of a tool; None: no host here can run it."""
        return self._tools.get(tool)

    def tools_in_turn(self) -> dict[str, Binding]:
        """The tools that can be run, in a changing order, so that no backlog stands before all others for ever."""
        names = list(self._tools)
        self._rng.shuffle(names)
        return {name: self._tools[name].binding for name in names}

    def add(self, host: str, slots: int, tools: Mapping[str, ToolFacts]) -> None:
        """A host runs."""
        self._free[host] = slots
        self._tools = dict(tools)

    def remove(self, host: str) -> None:
        """A host has ended."""
        self._free.pop(host, None)

    def take(self) -> str | None:
        """Take a slot of the host that has the most; None: there is none."""
        host = max(self._free, key=self._free.__getitem__, default=None)
        if host is None or not self._free[host]:
            return None
        self._free[host] -= 1
        return host

    def give_back(self, host: str) -> None:
        """A slot is free again, if its host still runs."""
        if host in self._free:
            self._free[host] += 1
