"""What a body starts beside itself: its threads and tasks are known, so that none is taken for over while it runs."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Coroutine, Generator
from concurrent import futures
from typing import Any, ParamSpec, TypeVar

from ..context import RUNNING
from .attempt import Attempt
from .forks import end_fork

P = ParamSpec("P")
T = TypeVar("T")


class TrackedThreads(futures.ThreadPoolExecutor):
    """The executor behind `asyncio.to_thread`: knows whose work it does.

    A cancelled `await asyncio.to_thread(…)` ends at once, and its thread goes on. To tell such an attempt as ended
    would let a verdict run the call again while the thread is still about to send. Threads that a tool starts by
    itself cannot be known.
    """

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> futures.Future[T]:
        """Run in a thread, under the attempt that asks for it."""
        work = super().submit(_in_this_process, os.getpid(), fn, *args, **kwargs)
        running = RUNNING.get()
        if isinstance(running, Attempt):
            running.threads.add(work)
            work.add_done_callback(running.threads.discard)
        return work


def _in_this_process(pid: int, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
    try:
        return fn(*args, **kwargs)
    finally:
        # A fork that comes back here would go on with a copy of the queue: with other calls' work.
        if os.getpid() != pid:
            end_fork()


def tracked_task(
    loop: asyncio.AbstractEventLoop,
    coro: Coroutine[Any, Any, T] | Generator[Any, None, T],
    **options: Any,  # noqa: ANN401
) -> asyncio.Task[T]:
    """A task factory: a task belongs to the attempt whose body started it."""
    task: asyncio.Task[T] = asyncio.Task(coro, loop=loop, **options)
    running = RUNNING.get()
    if isinstance(running, Attempt):
        running.tasks.add(task)
        task.add_done_callback(running.tasks.discard)
    return task
