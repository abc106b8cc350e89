"""Ticks the look at the schedules. What is due, and what becomes of it, is in `scheduling`."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Mapping
from functools import partial

from ...leases.clock import Clock
from ...leases.errors import ServerError
from ...leases.store import Store
from ..runtime import Actor, ChildSpec
from ..schedules.facts import ScheduleFacts
from ..schedules.looking import ScheduleReport, run_once
from .messages import HostReady, TellReady

log = logging.getLogger(__name__)

LONGEST_PAUSE_S = 30.0
"""So long at most it goes by this machine's clock: the server's may be set, and a machine may be suspended."""
_SPREAD_S = 0.25
"""Workers wake up for a due time one after another, and most of them find its job made."""
_AWAY_S = 5.0


class Scheduler(Actor[HostReady]):
    """Every worker schedules; a due time has one job whoever makes it. Without schedules the server is not asked."""

    def __init__(self, store: Store, clock: Clock, rng: random.Random) -> None:
        self._store = store
        self._clock = clock
        self._rng = rng
        self._schedules: Mapping[str, ScheduleFacts] = {}
        self._wake = asyncio.Event()

    async def started(self) -> None:
        """Look for ever. Hosts are asked: the code that a replaced one has loaded may have other schedules."""
        self.every(LONGEST_PAUSE_S, self._ask_hosts)
        await self._ask_hosts()
        self.spawn_task(self._look_for_ever())

    async def receive(self, message: HostReady) -> object:
        """Learn of the schedules from a host, as of its tools."""
        if message.schedules != self._schedules:
            self._schedules = message.schedules
            self._wake.set()
        return None

    async def _ask_hosts(self) -> None:
        for host in self.below("control/hosts"):
            host.tell(TellReady(self.ref.path))

    async def _look_for_ever(self) -> None:
        while True:
            self._wake.clear()
            if self._schedules:
                await self._pause(await self._look())
            else:
                await self._wake.wait()

    async def _look(self) -> float:
        try:
            report = await run_once(self._store, self._schedules, self._clock)
        except ServerError as away:
            log.warning("schedules put off: %s", away)
            return _AWAY_S * self._rng.uniform(0.75, 1.25)
        if report.created:
            log.info("%d scheduled jobs submitted", report.created)
        return self._pause_s(report)

    def _pause_s(self, report: ScheduleReport) -> float:
        if report.next_in_s is None or report.next_in_s > LONGEST_PAUSE_S:
            return LONGEST_PAUSE_S * self._rng.uniform(0.75, 1.0)
        return report.next_in_s + self._rng.uniform(0.0, _SPREAD_S)

    async def _pause(self, for_s: float) -> None:
        due = self.timer.call_later(for_s, self._wake.set)
        try:
            await self._wake.wait()
        finally:
            due.cancel()


def scheduler_spec(store: Store, clock: Clock, rng: random.Random) -> ChildSpec:
    """The scheduler as a child of the worker's root."""
    return ChildSpec("scheduler", partial(Scheduler, store, clock, rng))
