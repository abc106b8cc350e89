"""The threads behind `asyncio.to_thread`: an attempt is over only when what it left in them is over too."""

from __future__ import annotations

from collections.abc import Callable
from concurrent import futures
from typing import ParamSpec, TypeVar

from ..context import RUNNING
from .attempt import Attempt

P = ParamSpec("P")
T = TypeVar("T")


class TrackedThreads(futures.ThreadPoolExecutor):
    """Knows whose work it does.

    A cancelled `await asyncio.to_thread(…)` ends at once, and its thread goes on. To tell such an attempt as ended
    would let a verdict run the call again while the thread is still about to send. Threads that a tool starts by
    itself cannot be known.
    """

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> futures.Future[T]:
        """Run in a thread, under the attempt that asks for it."""
        work = super().submit(fn, *args, **kwargs)
        running = RUNNING.get()
        if isinstance(running, Attempt):
            running.left.add(work)
            work.add_done_callback(running.left.discard)
        return work
