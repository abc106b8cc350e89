"""Receipts for tests, the keys that sign them, and what a sink keeps."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path

from mycelium.leases.store import Store
from mycelium.ledger.about import About
from mycelium.ledger.receipts import Receipt, ReceiptKeys, ReceiptKind, ReceiptStream, Row, Tally
from mycelium.ledger.receipts.file import read_lines
from mycelium.ledger.receipts.line import Line
from mycelium.ledger.receipts.receipt import receipt_id_of
from mycelium.ledger.receipts.sinks import is_table, path_of
from mycelium.ledger.receipts.table import ReceiptTable
from mycelium.ledger.record import Entry, Record
from mycelium.ledger.states import Boundary, State

SECRET = bytes(range(32))
KEYS = ReceiptKeys({"key-1": SECRET})
KEY = f"key-1:{SECRET.hex()}"
"""The same as people write it."""


def receipt(request_id: str = "charge-1", **other: object) -> Receipt:
    """One signed receipt of a completed call, with some fields as given."""
    told: dict[str, object] = {
        "kind": ReceiptKind.SETTLED,
        "request_id": request_id,
        "effect_id": "e" * 64,
        "tool": "charge",
        "agent_id": "clerk",
        "policy_version": "7",
        "state": State.COMPLETED,
        "boundary": Boundary.CROSSED,
        "fence": "1800000000000001",
        "attempt": 1,
        "result_sha256": "b" * 64,
        "error": "",
        "why": "settled",
        "at_ms": 1_800_000_000_000,
    }
    return KEYS.signer.sign(unsigned(**(told | other)))


def unsigned(**told: object) -> Receipt:
    """A receipt with its id, from every other field."""
    receipt_id = receipt_id_of(
        ReceiptKind(str(told["kind"])),
        request_id=str(told["request_id"]),
        effect_id=str(told["effect_id"]),
        fence=str(told["fence"]),
        state=State(str(told["state"])),
    )
    return Receipt(receipt_id=receipt_id, **told)  # type: ignore[arg-type] # pyright: ignore[reportArgumentType]


def row(state: State = State.COMPLETED, *entries: Entry, why: str = "settled", **other: object) -> Row:
    """A row of the ledger that came to a state at 3,000 ms, with a late fact noted since; or of another history."""
    history = entries or (
        Entry(1, 1_000, "ready", "0", "submit"),
        Entry(2, 2_000, "attempting", "7", "claim"),
        Entry(3, 3_000, state, "7", why),
        Entry(4, 4_000, "note", "7", "stale failed"),
    )
    told = dict.fromkeys((field.name for field in dataclasses.fields(Record)), "") | {
        "request_id": "charge-1",
        "effect_id": "e" * 64,
        "tool": "charge",
        "state": state,
        "boundary": Boundary.CROSSED,
        "fence": "7",
        "attempts": 1,
        "about": About(agent_id="clerk", policy_version="7"),
        "history": history,
    }
    digest = "b" * 64 if state is State.COMPLETED else ""
    return Row(Record(**(told | other)), digest)  # type: ignore[arg-type] # pyright: ignore[reportArgumentType]


async def kept(address: str, store: Store) -> list[Receipt]:
    """What is kept at an address: each verified, and none there twice."""
    lines = await _lines(address, store)
    tally = Tally(KEYS)
    for line in lines:
        tally.add(line)
    assert (tally.bad, tally.repeated) == ({}, 0), tally.flaws
    return [Receipt.read(line.body) for line in lines if not line.torn]


async def _lines(address: str, store: Store) -> Sequence[Line]:
    if address == "redis:":
        return [line async for line in ReceiptStream(store).lines()]
    if is_table(address):
        table = ReceiptTable(address)
        try:
            return [line async for line in table.lines()]
        finally:
            await table.aclose()
    return _file_lines(path_of(address))


def _file_lines(path: Path) -> Sequence[Line]:
    if not path.exists():
        return []
    with path.open("rb") as stream:
        return list(read_lines(stream))


def facts(receipts: Sequence[Receipt]) -> list[tuple[str, str, str]]:
    """Which transition, what kind, which state; sorted."""
    return sorted((one.request_id, str(one.kind), str(one.state)) for one in receipts)
