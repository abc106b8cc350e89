"""Work on the portal's loop that outlives whoever waits for it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine
from typing import Any, TypeVar

log = logging.getLogger(__name__)
_T = TypeVar("_T")


class Background:
    """Keeps such tasks alive, says when one fails that nobody waits for, and ends them all."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[Any]] = set()

    def start(self, work: Coroutine[Any, Any, _T]) -> asyncio.Task[_T]:
        """Begin some work that somebody waits for, perhaps not to its end."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    def add(self, work: Coroutine[Any, Any, None]) -> None:
        """Begin some work that nobody waits for."""
        self.start(work).add_done_callback(_ended)

    async def aclose(self, *, within_s: float) -> None:
        """Let what still runs come to its end within some seconds, and then end it."""
        loop = asyncio.get_running_loop()
        deadline_s = loop.time() + within_s
        # What ends may have begun something else, such as telling again what did not get through.
        while self._tasks and (left_s := deadline_s - loop.time()) > 0:
            await asyncio.wait(set(self._tasks), timeout=left_s)
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def _ended(task: asyncio.Task[None]) -> None:
    if not task.cancelled() and (error := task.exception()) is not None:
        log.error("what was left to do after a call failed: %s", type(error).__name__, exc_info=error)
