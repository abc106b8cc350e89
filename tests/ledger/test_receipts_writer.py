"""Handing a batch to a sink: it is signed and kept, or told as not kept; what cannot be signed keeps nothing back."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from pathlib import Path

import pytest

from kit.receipts import KEY, KEYS, row
from mycelium.leases.errors import ReceiptError, ServerUnavailableError, SettingsError
from mycelium.leases.store import open_store
from mycelium.ledger.receipts import OnFailure, Receipt, ReceiptWriter, receipts_of, receipts_to, verify


class Sink:
    """Somebody's own: it keeps what it gets, or fails as it was told to."""

    def __init__(self, fault: BaseException | None = None, *, hang: bool = False) -> None:
        self.fault = fault
        self.hang = hang
        self.kept: list[Receipt] = []
        self.closed = False

    async def write(self, receipts: Sequence[Receipt]) -> None:
        if self.fault:
            raise self.fault
        if self.hang:
            await asyncio.Event().wait()
        self.kept += receipts

    async def aclose(self) -> None:
        self.closed = True


def writer(sink: Sink, on_failure: OnFailure = OnFailure.ERROR) -> ReceiptWriter:
    return ReceiptWriter(KEYS.signer, sink, on_failure, timeout_s=0.05)


RECEIPTS = [*receipts_of(row()), *receipts_of(row(request_id="charge-2"))]


async def test_a_batch_is_signed_and_handed_over_whole() -> None:
    sink = Sink()
    assert await writer(sink).write(RECEIPTS) == 2
    assert [receipt.request_id for receipt in sink.kept] == ["charge-1", "charge-2"]
    assert all(verify(receipt, KEYS).ok for receipt in sink.kept)
    await writer(sink).aclose()
    assert sink.closed


async def test_where_there_is_nothing_to_write_the_sink_is_not_asked() -> None:
    assert await writer(Sink(RuntimeError())).write([]) == 0


FAULTS = [
    ReceiptError("The disk is full.", next_step="Mend it."),
    ServerUnavailableError("The server is away.", next_step="Start it."),
    RuntimeError("password=opensesame"),
    None,
]
NAMES = ["ours", "a server", "somebody's", "none ever"]


@pytest.mark.parametrize("fault", FAULTS, ids=NAMES)
async def test_a_batch_that_is_not_kept_is_raised_without_a_word_of_somebody_elses(fault: Exception | None) -> None:
    with pytest.raises(ReceiptError) as raised:
        await writer(Sink(fault, hang=True)).write(RECEIPTS)
    assert "opensesame" not in f"{raised.value!s} {raised.value!r}"
    assert raised.value.next_step


@pytest.mark.parametrize("fault", FAULTS, ids=NAMES)
async def test_or_it_is_given_up_with_a_warning(fault: Exception | None, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        assert await writer(Sink(fault, hang=True), OnFailure.WARN).write(RECEIPTS) == 0
    [line] = [record.getMessage() for record in caplog.records if record.name.startswith("mycelium")]
    assert line.startswith("2 receipts were given up: ")
    assert "opensesame" not in caplog.text


async def test_whoever_is_cancelled_while_a_batch_is_written_stays_cancelled() -> None:
    for on_failure in OnFailure:
        with pytest.raises(asyncio.CancelledError):
            await writer(Sink(asyncio.CancelledError()), on_failure).write(RECEIPTS)


async def test_what_cannot_be_signed_keeps_back_nothing_else(caplog: pytest.LogCaptureFixture) -> None:
    sink = Sink()
    with caplog.at_level(logging.WARNING):
        assert await writer(sink).write([*receipts_of(row(error="\udc80")), *RECEIPTS]) == 2
    assert "no receipt of charge-1 (completed) can be made" in caplog.text


async def test_a_place_for_receipts_is_named_before_the_ledger_is_open(
    url: str, namespace: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("MYCELIUM_RECEIPT_KEY", raising=False)
    with pytest.raises(SettingsError, match="no receipt key"):
        receipts_to("receipts")
    monkeypatch.setenv("MYCELIUM_RECEIPT_KEY", KEY)
    store = await open_store(url, namespace=namespace)
    try:
        with pytest.raises(SettingsError, match="no address for receipts") as refused:
            receipts_to("s3://opensesame")(store)
        assert "opensesame" not in f"{refused.value!r} {receipts_to('s3://opensesame')!r}"
        for address in (str(tmp_path / "r"), "redis:"):
            made = receipts_to(address)(store)
            assert await made.write(RECEIPTS) == 2
            await made.aclose()
    finally:
        await store.aclose()
    assert len((tmp_path / "r").read_bytes().splitlines()) == 2
