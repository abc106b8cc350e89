"""Statements of the first seed that stand in its sentences and short tables, and in no fact."""

from __future__ import annotations

from typing import Any

import pytest
from seed.stage import HASTY, Body, BrokenError, Stage, bound, charge

from kit.fixtures import StartServer
from mycelium import (
    Binding,
    Capability,
    EffectClass,
    EffectState,
    Gate,
    LedgerHardBlockError,
    PredicateVerdict,
    RetryPermission,
    Scope,
    ServerError,
    Spendability,
    ToolDeclarationError,
    effect_state,
    execution_scope,
    register_decision_predicate,
)
from mycelium.ledger.states import CLASS_ALIASES

PAYMENT = bound("payment")


def test_effect_states_table_intended_attempting_and_the_three_ends(stage: Stage) -> None:
    kept = stage.noon
    seen = {}
    entry = stage.claimed(kept, "r1", PAYMENT)
    seen["claimed"] = stage.row("r1").state
    kept.record_decision(entry, {"allowed": True, "verdicts": [], "denied_reasons": []})
    seen["decided"] = stage.row("r1").state
    kept.complete(entry, 1)
    seen["completed"] = stage.row("r1").state
    for request_id, after_effect in (("r2", False), ("r3", True)):
        kept.fail(stage.attempting(kept, request_id, PAYMENT), BrokenError(), failed_after_effect=after_effect)
        seen[request_id] = stage.row(request_id).state
    assert [effect_state(state) for state in seen.values()] == [
        EffectState.INTENDED,
        EffectState.ATTEMPTING,
        EffectState.COMMITTED,
        EffectState.ABORTED,
        EffectState.UNKNOWN,
    ]


def test_public_words_table_every_gate_has_its_public_word() -> None:
    assert set(Gate) == {"ALLOW", "RETURN", "POLL", "RECLAIM", "REPAIR", "SOFT_BLOCK", "HARD_BLOCK"}


def test_classes_table_other_names_are_read_as_their_class() -> None:
    names = {name: EffectClass(name) for name in CLASS_ALIASES}
    assert names == {
        "read_only": "read",
        "idempotent_write": "idempotent_mutate",
        "external_api_mutation": "keyed_mutate",
        "non_idempotent_write": "non_idempotent_mutate",
        "payment": "non_idempotent_mutate",
        "email": "non_idempotent_mutate",
        "subagent": "non_idempotent_mutate",
        "onchain_action": "irreversible",
    }


@pytest.mark.parametrize(
    "effect_class, derived",
    [
        ("read", RetryPermission.SAFE_RETRY),
        ("idempotent_mutate", RetryPermission.SAFE_RETRY),
        ("keyed_mutate", RetryPermission.SAME_KEY),
        ("non_idempotent_mutate", RetryPermission.MANUAL),
        ("irreversible", RetryPermission.NEVER),
    ],
)
def test_retry_permission_follows_from_the_class(effect_class: str, derived: RetryPermission) -> None:
    assert Binding(effect_class=EffectClass(effect_class)).retry_permission is derived


@pytest.mark.parametrize(
    "laxer",
    [
        {"effect_class": "irreversible", "retry_permission": "safe_retry"},
        {"effect_class": "keyed_mutate", "spendability": "multi_use"},
        {"effect_class": "read", "spendability": "single_use"},
    ],
)
def test_what_a_class_promises_is_only_tightened(laxer: dict[str, Any]) -> None:
    """Differs: theirs takes any combination, and an irreversible `safe_retry` runs twice."""
    with pytest.raises(ToolDeclarationError):
        Binding(**laxer)


def test_envelope_table_a_row_has_all_that_recovery_needs(stage: Stage) -> None:
    with execution_scope(Scope(thread_id="t1", run_id="r1", node="tools")):
        charge(stage.noon, Body(), effect_class="payment", agent_id="a", policy_version="1")(1, tool_call_id="c1")
        request_id = stage.noon.derive_request_id("charge", (), {"amount": 1}, PAYMENT, tool_call_id="c1")
    assert len(request_id) == 64
    charge(stage.noon, Body(), effect_class="payment")(1, request_id="mine")
    row = stage.row("mine")
    assert (row.effect_class, row.state, row.boundary, row.ref, row.attempts) == (
        EffectClass.NON_IDEMPOTENT_MUTATE,
        "completed",
        "crossed",
        "",
        1,
    )
    # What the row need not have is the declaration's: the stricter of the two holds (docs/gates.md).
    assert (PAYMENT.capability, PAYMENT.spendability) == (Capability.BLIND, Spendability.SINGLE_USE)


def test_every_claim_that_is_granted_has_a_higher_fence(stage: Stage) -> None:
    read = bound("read")
    fences: list[int] = []
    for _ in range(3):
        entry = stage.attempting(stage.noon, "r1", read)
        stage.noon.fail(entry, BrokenError(), failed_after_effect=False)
        fences.append(int(entry.fence))
    assert fences == sorted(set(fences))


def test_no_body_runs_where_its_decision_could_not_be_recorded(stage: Stage, start_server: StartServer) -> None:
    server, body = start_server(), Body()

    def ends_the_server(intent: object, snapshot: object) -> PredicateVerdict:
        server.stop()
        return PredicateVerdict(allowed=True)

    kept = stage.another(url=server.url, store=HASTY)
    take_back = register_decision_predicate("server", ends_the_server)
    try:
        with pytest.raises(ServerError):
            charge(kept, body, effect_class="payment")(1, request_id="r1")
    finally:
        take_back()
    assert body.runs == 0


def test_a_failure_by_hand_is_before_the_effect_only_where_that_is_said(stage: Stage) -> None:
    keyed = bound("keyed_mutate")
    for request_id, after_effect in (("r1", False), ("r2", True)):
        entry = stage.attempting(stage.noon, request_id, keyed)
        stage.noon.fail(entry, BrokenError(), failed_after_effect=after_effect)
    assert not stage.claimed(stage.noon, "r1", keyed).completed
    with pytest.raises(LedgerHardBlockError):
        stage.claimed(stage.noon, "r2", keyed)


def test_what_is_declared_of_the_runtime_is_not_part_of_what_a_call_is(stage: Stage) -> None:
    """As the section on leases says: a lease, a time-out, or how often a tool may fail forks no identity."""
    body = Body()
    charge(stage.noon, body, effect_class="payment", timeout_s=1.0)(1, request_id="r1")
    other = charge(stage.noon, body, effect_class="payment", timeout_s=2.0, max_deaths=9, capability="queryable")
    assert other(1, request_id="r1") == "done"
    assert body.runs == 1
