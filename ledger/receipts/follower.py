"""Keeps on following for one process: tells what goes wrong once, and lets nothing of it reach anybody's call."""

from __future__ import annotations

import asyncio
import logging

from ...leases.errors import MyceliumError, ReceiptError, ScriptError
from ...leases.store import Store
from .follow import FollowReport, run_once
from .writer import ReceiptWriter

log = logging.getLogger(__name__)

EVERY_S = 1.0
"""Between two steps. How late a receipt may be; nothing waits for it."""

_LAST_STEP_S = 5.0


class Follower:
    """Ticked by whoever has a loop.

    Args:
        store: the ledger.
        writer: signs and keeps; closed with the follower.
    """

    def __init__(self, store: Store, writer: ReceiptWriter) -> None:
        self._store = store
        self._writer = writer
        self._fault = ""

    async def step(self) -> FollowReport:
        """Follow up to now. Whatever goes wrong is logged, and left for the next step; nothing is raised."""
        try:
            report = await run_once(self._store, self._writer)
        except Exception as error:  # noqa: BLE001 - a receipt never stops a worker or a call
            self._failed(error)
            return FollowReport()
        if self._fault:
            self._fault = ""
            log.info("receipts are written again: %d", report.written)
        return report

    async def aclose(self, within_s: float = _LAST_STEP_S) -> None:
        """Follow once more, in a limited time, and let go of the sink; what is left is for the next follower."""
        try:
            async with asyncio.timeout(within_s):
                await self.step()
        except TimeoutError:
            log.warning("receipts are not caught up within %g s; whoever follows next goes on there", within_s)
        finally:
            await self._writer.aclose()

    def _failed(self, error: Exception) -> None:
        # Told when it is new: a sink that is away for a day is not worth a line a second.
        fault = str(error) if isinstance(error, MyceliumError) else type(error).__name__
        if fault == self._fault:
            return
        self._fault = fault
        if isinstance(error, (ReceiptError, ScriptError)):
            log.error("receipts wait: %s", error)
        elif isinstance(error, MyceliumError):
            log.warning("receipts put off: %s", error)
        else:
            log.error("receipts wait: %s", fault, exc_info=error)
