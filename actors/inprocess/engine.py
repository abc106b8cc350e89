"""A portal with a service on it, and the handing over of grants between its thread and the caller's."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from contextlib import suppress
from typing import Any, TypeVar

from ...leases.errors import ServerUnavailableError
from ...ledger.states import Settled
from ...ledger.turn import Settlement
from ..portal import Portal
from .attempt import InlineAttempt
from .prepared import Begun, Prepared
from .service import Service
from .settings import LedgerSettings

_T = TypeVar("_T")


class Engine:
    """Made by `start`, in the process that it serves.

    Attributes:
        service: to be used on the portal's loop only.
    """

    def __init__(self, portal: Portal, service: Service) -> None:
        self.service = service
        self._portal = portal
        self._pid = os.getpid()

    @classmethod
    def start(cls, url: str | None, *, namespace: str, settings: LedgerSettings, name: str) -> Engine:
        """Start the thread, and connect.

        Raises:
            ServerError: nothing answered, or the server may not hold a ledger.
        """
        portal = Portal()
        try:
            service = portal.run(lambda: Service.open(url, namespace=namespace, settings=settings, name=name))
        except BaseException:
            portal.stop()
            raise
        return cls(portal, service)

    @property
    def forked(self) -> bool:
        """Whether this is a child of the process that has the thread."""
        return self._pid != os.getpid()

    # ── work whose caller may give up on it ──────────────────────────────────────────────────────────────────────────

    def run(self, work: Callable[[], Coroutine[Any, Any, _T]]) -> _T:
        """Do work on the portal, and wait for it in this thread; an interrupt cancels it."""
        return self._portal.run(work)

    async def await_(self, work: Callable[[], Coroutine[Any, Any, _T]]) -> _T:
        """Do work on the portal, and await it here; a cancellation cancels it."""
        return await asyncio.wrap_future(self._portal.start(work))

    # ── settlements: once begun they go on, whatever becomes of who waits for them ───────────────────────────────────

    def settle(self, attempt: InlineAttempt, settlement: Settlement) -> Settled:
        """Record how an attempt ended. Errors are those of `Settler.settle`."""
        return self._portal.finish(lambda: self.service.settler.settle(attempt, settlement))

    async def settle_async(self, attempt: InlineAttempt, settlement: Settlement) -> Settled:
        """As `settle`."""
        return await asyncio.shield(asyncio.wrap_future(self.leave(attempt, settlement)))

    def settle_or_refuse(self, attempt: InlineAttempt, settlement: Settlement) -> None:
        """Record what has to stand. Errors are those of `Settler.settle_or_refuse`."""
        self._portal.finish(lambda: self.service.settler.settle_or_refuse(attempt, settlement))

    async def settle_or_refuse_async(self, attempt: InlineAttempt, settlement: Settlement) -> None:
        """As `settle_or_refuse`."""
        work = self._portal.start(lambda: self.service.settler.settle_or_refuse(attempt, settlement))
        await asyncio.shield(asyncio.wrap_future(work))

    def leave(self, attempt: InlineAttempt, settlement: Settlement) -> Future[Settled]:
        """Have it recorded how an attempt ended, without a wait.

        Raises:
            ServerUnavailableError: the portal is closed; what the attempt held runs out with its session.
        """
        return self._portal.start(lambda: self.service.settler.settle(attempt, settlement))

    # ── claims ───────────────────────────────────────────────────────────────────────────────────────────────────────

    def begin(self, call: Prepared) -> Begun:
        """Get leave for one call, in plain code. Errors are those of `Gatekeeper.begin`."""
        return self._portal.run(lambda: self.service.begin(call), unwanted=self._take_back)

    async def begin_async(self, call: Prepared) -> Begun:
        """Get leave for one call, in async code. Errors are those of `Gatekeeper.begin`."""
        promise = self._promise(call)
        try:
            return await asyncio.wrap_future(promise)
        except BaseException:
            self._abandon(promise)
            raise

    def stop(self) -> None:
        """Close the service, and end the thread."""
        if self.forked:
            return
        try:
            self._portal.run(self.service.aclose)
        finally:
            self._portal.stop()

    def _promise(self, call: Prepared) -> Future[Begun]:
        """A grant is handed over or given back, whatever becomes of its caller meanwhile."""
        promise: Future[Begun] = Future()

        async def deliver() -> None:
            try:
                begun = await self.service.begin(call)
            except BaseException as error:
                if promise.set_running_or_notify_cancel():
                    promise.set_exception(error)
                if not isinstance(error, Exception):
                    raise
                return
            if promise.set_running_or_notify_cancel():
                promise.set_result(begun)
            else:
                self._take_back(begun)

        work = self._portal.start(deliver)
        # Nobody waits any more: neither for the server nor for another holder.
        promise.add_done_callback(lambda done: done.cancelled() and work.cancel())
        return promise

    def _abandon(self, promise: Future[Begun]) -> None:
        if promise.cancel() or promise.cancelled() or promise.exception() is not None:
            return
        # It was delivered in the very moment in which its caller was cut short.
        begun = promise.result()
        with suppress(ServerUnavailableError):
            self._portal.loop.call_soon_threadsafe(self._take_back, begun)

    def _take_back(self, begun: Begun) -> None:
        if isinstance(begun, InlineAttempt):
            self.service.settler.pick_up(begun)
