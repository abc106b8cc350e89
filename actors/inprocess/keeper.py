"""Keeps this process's session: opens it, renews it on the portal's loop, replaces it when it is lost, and sweeps.

It also writes receipts, where they are asked for.
"""

from __future__ import annotations

import asyncio
import logging
import random

from ...leases.clock import BootClock
from ...leases.errors import ServerError, SessionLostError
from ...leases.session import Session, SessionSettings, Standing
from ...leases.store import Store
from ...ledger import sweep
from ...ledger.receipts import EVERY_S, Follower

log = logging.getLogger(__name__)


class Keeper:
    """One session after another, never two at once for new claims. Runs on the portal's loop.

    A loss ends no body that runs: nothing here can end it. But no mark and no settlement of a lost session passes, so
    that what a lapsed holder still does is refused or taken as evidence, by its fence.
    """

    def __init__(self, store: Store, settings: SessionSettings, *, name: str, follower: Follower | None) -> None:
        self._store = store
        self._settings = settings
        self._name = name
        self._follower = follower
        self._clock = BootClock()
        self._session: Session | None = None
        self._opening = asyncio.Lock()
        self._tasks: list[asyncio.Task[None]] = []

    def start(self) -> None:
        """Begin to renew, to sweep, and to follow for receipts."""
        loop = asyncio.get_running_loop()
        self._tasks = [
            loop.create_task(work(), name="mycelium-keeper") for work in (self._renew, self._sweep, self._follow)
        ]

    async def trusted(self) -> Session:
        """Give the session under which a claim may be made now.

        Raises:
            SessionLostError: this process does not trust its session now: the server does not answer its renewals.
            ServerError: no session could be opened.
        """
        async with self._opening:
            if self._session is None or self._session.lost.is_set():
                session = Session(self._store, self._settings, self._clock, name=self._name)
                await session.open()
                self._session = session
        session = self._session
        if not session.trusted():
            # The renewal may be late, not lost: it is tried at once before anything is refused.
            await session.renew_once()
        if session.lost.is_set():
            return await self.trusted()
        if not session.trusted():
            what = "This process has not been able to renew its session for too long to trust it."
            raise SessionLostError(what, next_step="Nothing was dispatched. Call again when the server answers.")
        return session

    async def aclose(self) -> None:
        """End the session in good order; one that still holds something runs out by itself. Then follow once more."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        try:
            await self._close_session()
        finally:
            if self._follower is not None:
                await self._follower.aclose()

    async def _close_session(self) -> None:
        if self._session is None or self._session.lost.is_set():
            return
        try:
            await self._session.close()
        except ServerError as away:
            log.warning("session not closed, it runs out by itself: %s", away)

    async def _renew(self) -> None:
        while True:
            await asyncio.sleep(self._settings.renew_every_s)
            session = self._session
            if session is None or session.lost.is_set():
                continue
            try:
                renewal = await session.renew_once()
            except Exception:  # whatever it is, the next renewal must come
                log.exception("session not renewed")
                continue
            if renewal.standing is not Standing.RENEWED:
                log.warning("session not renewed, gap %.3f s: %s", renewal.gap_s, renewal.why)

    async def _sweep(self) -> None:
        """Where no worker runs, nobody else takes what a dead process held from it."""
        while True:
            await asyncio.sleep(self._settings.ttl_s)
            try:
                await sweep.run_once(self._store)
            except ServerError as away:
                log.warning("sweep put off: %s", away)
            except Exception:  # the next one comes all the same
                log.exception("sweep failed")

    async def _follow(self) -> None:
        """Every process that wants receipts follows for all: whoever is alive writes those of the dead."""
        while self._follower is not None:
            await self._follower.step()
            await asyncio.sleep(EVERY_S * random.uniform(0.75, 1.25))  # noqa: S311 - jitter, no secret
