"""Asks the airline what became of a write whose answer never came."""

from __future__ import annotations

from ...reconcilers.protocol import Lookup
from ...reconcilers.verdict import Verdict
from .http_client import OK, airline

STATED_LAG_S = 0.5
"""The airline's own word: what it did is visible in a look-up after so many seconds."""

MARGIN_S = 0.75
"""For a request that has left and is not there yet."""


class AirlineLookup:
    """The adapter of the airline's writes: finds effects by the key that the tools send, which is the effect id.

    Attributes:
        lag_s: seconds after which an effect that exists is certain to be visible.
    """

    lag_s: float = STATED_LAG_S + MARGIN_S

    async def reconcile_async(self, lookup: Lookup, /) -> Verdict:
        """One match is proof, none after the lag is proof, and anything else is doubt."""
        answer = await airline().look_up(lookup.idempotency_key or lookup.effect_id)
        matches = answer.body.get("matches")
        if answer.status != OK or not isinstance(matches, list):
            return Verdict.unknown(f"the airline answered {answer.status}")
        if len(matches) > 1:
            return Verdict.unknown(f"{len(matches)} matches: a person has to look")
        if matches:
            return Verdict.completed(answer.text, evidence=matches[0])
        if answer.body.get("in_progress"):
            return Verdict.unknown("the airline is still working on it")
        if lookup.unknown_since_s < self.lag_s:
            return Verdict.unknown("too early: what was done may not be visible yet")
        return Verdict.not_executed({"matches": 0, "asked_after_s": round(lookup.unknown_since_s, 3)})
