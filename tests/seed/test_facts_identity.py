"""Facts 1–14 and 76 of the study of the first seed: what makes two calls the same.

docs/seed.md lists the differences.
"""

from __future__ import annotations

import pytest
from seed.stage import Body, Stage, bound, charge, keyed

from mycelium import (
    ArgsDriftError,
    BadCallError,
    EffectClass,
    IdentityConflictError,
    JobNotFoundError,
    LedgerHardBlockError,
    MissingRequestIdentityError,
    Scope,
    execution_scope,
    ledger_sync,
)

ONE_RUN = Scope(thread_id="t1", run_id="r1", node="tools")


def test_fact_01_the_same_id_and_call_gets_the_stored_result_and_its_body_ran_once(stage: Stage) -> None:
    body = Body({"id": "ch_1"})
    tool = charge(stage.noon, body, effect_class="payment")
    assert tool(1, request_id="r1") == tool(1, request_id="r1") == {"id": "ch_1"}
    assert body.runs == 1


@pytest.mark.parametrize("drift", ["soft", "hard", "off"])
def test_fact_02_the_same_id_with_other_arguments_is_refused_whatever_drift_is_set_to(stage: Stage, drift: str) -> None:
    body = Body()
    tool = charge(stage.noon, body, effect_class="payment", on_args_drift=drift)
    tool(1, request_id="r1")
    with pytest.raises(IdentityConflictError):
        tool(2, request_id="r1")
    assert body.runs == 1


def test_fact_03_the_same_id_for_another_tool_is_refused(stage: Stage) -> None:
    body = Body()
    charge(stage.noon, body, effect_class="payment")(1, request_id="r1")
    with pytest.raises(IdentityConflictError):
        charge(stage.noon, body, effect_class="payment", name="refund")(1, request_id="r1")
    assert body.runs == 1


def test_fact_04_the_same_id_in_another_place_is_the_same_effect(stage: Stage) -> None:
    """Differs: the host owns the id, so a restarted run meets the same row; theirs is a conflict."""
    body = Body()
    tool = charge(stage.noon, body, effect_class="payment")
    with execution_scope(ONE_RUN):
        tool(1, request_id="r1")
    for place in (Scope(thread_id="t2"), Scope(thread_id="t1", run_id="r2"), Scope(run_id="r1", node="other")):
        with execution_scope(place):
            assert tool(1, request_id="r1") == "done"
    assert body.runs == 1


def test_fact_05_the_same_call_id_of_a_run_with_other_arguments_is_refused_softly(stage: Stage) -> None:
    body = Body()
    tool = charge(stage.noon, body, effect_class="payment")
    with execution_scope(ONE_RUN):
        tool(1, tool_call_id="c1")
        with pytest.raises(ArgsDriftError):
            tool(2, tool_call_id="c1")
        assert tool(1, tool_call_id="c1") == "done"
    assert body.runs == 1


def test_fact_06_with_drift_off_other_arguments_are_another_call(stage: Stage) -> None:
    body = Body()
    tool = charge(stage.noon, body, effect_class="payment", on_args_drift="off")
    with execution_scope(ONE_RUN):
        tool(1, tool_call_id="c1")
        tool(2, tool_call_id="c1")
    assert [seen["amount"] for seen in body.seen] == [1, 2]


def test_fact_07_the_same_call_id_in_another_run_is_another_call(stage: Stage) -> None:
    body = Body()
    tool = charge(stage.noon, body, effect_class="payment")
    for run, amount in (("r1", 1), ("r2", 2)):
        with execution_scope(Scope(run_id=run)):
            tool(amount, tool_call_id="c1")
    assert body.runs == 2


def test_fact_08_two_ids_for_equal_arguments_are_two_effects(stage: Stage) -> None:
    body = Body()
    tool = charge(stage.noon, body, effect_class="payment")
    tool(1, request_id="r1")
    tool(1, request_id="r2")
    assert body.runs == 2


def test_fact_09_two_ids_of_one_call_id_are_one_effect_and_both_are_on_record(stage: Stage) -> None:
    body = Body()
    tool = charge(stage.noon, body, effect_class="payment")
    with execution_scope(ONE_RUN):
        tool(1, request_id="r1", dispatch_id="c1")
        assert tool(1, request_id="r2", dispatch_id="c1") == "done"
    assert body.runs == 1
    assert (stage.row("r2").request_id, stage.row("r1").aliases) == ("r1", ("r2",))


def test_fact_09_differs_under_request_ids_an_id_of_the_models_is_a_hint(stage: Stage) -> None:
    """Differs: models reuse ids, and who gives two request ids means two effects; `dispatch_id=` says otherwise."""
    body = Body()
    tool = charge(stage.noon, body, effect_class="payment")
    for request_id in ("r1", "r2"):
        tool(1, request_id=request_id, tool_call_id="call_0")
    assert body.runs == 2


@pytest.mark.parametrize("request_id", ["", "  \t", 7, b"r1"])
def test_fact_10_an_id_that_is_blank_or_no_text_is_refused_before_the_claim(stage: Stage, request_id: object) -> None:
    body = Body()
    with pytest.raises(BadCallError):
        charge(stage.noon, body, effect_class="payment")(1, request_id=request_id)
    assert body.runs == 0


def test_fact_11_an_argument_that_names_the_effect_is_stripped_and_put_behind_tool_and_field(stage: Stage) -> None:
    @ledger_sync(ledger=stage.noon, effect_class="payment", request_id_from="order")
    def charge(order: str) -> str:
        return order

    assert charge(" A ") == " A "
    assert stage.row("charge:order:A").state == "completed"


@pytest.mark.parametrize("order", [7, None, "", "  "])
def test_fact_12_an_argument_that_names_the_effect_and_is_no_text_is_refused(stage: Stage, order: object) -> None:
    @ledger_sync(ledger=stage.noon, effect_class="payment", request_id_from="order")
    def charge(order: object = None) -> None:
        pytest.fail("it ran")

    with pytest.raises(MissingRequestIdentityError):
        charge(order)


def test_fact_13_a_ledger_that_asks_for_request_ids_takes_no_call_id_for_one_but_of_a_read(stage: Stage) -> None:
    body = Body()
    strict = stage.another(settings={"require_request_id": True})
    with pytest.raises(MissingRequestIdentityError):
        keyed(strict, body)(1, tool_call_id="c1")
    assert body.runs == 0
    charge(strict, body, effect_class="read")(1, tool_call_id="c1")
    keyed(strict, body)(1, request_id="r1")
    assert body.runs == 2


def test_fact_13_a_claim_by_hand_is_asked_for_one_as_well(stage: Stage) -> None:
    strict = stage.another(settings={"require_request_id": True})
    with pytest.raises(MissingRequestIdentityError):
        strict.claim("charge", (1,), {}, bound("payment"), tool_call_id="c1")
    assert not strict.claim("charge", (1,), {}, bound("payment"), request_id="r1").completed


def test_fact_14_what_names_a_call_is_not_passed_to_its_body(stage: Stage) -> None:
    named = {"request_id": "r1", "dispatch_id": "d1", "tool_call_id": "c1", "decision_id": "e1", "state_ref": "s1"}
    body = Body()
    assert charge(stage.noon, body, effect_class="payment")(1, **named) == "done"
    assert body.seen == [{"amount": 1}]


def test_fact_76_payment_is_another_name_of_non_idempotent_mutate(stage: Stage) -> None:
    charge(stage.noon, Body(), effect_class="payment")(1, request_id="r1")
    assert stage.row("r1").effect_class is EffectClass.NON_IDEMPOTENT_MUTATE


# ── what the tables of the first seed add to that ────────────────────────────────────────────────────────────────────


def test_identity_table_without_a_request_id_a_call_id_in_its_place_is_the_identity(stage: Stage) -> None:
    body = Body()
    tool = charge(stage.noon, body, effect_class="payment")
    with execution_scope(ONE_RUN):
        tool(1, tool_call_id="c1")
        tool(1, tool_call_id="c1")
        tool(1, tool_call_id="c2")
    assert body.runs == 2


def test_hard_drift_freezes_the_call_for_a_person(stage: Stage) -> None:
    body = Body()
    tool = charge(stage.noon, body, effect_class="payment", on_args_drift="hard")
    with execution_scope(ONE_RUN):
        tool(1, tool_call_id="c1")
        with pytest.raises(LedgerHardBlockError, match="other arguments") as blocked:
            tool(2, tool_call_id="c1")
    assert (blocked.value.why, body.runs) == ("args_drift", 1)


def test_drift_is_soft_by_default_not_off(stage: Stage) -> None:
    assert stage.noon.settings.on_args_drift == "soft"


def test_a_request_id_is_kept_as_it_is_and_no_hash_of_arguments(stage: Stage) -> None:
    charge(stage.noon, Body(), effect_class="payment")(1, request_id="charge-order:ORD-123")
    row = stage.row("charge-order:ORD-123")
    assert row.request_id == "charge-order:ORD-123"
    assert row.effect_id != row.request_id


def test_an_explicit_id_wins_over_the_argument_that_names_the_effect(stage: Stage) -> None:
    @ledger_sync(ledger=stage.noon, effect_class="payment", request_id_from="order")
    def charge(order: str) -> str:
        return order

    charge("A", request_id="mine")
    assert stage.row("mine").state == "completed"
    with pytest.raises(JobNotFoundError):
        stage.row("charge:order:A")


def test_class_agent_and_policy_take_part_in_what_an_effect_is(stage: Stage) -> None:
    body = Body()
    charge(stage.noon, body, effect_class="payment", agent_id="a", policy_version="1")(1, request_id="r1")
    for other in ({"agent_id": "b", "policy_version": "1"}, {"agent_id": "a", "policy_version": "2"}):
        with pytest.raises(IdentityConflictError):
            charge(stage.noon, body, effect_class="payment", **other)(1, request_id="r1")
    with pytest.raises(IdentityConflictError):
        charge(stage.noon, body, effect_class="irreversible", agent_id="a", policy_version="1")(1, request_id="r1")
    assert body.runs == 1


def test_equivalent_destinations_of_one_value_are_one_effect_and_different_ones_two(stage: Stage) -> None:
    kept = stage.noon

    @ledger_sync(ledger=kept, effect_class="email", destination="to.email")
    def send(to: dict[str, str], *, subject: str) -> str:
        return subject

    send({"email": "a@example.com", "name": "A"}, subject="x", request_id="r1")
    assert send({"name": "A", "email": "a@example.com"}, subject="x", request_id="r1") == "x"
    with pytest.raises(IdentityConflictError):
        send({"email": "b@example.com", "name": "A"}, subject="x", request_id="r1")
