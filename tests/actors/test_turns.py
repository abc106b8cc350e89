"""When a worker may still send by key: the age that the server tells has to be one."""

from __future__ import annotations

import pytest

from mycelium.actors.worker.attempt import Attempt
from mycelium.actors.worker.holding import window_over
from mycelium.leases.session import Session
from mycelium.ledger.binding import Binding
from mycelium.ledger.states import BoundaryMode, EffectClass
from mycelium.ledger.turn import Grant

KEYED, ONCE = EffectClass.KEYED_MUTATE, EffectClass.NON_IDEMPOTENT_MUTATE


class Trusted(Session):
    """A session that is trusted for five more seconds."""

    def __init__(self) -> None:
        """Without a store."""

    def remaining_trust_s(self) -> float:
        return 5.0


@pytest.mark.parametrize(
    "effect_class, age_ms, over",
    [
        (KEYED, 0, False),  # never sent
        (KEYED, 44_999, False),
        (KEYED, 45_000, True),  # its trust and its timeout may carry it past the window
        (KEYED, -1, True),  # the server's clock was set back: nobody can say how old the key is
        (KEYED, -7_200_000, True),
        (ONCE, -1, False),
        (ONCE, 99_000, False),
    ],
)
def test_only_a_key_of_known_age_inside_its_window_is_sent_again(
    effect_class: EffectClass, age_ms: int, *, over: bool
) -> None:
    grant = Grant("r", "7", 2, "t", "default", effect_class, BoundaryMode.AUTOMATIC, "e", age_ms, None, "", "", b"{}")
    keyed = {"key_param": "key", "key_window_s": 60.0} if effect_class is KEYED else {}
    binding = Binding(effect_class=effect_class, timeout_s=10.0, **keyed)  # type: ignore[arg-type]
    assert window_over(Attempt(grant, binding, Trusted())) is over
