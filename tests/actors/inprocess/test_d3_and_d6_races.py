"""D3: writes that race lose nothing. D6: many redispatches of one lost row get one answer, and leave nothing behind."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from typing import Any

import pytest

from kit.inprocess import GRACE, Boom, Runs, World, lost, together, tool
from mycelium import Binding, EffectClass, LedgerHardBlockError, OutcomeError, release
from mycelium.actors.effect import record_external_operation, side_effect
from mycelium.leases.session import SessionSettings

BY: Any = {"by": "ops@example.com", "reason": "looked at the dashboard"}
BUSY = SessionSettings(ttl_s=5.0, renew_every_s=0.002, call_timeout_s=1.0, margin_s=0.5)
"""It renews all the time."""
ROUNDS = 25


@pytest.mark.parametrize("fails", [False, True])
def test_d3_renewal_mark_reference_alias_and_waiters_lose_nothing_of_each_other(here: World, *, fails: bool) -> None:
    runs = Runs()
    came = threading.Event()

    def body(order: str) -> str:
        runs.note(order)
        came.set()
        record_external_operation(f"early-{order}")
        with side_effect():
            record_external_operation(f"ref-{order}")
            # It is on record at once, not only when the call ends.
            assert here.row(f"r{order[1:]}")["ref"] == f"ref-{order}"
            if fails:
                raise Boom(order)
        return order

    owner, peer = here.ledger(session=BUSY), here.ledger(session=BUSY)
    acts = [tool(kept, body, explicit=True) for kept in (owner, peer)]
    for at in range(ROUNDS):
        came.clear()

        def call(which: int, request_id: str, order: str = f"o{at}", *, first: bool = False) -> Callable[[], Any]:
            def act() -> Any:  # noqa: ANN401 - what the tool returned
                if not first:
                    came.wait(20)
                return acts[which](order, request_id=request_id, dispatch_id=order)

            return act

        answers = together(
            [
                call(0, f"r{at}", first=True),
                call(1, f"r{at}"),
                call(0, f"a{at}"),
                call(1, f"b{at}"),
                call(1, f"b{at}"),
            ]
        )
        row = here.row(f"r{at}")
        assert (row["ref"], row["state"]) == (f"ref-o{at}", "unknown" if fails else "completed")
        assert row["boundary"] == ("maybe_crossed" if fails else "crossed")
        assert row["first"]
        assert set(here.record(f"r{at}").aliases) == {f"a{at}", f"b{at}"}
        expected = LedgerHardBlockError if fails else str
        assert isinstance(answers[0], Boom if fails else str)
        assert all(isinstance(answer, expected) for answer in answers[1:]), answers
        numbers = [int(name[1:]) for name in row if name[0] == "h" and name[1:].isdigit()]
        assert sorted(numbers) == list(range(1, int(row["n"]) + 1))
    assert runs.count == ROUNDS
    here.idle()


def redispatch(world: World, runs: Runs, effect_class: str) -> list[Any]:
    """Thirty-two calls from two processes at once."""
    binding = Binding(effect_class=EffectClass(effect_class))
    ledgers = [world.ledger(session=GRACE), world.ledger(session=GRACE)]

    def call(at: int) -> Any:  # noqa: ANN401 - what was returned
        kept = ledgers[at % 2]
        entry = kept.claim("act", (), {"order": "A"}, binding, request_id="r1")
        if not entry.completed:
            kept.record_decision(entry, {"allowed": True, "verdicts": [], "denied_reasons": []})
            runs.note()
            kept.complete(entry, "done")
            return "done"
        return entry.result

    return together([functools.partial(call, at) for at in range(32)])


@pytest.mark.parametrize("effect_class", ["keyed_mutate", "non_idempotent_mutate", "irreversible"])
def test_d6_all_redispatches_of_a_lost_write_are_blocked_and_a_release_then_works(
    here: World, effect_class: str
) -> None:
    runs = Runs()
    lost(here, effect_class, explicit=False, ago_s=61)
    answers = redispatch(here, runs, effect_class)
    assert {type(answer) for answer in answers} == {LedgerHardBlockError}
    assert {answer.why for answer in answers} == {answers[0].why}
    here.on_store(lambda store: release(store, "r1", verified="not_executed", override=True, **BY))
    # The release is used by exactly one of as many, and no thread remembers that it was refused before.
    assert redispatch(here, runs, effect_class) == ["done"] * 32
    assert runs.count == 1
    here.idle()


@pytest.mark.parametrize("effect_class", ["read", "idempotent_mutate"])
def test_d6_one_redispatch_of_what_may_repeat_runs_and_the_others_get_its_result(
    here: World, effect_class: str
) -> None:
    runs = Runs()
    lost(here, effect_class, explicit=False, ago_s=61)
    assert redispatch(here, runs, effect_class) == ["done"] * 32
    assert runs.count == 1
    here.idle()


def test_a_completed_row_whose_result_was_not_kept_says_so_to_everybody(here: World) -> None:
    kept = here.ledger(max_result_bytes=10)

    def body(order: str) -> str:
        return order * 100

    act = tool(kept, body)
    assert len(act("A", request_id="r1")) == 100
    answers = together([lambda: act("A", request_id="r1")] * 8)
    assert {isinstance(answer, OutcomeError) for answer in answers} == {True}
