"""Signs receipts and hands them to a sink, a batch at a time."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from enum import StrEnum

from ...leases.errors import BadCallError, MyceliumError, ReceiptError
from ...leases.store import Store
from .keys import ReceiptKeys, ReceiptSigner
from .receipt import Receipt
from .sinks import ReceiptSink, sink_of

log = logging.getLogger(__name__)


class OnFailure(StrEnum):
    """What becomes of a batch that the sink does not take. No call ever hears of it."""

    WARN = "warn"
    """It is given up with a warning; `mycelium receipts issue` writes it later, while its rows are kept."""
    ERROR = "error"
    """It is raised, and comes again until the sink takes it: nothing after it is written before."""


class ReceiptWriter:
    """Signs and writes.

    Args:
        signer: signs.
        sink: keeps them; closed with the writer.
        on_failure: what becomes of a batch that the sink does not take.
        timeout_s: how long the sink may take over one.
    """

    def __init__(
        self,
        signer: ReceiptSigner,
        sink: ReceiptSink,
        on_failure: OnFailure = OnFailure.ERROR,
        *,
        timeout_s: float = 10.0,
    ) -> None:
        self._signer = signer
        self._sink = sink
        self._on_failure = on_failure
        self._timeout_s = timeout_s

    async def write(self, receipts: Sequence[Receipt]) -> int:
        """Sign and write one batch; writing it again is safe.

        Returns:
            How many the sink keeps: those that can be signed, or none where a failure is only warned of.

        Raises:
            ReceiptError: the sink did not take the batch, and failures are to be raised.
        """
        signed = [one for receipt in receipts if (one := self._signed(receipt)) is not None]
        if not signed:
            return 0
        try:
            async with asyncio.timeout(self._timeout_s):
                await self._sink.write(signed)
        except Exception as error:  # a sink may be anybody's
            told = _told(error, self._timeout_s)
            if self._on_failure is OnFailure.ERROR:
                raise told from error
            log.warning("%d receipts were given up: %s", len(signed), told)
            return 0
        return len(signed)

    async def aclose(self) -> None:
        """Let go of the sink."""
        await self._sink.aclose()

    def _signed(self, receipt: Receipt) -> Receipt | None:
        try:
            return self._signer.sign(receipt)
        except BadCallError as error:
            # It never can be: waiting for it would keep back all that come after it.
            log.warning("no receipt of %s (%s) can be made: %s", receipt.request_id, receipt.state, error)
            return None


MakeWriter = Callable[[Store], ReceiptWriter]
"""Makes the writer of an open ledger."""


def receipts_to(
    address: str, *, keys: ReceiptKeys | None = None, on_failure: OnFailure = OnFailure.ERROR
) -> MakeWriter:
    """Say where the receipts of a ledger go, before it is open.

    Args:
        address: as `sink_of` takes it; it may hold a password, so it is never shown.
        keys: what signs; None: MYCELIUM_RECEIPT_KEY.
        on_failure: what becomes of a batch that the sink does not take.

    Raises:
        SettingsError: there is no key; or later, as `sink_of`.
    """
    signer = (keys or ReceiptKeys.from_environment()).signer

    def make(store: Store) -> ReceiptWriter:
        return ReceiptWriter(signer, sink_of(address, store=store), on_failure)

    return make


def _told(error: Exception, timeout_s: float) -> ReceiptError:
    if isinstance(error, ReceiptError):
        return error
    if isinstance(error, MyceliumError):
        return ReceiptError(error.what, next_step=error.next_step)
    # The text of somebody else's error may hold anything.
    why = f"took more than {timeout_s:g} s" if isinstance(error, TimeoutError) else f"raised {type(error).__name__}"
    return ReceiptError(f"The receipts' sink {why}.", next_step="Mend it; what it did not take can be written again.")
