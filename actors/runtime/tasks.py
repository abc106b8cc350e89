"""The background tasks that one life of an actor owns: held strongly, ended with it, and never failing unseen."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any, TypeVar

from .mailbox import stopped_error

T = TypeVar("T")


class OwnedTasks:
    """A set of tasks. The first exception of any of them is told to `on_crash`."""

    __slots__ = ("_closed", "_on_crash", "_owner", "_tasks")

    def __init__(self, owner: str, on_crash: Callable[[BaseException], None]) -> None:
        self._owner = owner
        self._on_crash = on_crash
        # The event loop itself holds tasks weakly: this set is what keeps them from vanishing.
        self._tasks: set[asyncio.Task[Any]] = set()
        self._closed = False

    def spawn(self, coro: Coroutine[Any, Any, T], name: str | None = None) -> asyncio.Task[T]:
        """Run `coro` until it ends or its owner does.

        Raises:
            ActorStoppedError: the owner's life is over; `coro` was not started.
        """
        if self._closed:
            coro.close()
            raise stopped_error(self._owner)
        task = asyncio.get_running_loop().create_task(self._guarded(coro), name=f"{self._owner}:{name or 'task'}")
        self._tasks.add(task)
        task.add_done_callback(partial(self._forget, coro))
        return task

    async def end(self) -> bool:
        """Cancel all, and return when all have ended; True when this was itself cancelled on the way.

        Being cancelled here is not an order to leave tasks behind: it cancels them again, and the caller is told.
        """
        self._closed = True
        cancelled = False
        while self._tasks:
            for task in self._tasks:
                task.cancel()
            try:
                await asyncio.wait(self._tasks)
            except asyncio.CancelledError:
                cancelled = True
        return cancelled

    async def _guarded(self, coro: Coroutine[Any, Any, T]) -> T:
        try:
            return await coro
        except asyncio.CancelledError as error:
            task = asyncio.current_task()
            if not (self._closed or (task is not None and task.cancelling())):
                # Nobody cancelled this task: it awaited something that was cancelled, and would be gone without a word.
                self._on_crash(error)
            raise
        except GeneratorExit:
            raise
        except Exception as error:
            self._on_crash(error)
            raise
        except BaseException as error:
            # A task that lets SystemExit out stops the event loop on the spot; the supervisors end in order instead.
            self._on_crash(error)
            raise stopped_error(self._owner) from error

    def _forget(self, coro: Coroutine[Any, Any, Any], task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        coro.close()  # never begun, if the task was cancelled before its first step; else this does nothing
        if not task.cancelled():
            task.exception()  # told already: asking keeps the loop from telling it again
