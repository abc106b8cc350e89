"""Facts 33–44 of the study of the first seed: the provider's own key, and what a tool may declare of its recovery."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from seed.stage import ABSENT, HAPPENED, NEXT_DAY_S, Body, BrokenError, Provider, Stage, bound, keyed

from kit.ledger import Passed
from mycelium import (
    Binding,
    Boundary,
    BoundaryMode,
    Capability,
    EffectClass,
    Gate,
    LedgerHardBlockError,
    Liveness,
    NotExecuted,
    State,
    ToolCapabilityDeclarationError,
    ToolDeclarationError,
    ledger_sync,
    side_effect,
)
from mycelium.ledger.gates import RowView, resolve
from mycelium.ledger.states import KeyAge, KeyMatch

DAY_S = 86_400.0


def _refused(stage: Stage, later_s: float = 0.0, **declared: Passed) -> tuple[Body, Callable[..., Any]]:
    """A tool whose provider refuses its first call provably: nothing happened."""
    body = Body(breaks=[NotExecuted("declined")])
    return body, keyed(stage.at(later_s), body, **declared)


def _unknown(stage: Stage, **declared: Passed) -> tuple[Body, Callable[..., Any]]:
    """A tool whose first call, with key k1, may have happened."""
    body = Body(breaks=[BrokenError()])
    tool = keyed(stage.noon, body, **declared)
    with pytest.raises(BrokenError):
        tool(1, key="k1", request_id="r1")
    return body, tool


def test_fact_33_the_same_key_runs_again_after_a_failure_before_the_effect(stage: Stage) -> None:
    body, tool = _refused(stage)
    with pytest.raises(NotExecuted):
        tool(1, key="k1", request_id="r1")
    assert tool(1, key="k1", request_id="r1") == "done"
    assert [seen["key"] for seen in body.seen] == ["k1", "k1"]


def test_fact_34_another_key_is_blocked(stage: Stage) -> None:
    body, tool = _refused(stage)
    with pytest.raises(NotExecuted):
        tool(1, key="k1", request_id="r1")
    with pytest.raises(LedgerHardBlockError) as blocked:
        tool(1, key="k2", request_id="r1")
    assert (blocked.value.why, body.runs) == ("key_different", 1)


@pytest.mark.parametrize("second", ["k1", None])
def test_fact_34_a_retry_of_a_call_that_was_sent_without_a_key_is_blocked(stage: Stage, second: str | None) -> None:
    body, tool = _refused(stage, propagate_effect_id_as_provider_key=False)
    with pytest.raises(NotExecuted):
        tool(1, request_id="r1")
    with pytest.raises(LedgerHardBlockError) as blocked:
        tool(1, key=second, request_id="r1")
    assert (blocked.value.why, body.runs) == ("key_missing", 1)


def test_fact_35_a_key_that_is_left_out_is_the_effect_id_and_a_retry_sends_it_again(stage: Stage) -> None:
    body, tool = _refused(stage)
    with pytest.raises(NotExecuted):
        tool(1, request_id="r1")
    assert tool(1, request_id="r1") == "done"
    effect_id = stage.row("r1").effect_id
    assert [seen["key"] for seen in body.seen] == [effect_id, effect_id]


@pytest.mark.parametrize("propagate", [True, False])
def test_fact_35_a_retry_that_leaves_the_key_out_sends_the_first_one(stage: Stage, *, propagate: bool) -> None:
    """Differs from their table, where a key that a retry leaves out is blocked; theirs adopts it as well."""
    body, tool = _refused(stage, propagate_effect_id_as_provider_key=propagate)
    with pytest.raises(NotExecuted):
        tool(1, key="k1", request_id="r1")
    assert tool(1, request_id="r1") == "done"
    assert [seen["key"] for seen in body.seen] == ["k1", "k1"]


def test_fact_36_a_key_that_is_given_wins_and_is_kept(stage: Stage) -> None:
    body = Body()
    keyed(stage.noon, body)(1, key="mine", request_id="r1")
    assert (body.seen, stage.row("r1").key) == ([{"amount": 1, "key": "mine"}], "mine")


def test_the_key_takes_no_part_in_what_a_call_is(stage: Stage) -> None:
    body = Body()
    tool = keyed(stage.noon, body)
    assert tool(1, key="k1", request_id="r1") == tool(1, key="k2", request_id="r1") == "done"
    assert body.runs == 1


def test_fact_37_the_same_key_is_blocked_when_its_window_is_over(stage: Stage) -> None:
    _, tool = _refused(stage, key_window_s=DAY_S)
    with pytest.raises(NotExecuted):
        tool(1, key="k1", request_id="r1")
    body = Body()
    with pytest.raises(LedgerHardBlockError) as blocked:
        keyed(stage.at(NEXT_DAY_S), body, key_window_s=DAY_S)(1, key="k1", request_id="r1")
    assert (blocked.value.why, body.runs) == ("key_over", 0)


def test_fact_37_a_window_begins_with_the_first_dispatch_so_what_was_never_sent_has_none(stage: Stage) -> None:
    """Differs: theirs counts from the first claim."""
    body = Body()

    def make(later_s: float, breaks: list[str]) -> Callable[..., Any]:
        @ledger_sync(
            ledger=stage.at(later_s),
            effect_class="keyed_mutate",
            key_param="key",
            key_window_s=DAY_S,
            boundary="explicit",
        )
        def charge(amount: int, key: str | None = None) -> object:
            if breaks:
                raise BrokenError(breaks.pop())
            with side_effect():
                return body(amount=amount, key=key)

        return charge

    with pytest.raises(BrokenError):
        make(0.0, ["before"])(1, key="k1", request_id="r1")
    assert make(NEXT_DAY_S, [])(1, key="k1", request_id="r1") == "done"


def test_fact_38_an_unknown_call_is_sent_again_with_the_same_key_inside_its_window(stage: Stage) -> None:
    body, tool = _unknown(stage, key_window_s=DAY_S)
    assert tool(1, key="k1", request_id="r1") == "done"
    assert [seen["key"] for seen in body.seen] == ["k1", "k1"]


def test_fact_38_a_provider_is_asked_before_its_key_is_used(stage: Stage) -> None:
    provider = Provider(HAPPENED)
    body, tool = _unknown(stage, key_window_s=DAY_S, reconciler=provider)
    assert tool(1, key="k1", request_id="r1") == {"id": "pi_1"}
    assert (body.runs, len(provider.asked), provider.asked[0].idempotency_key) == (1, 1, "k1")


def test_fact_38_another_key_is_not_sent_for_an_unknown_call(stage: Stage) -> None:
    body, tool = _unknown(stage, key_window_s=DAY_S)
    with pytest.raises(LedgerHardBlockError):
        tool(1, key="k2", request_id="r1")
    assert body.runs == 1


def test_fact_38_an_unknown_call_is_blocked_when_the_window_is_over(stage: Stage) -> None:
    _unknown(stage, key_window_s=DAY_S)
    body = Body()
    with pytest.raises(LedgerHardBlockError) as blocked:
        keyed(stage.at(NEXT_DAY_S), body, key_window_s=DAY_S)(1, key="k1", request_id="r1")
    assert (blocked.value.why, body.runs) == ("key_over", 0)


def test_fact_39_an_unknown_call_without_a_window_is_blocked(stage: Stage) -> None:
    body, tool = _unknown(stage)
    with pytest.raises(LedgerHardBlockError):
        tool(1, key="k1", request_id="r1")
    assert body.runs == 1


@pytest.mark.parametrize("state", [State.DEAD, State.CANCELLED])
def test_fact_40_what_is_never_to_run_is_blocked_with_the_same_key_too(state: State) -> None:
    """Differs: no row is stored as blocked; these two states come nearest to it."""
    view = RowView(
        state=state,
        boundary=Boundary.NOT_CROSSED,
        effect_class=EffectClass.KEYED_MUTATE,
        boundary_mode=BoundaryMode.AUTOMATIC,
        again=True,
        doubt=False,
        worn_out=False,
        intact=True,
    )
    binding = bound("keyed_mutate", key_param="key", key_window_s=DAY_S)
    assert resolve(view, binding, Liveness.NOBODY, KeyMatch.SAME, KeyAge.VALID).gate is Gate.HARD_BLOCK


def test_fact_41_a_blind_tool_is_blocked_inside_its_window_too(stage: Stage) -> None:
    body, tool = _unknown(stage, key_window_s=DAY_S, capability="blind")
    with pytest.raises(LedgerHardBlockError):
        tool(1, key="k1", request_id="r1")
    assert body.runs == 1


@pytest.mark.parametrize(
    "declared",
    [
        {"effect_class": "irreversible", "capability": "queryable"},
        {"effect_class": "irreversible", "capability": "queryable", "reconcilable": True},
        {"effect_class": "keyed_mutate", "capability": "idempotent"},
        {"effect_class": "payment", "capability": "idempotent"},
    ],
)
def test_fact_42_a_capability_is_never_declared_laxer_than_its_class_supports(declared: dict[str, Any]) -> None:
    with pytest.raises(ToolCapabilityDeclarationError):
        Binding(**declared)


def test_fact_43_queryable_with_nothing_to_ask_is_blind_until_there_is_something() -> None:
    wish = bound("payment", capability="queryable")
    assert (wish.capability, wish.effective_capability) == (Capability.QUERYABLE, Capability.BLIND)
    met = bound("payment", capability="queryable", reconcilable=True)
    assert met.effective_capability is Capability.QUERYABLE


def test_fact_44_injection_without_a_parameter_for_the_key_is_refused_at_declaration() -> None:
    with pytest.raises(ToolDeclarationError, match="key_param"):
        bound("keyed_mutate", propagate_effect_id_as_provider_key=True)


# ── tables of capabilities and spendability ──────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "declared, derived",
    [
        ({"effect_class": "read"}, "idempotent"),
        ({"effect_class": "idempotent_mutate"}, "idempotent"),
        ({"effect_class": "keyed_mutate", "key_param": "key"}, "queryable"),
        ({"effect_class": "keyed_mutate", "reconcilable": True}, "queryable"),
        ({"effect_class": "keyed_mutate"}, "blind"),
        ({"effect_class": "non_idempotent_mutate", "reconcilable": True}, "queryable"),
        ({"effect_class": "non_idempotent_mutate"}, "blind"),
        ({"effect_class": "irreversible", "reconcilable": True}, "blind"),
    ],
)
def test_capabilities_table_what_is_left_out_follows_from_class_key_and_reconciler(
    declared: dict[str, Any], derived: str
) -> None:
    assert Binding(**declared).effective_capability == derived


@pytest.mark.parametrize("effect_class", ["idempotent_mutate", "keyed_mutate", "non_idempotent_mutate", "irreversible"])
def test_capabilities_table_blind_may_always_be_declared(effect_class: str) -> None:
    binding = Binding(effect_class=EffectClass(effect_class), capability=Capability.BLIND, reconcilable=True)
    assert binding.effective_capability is Capability.BLIND


@pytest.mark.parametrize(
    "effect_class, derived",
    [
        ("read", "multi_use"),
        ("idempotent_mutate", "multi_use"),
        ("keyed_mutate", "single_use"),
        ("non_idempotent_mutate", "single_use"),
        ("irreversible", "non_replayable"),
    ],
)
def test_spendability_table_defaults_follow_from_the_class(effect_class: str, derived: str) -> None:
    assert Binding(effect_class=EffectClass(effect_class)).spendability == derived


def test_spendability_table_a_non_replayable_call_is_not_sent_again_with_its_key(stage: Stage) -> None:
    body, tool = _unknown(stage, key_window_s=DAY_S, spendability="non_replayable", reconciler=Provider(ABSENT))
    with pytest.raises(LedgerHardBlockError):
        keyed(stage.noon, body, key_window_s=DAY_S, spendability="non_replayable")(1, key="k1", request_id="r1")
    assert body.runs == 1
    # Its provider's word is another matter: nothing was sent.
    assert tool(1, key="k1", request_id="r1") == "done"


def test_spendability_table_completed_is_returned_for_every_class_and_a_new_id_spends_again(stage: Stage) -> None:
    for effect_class in EffectClass:
        body = Body()
        tool = _spend(stage, effect_class, body)
        assert tool(1, request_id=f"{effect_class}-1") == tool(1, request_id=f"{effect_class}-1") == "done"
        tool(1, request_id=f"{effect_class}-2")
        assert body.runs == 2


def _spend(stage: Stage, effect_class: EffectClass, body: Body) -> Callable[..., Any]:
    def spend(amount: int) -> object:
        return body(amount=amount)

    return ledger_sync(ledger=stage.noon, effect_class=effect_class)(spend)
