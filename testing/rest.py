"""Tells when a worker has come to rest: nothing more happens in it until time passes or somebody outside acts."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable

from ..actors.runtime import ActorSystem
from ..actors.runtime.snapshot import ActorSnapshot
from ..leases.store import Store
from .host import InMemoryHost

_TURNS = 25
"""Turns of the loop without a sign of life. From one sign to the next it takes a few: a reply, a task, a message."""


class Rest:
    """Looks at a worker from outside.

    Args:
        system: its actors.
        stores: the stores of the worker and of its client.
        hosts: gives its hosts, those that have ended included.
    """

    def __init__(
        self, system: ActorSystem, stores: Iterable[Store], hosts: Callable[[], Iterable[InMemoryHost]]
    ) -> None:
        self._system = system
        self._stores = tuple(stores)
        self._hosts = hosts

    @property
    def bodies(self) -> set[object]:
        """Tools and adapters that run, each by something that no other one is."""
        found: set[object] = set()
        for host in self._hosts():
            found.update(host.runs)
            found.update((id(host), number) for number in host.asks)
        return found

    async def quiet(self) -> None:
        """Wait until all but tools and adapters has come to rest."""
        turns = 0
        while turns < _TURNS:
            await asyncio.sleep(0)
            turns = 0 if self._stirs() else turns + 1

    async def changed(self, within_s: float) -> bool:
        """Wait until a tool or an adapter ends; False: none did in time."""
        waits = [asyncio.ensure_future(host.changed.wait()) for host in self._hosts() if host.runs or host.asks]
        for host in self._hosts():
            host.changed.clear()
        if not waits:
            return True
        done, still = await asyncio.wait(waits, timeout=within_s, return_when=asyncio.FIRST_COMPLETED)
        for wait in still:
            wait.cancel()
        return bool(done)

    def _stirs(self) -> bool:
        if any(store.calls.outstanding or store.renewals.outstanding for store in self._stores):
            return True
        return _depth(self._system.tree()) > 0


def _depth(actor: ActorSnapshot) -> int:
    return actor.depth + sum(map(_depth, actor.children))
