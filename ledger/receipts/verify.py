"""Says of a receipt whether it is as it was signed."""

from __future__ import annotations

import hmac
from collections import Counter
from dataclasses import dataclass
from enum import StrEnum
from typing import cast

import msgspec

from ...leases.errors import BadCallError
from .keys import ReceiptKeys
from .line import Line
from .receipt import VERSION, Receipt

MOST_TOLD = 1000
"""Flaws that a tally keeps; it counts them all."""


class Verdict(StrEnum):
    """What a look at a receipt found."""

    OK = "ok"
    """It is as it was signed."""
    BAD_SIGNATURE = "bad_signature"
    """Something in it was changed, or another key with the same id signed it."""
    UNKNOWN_KEY = "unknown_key"
    """It was signed with a key that is not at hand: nothing is known of it."""
    MALFORMED = "malformed"
    """It is no receipt, or not written as receipts are."""
    VERSION = "version"
    """It is of a form that this version does not know."""


@dataclass(frozen=True, slots=True)
class Verified:
    """What was found, and of which receipt, as far as it can be told; ids of a bad receipt are what it claims.

    Attributes:
        verdict: what was found.
        receipt_id: its id; empty where it cannot be read.
        request_id: its transition; empty where it cannot be read.
        key_id: the key that it names; empty where it cannot be read.
    """

    verdict: Verdict
    receipt_id: str = ""
    request_id: str = ""
    key_id: str = ""

    @property
    def ok(self) -> bool:
        """Whether it is as it was signed."""
        return self.verdict is Verdict.OK


def verify(receipt: Receipt, keys: ReceiptKeys) -> Verified:
    """Look at a receipt's signature, in constant time."""
    return Verified(_verdict(receipt, keys), receipt.receipt_id, receipt.request_id, receipt.key_id)


def verify_line(body: bytes, keys: ReceiptKeys, *, stored_as: str = "") -> Verified:
    """Look at a receipt as it is stored.

    Args:
        body: its bytes, without the line's end.
        keys: the keys at hand.
        stored_as: the id that the storage has for it, where it has one.
    """
    try:
        receipt = Receipt.read(body)
    except (ValueError, BadCallError):
        return Verified(_unreadable(body), stored_as)
    found = verify(receipt, keys)
    if found.ok and stored_as not in {"", receipt.receipt_id}:
        return Verified(Verdict.MALFORMED, stored_as, receipt.request_id, receipt.key_id)
    return found


def _verdict(receipt: Receipt, keys: ReceiptKeys) -> Verdict:
    if receipt.version != VERSION:
        return Verdict.VERSION
    signer = keys.get(receipt.key_id)
    if signer is None:
        return Verdict.UNKNOWN_KEY
    try:
        wanted, found = signer.signature_of(receipt).encode(), receipt.signature.encode()
    except (BadCallError, UnicodeEncodeError):
        return Verdict.MALFORMED
    return Verdict.OK if hmac.compare_digest(wanted, found) else Verdict.BAD_SIGNATURE


def _unreadable(body: bytes) -> Verdict:
    try:
        told: object = msgspec.json.decode(body)
    except (ValueError, RecursionError):
        return Verdict.MALFORMED
    version = cast("dict[str, object]", told).get("version") if isinstance(told, dict) else None
    return Verdict.VERSION if isinstance(version, int) and version != VERSION else Verdict.MALFORMED


class Tally:
    """Counts what a look at many receipts found.

    Attributes:
        good: receipts that are as they were signed, each counted once.
        repeated: good ones that were there before.
        torn: half lines that a writer left when it was killed: they were never acknowledged.
        bad: how many of each other verdict.
        flaws: where the first thousand bad ones are, and what was found.
    """

    def __init__(self, keys: ReceiptKeys) -> None:
        self.good = 0
        self.repeated = 0
        self.torn = 0
        self.bad: Counter[Verdict] = Counter()
        self.flaws: list[tuple[str, Verified]] = []
        self._keys = keys
        self._seen: set[bytes] = set()

    def add(self, line: Line) -> None:
        """Look at one more."""
        if line.torn:
            self.torn += 1
            return
        found = verify_line(line.body, self._keys, stored_as=line.stored_as)
        if not found.ok:
            self.bad[found.verdict] += 1
            if len(self.flaws) < MOST_TOLD:
                self.flaws.append((line.where, found))
            return
        mark = bytes.fromhex(found.receipt_id)[:16]
        if mark in self._seen:
            self.repeated += 1
        else:
            self._seen.add(mark)
            self.good += 1
