"""The end of an actor, as others see it: who wants to be told, and what they were told."""

from __future__ import annotations

import asyncio
from typing import Protocol

from .messages import Terminated


class Watcher(Protocol):
    """Whoever can be told that an actor has ended. Every Ref is one."""

    def tell_first(self, message: Terminated) -> None:
        """Take the news, ahead of everything else."""


class Grave:
    """One for each actor, dug at its birth. Holds its watchers until they have been told."""

    __slots__ = ("_closed", "_news", "_watchers")

    def __init__(self) -> None:
        self._news: Terminated | None = None
        self._watchers: dict[Watcher, None] = {}
        self._closed = asyncio.Event()

    @property
    def news(self) -> Terminated | None:
        """What watchers were told, or None while the actor may still live."""
        return self._news

    def watch(self, watcher: Watcher) -> None:
        """Tell `watcher` once, at the end; now, when the end has been."""
        if self._news is None:
            self._watchers[watcher] = None
        else:
            watcher.tell_first(self._news)

    def unwatch(self, watcher: Watcher) -> None:
        """Do not tell `watcher`. What is in its mailbox already stays there."""
        self._watchers.pop(watcher, None)

    def bury(self, news: Terminated) -> None:
        """The actor has ended for good. The first call counts."""
        if self._news is not None:
            return
        self._news = news
        self._closed.set()
        watchers, self._watchers = self._watchers, {}
        for watcher in watchers:
            watcher.tell_first(news)

    async def wait(self) -> Terminated:
        """Return what watchers are told, at the end."""
        await self._closed.wait()
        if self._news is None:  # pragma: no cover - bury sets both
            raise AssertionError
        return self._news
