"""What a receipt says, its id, and its one form in bytes."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, fields
from enum import StrEnum

import msgspec

from ..canon import canonical
from ..states import Boundary, State

VERSION = 1
MAX_BYTES = 64 << 10
"""The longest receipt. A person's reason is the only long thing in it."""


class ReceiptKind(StrEnum):
    """What a receipt is for."""

    SETTLED = "settled"
    """A call came to an outcome, which may be that its outcome is unknown."""
    RELEASED = "released"
    """A person verified what became of a call."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Receipt:
    """One receipt. Its bytes are the canonical JSON of its fields; the signature is over those of all other fields.

    Attributes:
        receipt_id: 64 hex digits, the same whenever and wherever the same fact is told; sinks keep one of each.
        kind: what it is for.
        request_id: the transition.
        effect_id: its dedupe identity: a SHA-256 that the canonical arguments are a part of.
        tool: the tool's name.
        agent_id: the agent that the tool is declared for.
        policy_version: the policy under which it is declared.
        state: what the transition came to.
        boundary: how far the attempt may have come; in a release, what was verified.
        fence: digits: the attempt.
        attempt: which attempt it was, from 1; 0 in a release, and where the row had moved on.
        result_sha256: of the stored result, or of the stored error; empty: there is none, or it was not kept any more.
        error: class name of the error, or a reason word; never its message; empty also where the row had moved on.
        why: what moved the transition: a word of its history.
        by: who released it.
        reason: why, in that person's words.
        at_ms: when; server milliseconds.
        key_id: which key signed it; empty until then.
        version: of this form.
        signature: 64 hex digits: HMAC-SHA256; empty until it is signed.
    """

    receipt_id: str
    kind: ReceiptKind
    request_id: str
    effect_id: str
    tool: str
    agent_id: str
    policy_version: str
    state: State
    boundary: Boundary
    fence: str
    attempt: int
    result_sha256: str
    error: str
    why: str
    at_ms: int
    by: str = ""
    reason: str = ""
    key_id: str = ""
    version: int = VERSION
    signature: str = ""

    def body(self) -> bytes:
        """Give the receipt as it is stored: one line, without its end.

        Raises:
            BadCallError: a field is not text that has a canonical form, or the receipt is too long.
        """
        return canonical({field.name: getattr(self, field.name) for field in fields(self)}, max_bytes=MAX_BYTES)

    def signed_part(self) -> bytes:
        """Give what the signature is over; errors are those of `body`."""
        told = {field.name: getattr(self, field.name) for field in fields(self) if field.name != "signature"}
        return canonical(told, max_bytes=MAX_BYTES)

    @classmethod
    def read(cls, body: bytes) -> Receipt:
        """Read what `body` gave.

        Raises:
            ValueError: it is not exactly that: a field is missing, strange or twice, or it is written otherwise.
        """
        try:
            receipt = msgspec.json.decode(body, type=cls)
        except RecursionError:
            what = "nested too deep"
            raise ValueError(what) from None
        # Another spelling of the same fields could be read as something else by another reader.
        if receipt.body() != body:
            what = "not in canonical form"
            raise ValueError(what)
        return receipt


def receipt_id_of(kind: ReceiptKind, *, request_id: str, effect_id: str, fence: str, state: State) -> str:
    """Name a fact. The effect id keeps two namespaces apart that share a sink."""
    return hashlib.sha256(canonical(["mycelium.receipt/v1", kind, request_id, effect_id, fence, state])).hexdigest()
