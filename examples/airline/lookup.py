"""Asks the airline what became of a write whose answer never came."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import cast

from ...reconcilers.protocol import Lookup
from ...reconcilers.verdict import Verdict
from .http_client import OK, Answer, airline

STATED_LAG_S = 0.5
"""The airline's own word: what it did is visible in a look-up after so many seconds."""

MARGIN_S = 0.75
"""For a request that has left and is not there yet."""


async def _ask(key: str) -> Answer:
    return await airline().look_up(key)


class AirlineLookup:
    """The adapter of the airline's writes: finds effects by the key that the tools send, which is the effect id.

    Args:
        ask: how a key is looked up.

    Attributes:
        lag_s: seconds after which an effect that exists is certain to be visible.
    """

    def __init__(self, ask: Callable[[str], Awaitable[Answer]] = _ask) -> None:
        self.lag_s: float = STATED_LAG_S + MARGIN_S
        self._ask = ask

    async def reconcile_async(self, lookup: Lookup, /) -> Verdict:
        """One match is proof, none after the lag is proof, and anything else is doubt."""
        answer = await self._ask(lookup.idempotency_key or lookup.effect_id)
        found = answer.body.get("matches")
        if answer.status != OK or not isinstance(found, list):
            return Verdict.unknown(f"the airline answered {answer.status}")
        matches = cast("list[object]", found)
        if len(matches) > 1:
            return Verdict.unknown(f"{len(matches)} matches: a person has to look")
        if matches:
            return Verdict.completed(answer.text, evidence=matches[0])
        if answer.body.get("in_progress"):
            return Verdict.unknown("the airline is still working on it")
        if lookup.unknown_since_s < self.lag_s:
            return Verdict.unknown("too early: what was done may not be visible yet")
        return Verdict.not_executed({"matches": 0, "asked_after_s": round(lookup.unknown_since_s, 3)})
