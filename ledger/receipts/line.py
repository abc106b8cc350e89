"""One receipt as a sink gives it back, unread."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Line:
    """What may be a receipt.

    Attributes:
        where: its place in the sink, for people.
        body: its bytes, without a line's end.
        stored_as: the id that the sink keeps it under; empty where it keeps none.
        torn: it is the half of a line that a killed writer left.
        ends_at: bytes up to its end; 0 where the sink has no bytes.
    """

    where: str
    body: bytes
    stored_as: str = ""
    torn: bool = False
    ends_at: int = 0
