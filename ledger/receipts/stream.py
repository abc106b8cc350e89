"""Receipts in the ledger's own server and namespace: a stream, and the set of the ids that are in it.

Neither has a TTL or a cap: a receipt is dropped by people who have put it elsewhere, never by the ledger. An id stays
when its receipt is trimmed from the stream, so that it does not come back.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from enum import StrEnum
from typing import NamedTuple

from ...leases.scripts import scripted
from ...leases.store import Store
from ..replies import integer, items, raw, text
from .line import Line
from .receipt import Receipt

_BATCH = 100
_PAGE = 500


class AppendReply(StrEnum):
    """What the store says of appended receipts."""

    OK = "ok"
    """Each is in the stream, now or before."""


class ReceiptItem(NamedTuple):
    """One signed receipt, as `append_receipts.lua` takes it."""

    id: str
    body: bytes


@scripted("mycelium.ledger", "append_receipts", AppendReply)
def append_receipts_script(*, receipt: Sequence[ReceiptItem]) -> None:
    """Stub of `append_receipts.lua`."""


class ReceiptStream:
    """Appends to the stream of a ledger.

    Args:
        store: the ledger's server; it is the caller's to close.
    """

    def __init__(self, store: Store) -> None:
        self._store = store

    async def write(self, receipts: Sequence[Receipt]) -> int:
        """Append receipts; a lost reply appends none twice.

        Returns:
            How many were not there before.

        Raises:
            ServerError: the server could not be asked, or is full; sending them again is safe.
        """
        new = 0
        for at in range(0, len(receipts), _BATCH):
            batch = [ReceiptItem(receipt.receipt_id, receipt.body()) for receipt in receipts[at : at + _BATCH]]
            # The script's answer cannot tell: sent again after a lost reply, it finds all of them there.
            ids = dict.fromkeys(item.id for item in batch)
            there = items(await self._store.calls.read("SMISMEMBER", self._store.keys.receipted(), *ids))
            await self._store.calls.run(append_receipts_script(receipt=batch))
            new += sum(integer(one) == 0 for one in there)
        return new

    async def aclose(self) -> None:
        """Do nothing: the store is the caller's."""

    async def lines(self) -> AsyncGenerator[Line]:
        """Read the stream, oldest first.

        Raises:
            ServerError: the server could not be asked.
        """
        start = "-"
        while True:
            key = self._store.keys.receipts()
            page = items(await self._store.calls.read("XRANGE", key, start, "+", "COUNT", _PAGE))
            for entry in page:
                entry_id, fields = items(entry)
                start = "(" + text(entry_id)
                values = [raw(value) for value in items(fields)]
                yield Line(f"entry {text(entry_id)}", values[1] if values[:1] == [b"receipt"] else b"")
            if len(page) < _PAGE:
                return
