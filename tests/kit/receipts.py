"""Receipts for tests, and the keys that sign them."""

from __future__ import annotations

import dataclasses

from mycelium.ledger.about import About
from mycelium.ledger.receipts import Receipt, ReceiptKeys, ReceiptKind
from mycelium.ledger.receipts.receipt import receipt_id_of
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
        "args_sha256": "a" * 64,
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


def row(state: State = State.COMPLETED, *entries: Entry, why: str = "settled", **other: object) -> Record:
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
    return Record(**(told | other))  # type: ignore[arg-type] # pyright: ignore[reportArgumentType]
