"""An event loop in a thread of its own: what plain code, and a loop that tools may block, hand their server work to."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from threading import Thread
from typing import Any, TypeVar

from ..leases.errors import ServerUnavailableError

_T = TypeVar("_T")


class Portal:
    """A thread that runs a loop. Work is brought to it from any other thread, or from a task of another loop."""

    def __init__(self) -> None:
        self._pid = os.getpid()
        self._started: Future[asyncio.AbstractEventLoop] = Future()
        self._stop = asyncio.Event()
        # A daemon: a program that forgets to close must be able to end.
        self._thread = Thread(target=asyncio.run, args=(self._serve(),), name="mycelium", daemon=True)
        self._thread.start()
        self._loop: asyncio.AbstractEventLoop | None = self._started.result()

    @property
    def forked(self) -> bool:
        """Whether this is a child of the process that has the thread."""
        return self._pid != os.getpid()

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        """The loop of the thread.

        Raises:
            ServerUnavailableError: it is closed, or belongs to the process that this one was forked from.
        """
        if self._loop is None or self.forked:
            what = "The client was made before this process forked." if self.forked else "The client is closed."
            raise ServerUnavailableError(what, next_step="Connect again, in this process.")
        return self._loop

    def start(self, work: Callable[[], Coroutine[Any, Any, _T]]) -> Future[_T]:
        """Begin work there. Cancelling the answer cancels the work.

        Raises:
            ServerUnavailableError: as `loop`.
        """
        loop = self.loop
        return asyncio.run_coroutine_threadsafe(work(), loop)

    def run(self, work: Callable[[], Coroutine[Any, Any, _T]]) -> _T:
        """Do work there and wait for it here; an interrupt here cancels it there.

        Raises:
            ServerUnavailableError: as `loop`.
        """
        future = self.start(work)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    def stop(self) -> None:
        """End the loop and its thread."""
        loop, self._loop = self._loop, None
        if loop is not None:
            loop.call_soon_threadsafe(self._stop.set)
            self._thread.join()

    async def _serve(self) -> None:
        self._started.set_result(asyncio.get_running_loop())
        await self._stop.wait()
