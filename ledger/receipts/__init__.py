"""Receipts: one signed line for each outcome that a call came to, and for each release by a person.

    events of the ledger ── follow ──▶ row ── facts ──▶ Receipt ── writer ──▶ file | stream of the ledger | table
                                                                                        ◀── verify ──┘

    receipt   what a receipt says, its id and its one form in bytes
    facts     builds the receipts of a row
    keys      signs; finds the key of a signature, also after the key was changed
    verify    says of a receipt whether it is as it was signed
    sinks     where receipts go, chosen by address: file, stream, table
    writer    signs, and hands a batch to a sink
    follow    writes what the ledger's events tell, from the place that was reached: at least once, and each id once
    follower  keeps on following for one process; its failures never touch a call

A receipt has digests, never arguments or results. The digest of something that can be guessed can be guessed, too.
A signature proves that a receipt is as it was written by somebody with the key. It does not prove that none is missing.
"""

from __future__ import annotations

from .facts import Row, read_row, receipts_at, receipts_of
from .file import ReceiptFile
from .follow import FollowReport, run_once
from .follower import EVERY_S, Follower
from .keys import ReceiptKeys, ReceiptSigner
from .receipt import Receipt, ReceiptKind
from .sinks import ReceiptSink, sink_of
from .stream import ReceiptStream
from .verify import Tally, Verdict, Verified, verify, verify_line
from .writer import MakeWriter, OnFailure, ReceiptWriter, receipts_to

__all__ = [
    "EVERY_S",
    "FollowReport",
    "Follower",
    "MakeWriter",
    "OnFailure",
    "Receipt",
    "ReceiptFile",
    "ReceiptKeys",
    "ReceiptKind",
    "ReceiptSigner",
    "ReceiptSink",
    "ReceiptStream",
    "ReceiptWriter",
    "Row",
    "Tally",
    "Verdict",
    "Verified",
    "read_row",
    "receipts_at",
    "receipts_of",
    "receipts_to",
    "run_once",
    "sink_of",
    "verify",
    "verify_line",
]
