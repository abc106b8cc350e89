"""Receipts: one signed line for each call that settled, and for each release by a person.

    row in the ledger ── facts ──▶ Receipt ── ReceiptSigner ──▶ signed ── sink ──▶ file | stream of the ledger | table
                                                                              ◀── verify ──┘

    receipt  what a receipt says, its id and its one form in bytes
    facts    builds the receipts of a row from the row alone, so that what could not be written is written later
    keys     signs; finds the key of a signature, also after the key was changed
    verify   says of a receipt whether it is as it was signed
    sinks    where receipts go, chosen by address: file, stream, table
    writer   signs and writes when a call settles; its failures never touch the call's own outcome

A receipt has digests, never arguments or results. The digest of something that can be guessed can be guessed, too.
A signature proves that a receipt is as it was written by somebody with the key. It does not prove that none is missing.
"""

from __future__ import annotations

from .facts import Digests, read_row, receipts_of, release_receipt, settled_receipt
from .file import ReceiptFile
from .keys import ReceiptKeys, ReceiptSigner
from .receipt import Receipt, ReceiptKind
from .sinks import ReceiptSink, sink_of
from .stream import ReceiptStream
from .verify import Tally, Verdict, Verified, verify, verify_line
from .writer import OnFailure, ReceiptWriter

__all__ = [
    "Digests",
    "OnFailure",
    "Receipt",
    "ReceiptFile",
    "ReceiptKeys",
    "ReceiptKind",
    "ReceiptSigner",
    "ReceiptSink",
    "ReceiptStream",
    "ReceiptWriter",
    "Tally",
    "Verdict",
    "Verified",
    "read_row",
    "receipts_of",
    "release_receipt",
    "settled_receipt",
    "sink_of",
    "verify",
    "verify_line",
]
