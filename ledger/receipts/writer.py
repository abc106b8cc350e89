"""Signs and writes receipts when something settles. What goes wrong with one never touches the call's own outcome."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from enum import StrEnum

from ...leases.errors import MyceliumError, ReceiptError
from ..record import Record
from .facts import UNKNOWN, Digests, release_receipt, settled_receipt
from .keys import ReceiptSigner
from .receipt import Receipt
from .sinks import ReceiptSink

log = logging.getLogger(__name__)


class OnFailure(StrEnum):
    """What becomes of a receipt that cannot be written. It can be written later from the row in any case."""

    WARN = "warn"
    """It is logged and counted."""
    ERROR = "error"
    """It is raised: the call has settled nevertheless, and stays so."""


class ReceiptWriter:
    """Makes, signs and writes the receipts of what has settled. Call it after the settlement, never before.

    Args:
        signer: signs.
        sink: keeps them; it is the caller's to close.
        on_failure: what to do about one that cannot be written.
        timeout_s: how long the sink may take.

    Attributes:
        written: receipts that the sink took.
        failed: receipts that could not be written.
    """

    def __init__(
        self,
        signer: ReceiptSigner,
        sink: ReceiptSink,
        on_failure: OnFailure = OnFailure.WARN,
        *,
        timeout_s: float = 10.0,
    ) -> None:
        self.written = 0
        self.failed = 0
        self._signer = signer
        self._sink = sink
        self._on_failure = on_failure
        self._timeout_s = timeout_s

    async def settled(
        self, record: Record, digests: Digests = UNKNOWN, *, raised: BaseException | None = None
    ) -> Receipt | None:
        """Write the receipt of a call that ended.

        Args:
            record: its row, read after the settlement.
            digests: what stands for the content.
            raised: the tool's own error, which the caller is about to raise: it is never replaced by one of ours.

        Returns:
            The receipt; None if it could not be written.

        Raises:
            MyceliumError: it could not be written, failures are to be raised, and nothing else is about to be.
        """
        return await self._write(record, lambda: settled_receipt(record, digests), raised)

    async def released(
        self, record: Record, digests: Digests = UNKNOWN, *, raised: BaseException | None = None
    ) -> Receipt | None:
        """Write the receipt of a release by a person; arguments and errors are those of `settled`."""
        return await self._write(record, lambda: release_receipt(record, digests), raised)

    async def _write(self, record: Record, make: Callable[[], Receipt], raised: BaseException | None) -> Receipt | None:
        try:
            receipt = self._signer.sign(make())
            async with asyncio.timeout(self._timeout_s):
                await self._sink.write([receipt])
        except Exception as error:  # noqa: BLE001 - a sink may be anybody's, and must not end the call
            self._failed(record, _told(error, self._timeout_s), raised)
            return None
        self.written += 1
        return receipt

    def _failed(self, record: Record, error: MyceliumError, raised: BaseException | None) -> None:
        self.failed += 1
        if self._on_failure is OnFailure.ERROR and raised is None:
            raise error
        log.warning("no receipt of %s (%s) was written: %s", record.request_id, record.state, error)
        if self._on_failure is OnFailure.ERROR and raised is not None:
            raised.add_note(f"Its receipt could not be written either: {error}")


def _told(error: Exception, timeout_s: float) -> MyceliumError:
    if isinstance(error, MyceliumError):
        return error
    # The text of somebody else's error may hold anything.
    why = f"took more than {timeout_s:g} s" if isinstance(error, TimeoutError) else f"raised {type(error).__name__}"
    told = ReceiptError(
        f"The receipts' sink {why}.", next_step="Mend it, then write them with `mycelium receipts issue`."
    )
    told.__cause__ = error
    return told
