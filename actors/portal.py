"""An event loop in a thread of its own: what plain code, and a loop that tools may block, hand their server work to."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from queue import Empty, SimpleQueue
from selectors import DefaultSelector, SelectorKey
from threading import RLock, Thread
from typing import Any, Generic, TypeVar

from ..leases.errors import ServerUnavailableError

_T = TypeVar("_T")
_LOOK_S = 1.0
"""So often who waits looks whether there still is a thread that could answer."""


class Portal:
    """A thread that runs a loop. Work is brought to it from any other thread, or from a task of another loop."""

    def __init__(self) -> None:
        self._pid = os.getpid()
        self._lock = RLock()
        self._tasks: set[asyncio.Task[Any]] = set()
        self._started: Future[asyncio.AbstractEventLoop] = Future()
        self._stop = asyncio.Event()
        # A daemon: a program that forgets to close must be able to end.
        self._thread = Thread(target=self._run, name="mycelium", daemon=True)
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
            raise self._gone()
        return self._loop

    def start(self, work: Callable[[], Coroutine[Any, Any, _T]]) -> Future[_T]:
        """Begin work there. Cancelling the answer cancels the work; the end of the portal ends it with an error.

        Raises:
            ServerUnavailableError: as `loop`.
        """
        if self.forked:
            # Whoever held the lock at the fork holds it here for ever.
            raise self._gone()
        with self._lock:
            loop = self.loop
            return asyncio.run_coroutine_threadsafe(self._do(work), loop)

    def run(self, work: Callable[[], Coroutine[Any, Any, _T]], *, unwanted: Callable[[_T], None] | None = None) -> _T:
        """Do work there and wait for it here; an interrupt here cancels it there.

        Args:
            work: what is to be done.
            unwanted: is given, there, what the work still came to after an interrupt.

        Raises:
            ServerUnavailableError: as `loop`; also when the portal is closed meanwhile.
        """
        errand = _Errand(lambda: self._do(work), unwanted)
        loop = errand.begin(self)
        try:
            return self._answer(errand)
        except BaseException:
            loop.call_soon_threadsafe(errand.drop)
            raise

    def finish(self, work: Callable[[], Coroutine[Any, Any, _T]]) -> _T:
        """As `run`, for work that goes on though its caller is interrupted."""
        errand = _Errand(lambda: self._do(work), None)
        errand.begin(self)
        return self._answer(errand)

    def _answer(self, errand: _Errand[_T]) -> _T:
        while True:
            try:
                task = errand.answers.get(timeout=_LOOK_S)
            except Empty:
                if self._thread.is_alive() or not errand.answers.empty():
                    continue
                # It came when the loop was at its end already.
                raise self._gone() from None
            if task.cancelled():
                raise self._gone()
            return task.result()

    def stop(self) -> None:
        """End the loop and its thread. Whoever waits for work there is answered."""
        with self._lock:
            loop, self._loop = self._loop, None
        if loop is not None:
            loop.call_soon_threadsafe(self._stop.set)
            self._thread.join()

    def _run(self) -> None:
        with asyncio.Runner(loop_factory=lambda: asyncio.SelectorEventLoop(_Selector())) as runner:
            runner.run(self._serve())

    async def _serve(self) -> None:
        self._started.set_result(asyncio.get_running_loop())
        await self._stop.wait()
        # One cancel is not enough: a time-out that ends in the same moment can swallow it.
        while self._tasks:
            for task in self._tasks:
                task.cancel()
            await asyncio.wait(self._tasks, timeout=0.1)

    async def _do(self, work: Callable[[], Coroutine[Any, Any, _T]]) -> _T:
        task = asyncio.current_task()
        assert task is not None  # noqa: S101 - a coroutine that runs is in one
        self._tasks.add(task)
        try:
            return await work()
        except asyncio.CancelledError:
            if self._stop.is_set():
                # Its caller was not cancelled, and must not be told so.
                raise self._gone() from None
            raise
        finally:
            self._tasks.discard(task)

    def _gone(self) -> ServerUnavailableError:
        what = "The client was made before this process forked." if self.forked else "The client is closed."
        return ServerUnavailableError(what, next_step="Connect again, in this process.")


class _Errand(Generic[_T]):
    """One piece of work that plain code waits for.

    It takes no lock that the portal needs as well: an interrupt may hit the caller between any two steps, and a lock
    that it leaves locked would stop every renewal.
    """

    def __init__(self, work: Callable[[], Coroutine[Any, Any, _T]], unwanted: Callable[[_T], None] | None) -> None:
        self.answers: SimpleQueue[asyncio.Task[_T]] = SimpleQueue()
        self._work = work
        self._unwanted = unwanted
        self._task: asyncio.Task[_T] | None = None
        self._dropped = False

    def begin(self, portal: Portal) -> asyncio.AbstractEventLoop:
        """Hand it over.

        Raises:
            ServerUnavailableError: as `Portal.loop`.
        """
        loop = portal.loop
        try:
            loop.call_soon_threadsafe(self._begin)
        except RuntimeError:
            # It was closed in this very moment, and says so itself.
            return portal.loop
        return loop

    def drop(self) -> None:
        """Its caller was interrupted. On the portal's loop."""
        self._dropped = True
        if self._task is None:
            return
        if self._task.done():
            self._leave(self._task)
        else:
            self._task.cancel()

    def _begin(self) -> None:
        self._task = asyncio.get_running_loop().create_task(self._work())
        self._task.add_done_callback(self._end)

    def _end(self, task: asyncio.Task[_T]) -> None:
        if self._dropped:
            self._leave(task)
        else:
            self.answers.put(task)

    def _leave(self, task: asyncio.Task[_T]) -> None:
        if not task.cancelled() and task.exception() is None and self._unwanted is not None:
            self._unwanted(task.result())


class _Selector(DefaultSelector):
    """A fork has its parent's poll object: a socket that is dropped in the child must not be dropped for the parent."""

    def __init__(self) -> None:
        super().__init__()
        self._owner = os.getpid()

    def unregister(self, fileobj: Any) -> SelectorKey:  # noqa: ANN401 - a descriptor, or what has one
        return super().unregister(fileobj) if os.getpid() == self._owner else self.get_key(fileobj)
