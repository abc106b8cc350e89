"""No repr shows what the caller's secrets may be in: arguments, results, evidence, what errors say, or keys."""

from __future__ import annotations

import pytest

from mycelium.actors.inprocess.prepared import Returned
from mycelium.actors.outcome import Outcome
from mycelium.ledger.about import About
from mycelium.ledger.binding import Binding
from mycelium.ledger.decision import DecisionIntent
from mycelium.ledger.identity import identify
from mycelium.ledger.record import Failure
from mycelium.ledger.states import BoundaryMode, EffectClass, Settle, State
from mycelium.ledger.submit import Intent
from mycelium.ledger.turn import Grant, Settlement
from mycelium.ledger.verdict import Doubt, Said
from mycelium.reconcilers.protocol import Lookup
from mycelium.reconcilers.resolve import Conclusion
from mycelium.reconcilers.verdict import Verdict

SECRET = "sk_live_4242"
BODY = f'{{"card":"{SECRET}"}}'.encode()
ONCE = EffectClass.NON_IDEMPOTENT_MUTATE
IDENTITY = identify("pay", ONCE, BODY, namespace="n", request_id="r")
INTENT = Intent(identity=IDENTITY, tool="pay", binding=Binding(effect_class=ONCE), key=SECRET)
SETTLEMENT = Settlement(request_id="r", fence="1", verb=Settle.COMPLETED, body=BODY)
OUTCOME = Outcome("r", State.COMPLETED, "", asked=False, body=BODY)
DOUBT = Doubt(
    request_id="r",
    fence="1",
    tool="pay",
    effect_class=ONCE,
    effect_id="e",
    attempt=1,
    ref="",
    unknown_for_ms=1,
    ended=True,
    asks=0,
    age_ms=1,
    key=SECRET,
    args=BODY,
)
HOLDERS: list[object] = [
    IDENTITY,
    INTENT,
    INTENT.item(),
    SETTLEMENT,
    SETTLEMENT.item(),
    Grant("r", "1", 1, "pay", "default", ONCE, BoundaryMode.AUTOMATIC, "e", 0, None, "", SECRET, BODY),
    OUTCOME,
    Returned(OUTCOME),
    Failure("builtins.ValueError", SECRET),
    DOUBT,
    Lookup("r", "e", "pay", SECRET, None, {"card": SECRET}, 0.0, 1),
    Verdict.completed({"card": SECRET}, {"id": SECRET}),
    Verdict.unknown(SECRET),
    Conclusion(Said.COMPLETED, evidence=SECRET, body=BODY),
    DecisionIntent("pay", ONCE, "r", "e", {"card": SECRET}, About()),
]


@pytest.mark.parametrize("holder", HOLDERS, ids=lambda holder: type(holder).__name__)
def test_a_repr_shows_no_secret_of_the_callers(holder: object) -> None:
    assert SECRET not in repr(holder)
    assert SECRET not in f"{[holder]}"
