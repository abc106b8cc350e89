"""What people recorded of earlier attempts of a transition: kept when a later attempt is ruled on in its turn."""

from __future__ import annotations

import json
from dataclasses import dataclass

from ..leases.store import Store
from .replies import text


@dataclass(frozen=True, slots=True)
class PastWord:
    """What somebody recorded of an earlier attempt.

    Attributes:
        what: `completed`, `not_executed` or `dead`.
        by: who.
        reason: why.
        at_ms: when; server milliseconds.
    """

    what: str
    by: str
    reason: str
    at_ms: int


async def read_past(store: Store, request_id: str) -> list[PastWord]:
    """Read what people recorded of earlier attempts, oldest first; what they said last is in the record itself.

    Args:
        store: the server.
        request_id: the transition's own id, as its record has it.

    Raises:
        ServerError: the server could not be asked.
    """
    value = await store.calls.read("HGET", store.keys.row(request_id), "past")
    lines = text(value).split("\n") if value is not None else []
    return [_word(json.loads(line)) for line in lines]


def _word(fields: list[str]) -> PastWord:
    kind, *rest = fields
    what = kind if kind == "dead" else rest.pop(0)
    by, reason, at_ms, *_ = rest
    return PastWord(what, by, reason, int(at_ms or "0"))
