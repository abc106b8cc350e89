"""Ticks the follower that writes receipts. The rules are in `ledger.receipts`."""

from __future__ import annotations

from ...leases.store import Store
from ...ledger.receipts import EVERY_S, Follower, FollowReport, ReceiptWriter
from ..runtime import Actor, StopReason
from .messages import Wake


class Receipts(Actor[Wake]):
    """Every worker that is told where receipts go follows for all: following twice is harmless."""

    def __init__(self, store: Store, writer: ReceiptWriter) -> None:
        self._follower = Follower(store, writer)

    async def started(self) -> None:
        """Follow now and then for ever."""
        self.every(EVERY_S, self._follower.step)

    async def receive(self, message: Wake) -> FollowReport:
        """Follow now."""
        del message
        return await self._follower.step()

    async def stopping(self, reason: StopReason) -> None:
        """Write what the end of the worker settled, too."""
        del reason
        await self._follower.aclose()
