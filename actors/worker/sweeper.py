"""Ticks the sweep: lapsed sessions and due rows. The rules are in `ledger.sweep`."""

from __future__ import annotations

import logging

from ...leases.errors import ServerError
from ...leases.store import Store
from ...ledger.sweep import SweepReport, run_once
from ..runtime import Actor
from .messages import Wake

log = logging.getLogger(__name__)


class Sweeper(Actor[Wake]):
    """Every worker sweeps; sweeping twice is harmless, since each step is a compare-and-set."""

    def __init__(self, store: Store, every_s: float) -> None:
        self._store = store
        self._every_s = every_s

    async def started(self) -> None:
        """Sweep now and then for ever."""
        self.every(self._every_s, self.sweep)

    async def receive(self, message: Wake) -> object:
        """Sweep now."""
        del message
        await self.sweep()
        return None

    async def sweep(self) -> SweepReport:
        """One sweep; a server that is away is waited for by the next one."""
        try:
            report = await run_once(self._store)
        except ServerError as away:
            log.warning("sweep put off: %s", away)
            return SweepReport()
        if report.sessions:
            log.warning("%d lapsed sessions ended, %d transitions taken from them", report.sessions, report.rows)
        if report.rows:
            self.find("reconciler").tell(Wake())
        return report
