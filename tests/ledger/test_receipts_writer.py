"""Writing receipts as things settle: a sink that fails changes nothing of the call, and what is missing comes later."""

from __future__ import annotations

import asyncio
import dataclasses
import logging
from collections.abc import Sequence
from pathlib import Path

import pytest

from kit.receipts import KEYS, row
from mycelium.leases.errors import MyceliumError, ReceiptError
from mycelium.ledger.receipts import (
    Digests,
    OnFailure,
    Receipt,
    ReceiptFile,
    ReceiptKind,
    ReceiptWriter,
    settled_receipt,
    verify,
)
from mycelium.ledger.states import State


class Sink:
    """Somebody's own: it keeps what it gets, or fails as it was told to."""

    def __init__(self, fault: BaseException | None = None, *, hang: bool = False) -> None:
        self.fault = fault
        self.hang = hang
        self.kept: dict[str, Receipt] = {}

    async def write(self, receipts: Sequence[Receipt]) -> None:
        if self.fault:
            raise self.fault
        if self.hang:
            await asyncio.Event().wait()
        self.kept.update((receipt.receipt_id, receipt) for receipt in receipts)

    async def aclose(self) -> None: ...


def writer(sink: Sink | ReceiptFile, on_failure: OnFailure = OnFailure.WARN) -> ReceiptWriter:
    return ReceiptWriter(KEYS.signer, sink, on_failure, timeout_s=0.05)


async def test_a_settled_call_has_one_signed_receipt_however_often_it_is_told() -> None:
    sink = Sink()
    receipts = writer(sink)
    first = await receipts.settled(row(), Digests.of(b"{}", b"1"))
    assert first is not None
    assert verify(first, KEYS).ok
    assert await receipts.settled(row(), Digests.of(b"{}", b"1")) == first
    assert list(sink.kept.values()) == [first]
    assert (receipts.written, receipts.failed) == (2, 0)


async def test_a_release_has_one_of_its_own() -> None:
    sink = Sink()
    released = row(why="operator", resolution="completed", resolved_by="ann", resolution_reason="seen")
    told = await writer(sink).released(released)
    await writer(sink).settled(released)
    assert told is not None
    assert (told.kind, told.by, told.reason) == (ReceiptKind.RELEASED, "ann", "seen")
    assert len(sink.kept) == 2


FAULTS = [ReceiptError("The disk is full.", next_step="Mend it."), RuntimeError("password=opensesame"), None]


@pytest.mark.parametrize("fault", FAULTS, ids=["ours", "somebody's", "none ever"])
async def test_a_sink_that_fails_is_logged_and_the_call_goes_on(
    fault: BaseException | None, caplog: pytest.LogCaptureFixture
) -> None:
    receipts = writer(Sink(fault, hang=True))
    with caplog.at_level(logging.WARNING):
        assert await receipts.settled(row()) is None
    [line] = [record.getMessage() for record in caplog.records if record.name.startswith("mycelium")]
    assert line.startswith("no receipt of charge-1 (completed) was written: ")
    assert "opensesame" not in caplog.text
    assert (receipts.written, receipts.failed) == (0, 1)


@pytest.mark.parametrize("fault", FAULTS, ids=["ours", "somebody's", "none ever"])
async def test_a_sink_that_fails_is_raised_where_that_is_wanted(fault: BaseException | None) -> None:
    receipts = writer(Sink(fault, hang=True), OnFailure.ERROR)
    with pytest.raises(ReceiptError) as raised:
        await receipts.settled(row())
    assert "opensesame" not in str(raised.value)
    assert receipts.failed == 1


async def test_the_tools_own_error_is_never_replaced_by_that_of_a_receipt() -> None:
    own = ValueError("the seat is taken")
    receipts = writer(Sink(FAULTS[0]), OnFailure.ERROR)
    assert await receipts.settled(row(State.FAILED), raised=own) is None
    assert own.__notes__ == ["Its receipt could not be written either: The disk is full. Mend it."]
    silent = ValueError("the seat is taken")
    await writer(Sink(FAULTS[0])).settled(row(State.FAILED), raised=silent)
    assert not hasattr(silent, "__notes__")


async def test_a_call_that_is_cancelled_while_its_receipt_is_written_stays_cancelled() -> None:
    with pytest.raises(asyncio.CancelledError):
        await writer(Sink(asyncio.CancelledError()), OnFailure.WARN).settled(row())


async def test_what_has_not_settled_is_no_receipt_and_no_crash() -> None:
    receipts = writer(Sink())
    assert await receipts.settled(row(State.READY)) is None
    assert await receipts.settled(row(error="\udc80")) is None
    with pytest.raises(MyceliumError):
        await writer(Sink(), OnFailure.ERROR).settled(row(error="\udc80"))
    assert receipts.failed == 2


async def test_a_receipt_that_was_not_written_is_made_later_to_the_same_byte(tmp_path: Path) -> None:
    lost = writer(Sink(FAULTS[0]))
    assert await lost.settled(row()) is None
    sink = Sink()
    await writer(sink).settled(row())
    later = KEYS.signer.sign(settled_receipt(row()))
    [kept] = sink.kept.values()
    assert later.body() == kept.body()
    file = writer(ReceiptFile(tmp_path / "receipts"))
    for receipt in (later, dataclasses.replace(later)):
        assert await file.settled(row()) == receipt
    assert len((tmp_path / "receipts").read_bytes().splitlines()) == 1
