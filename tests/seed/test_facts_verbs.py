"""Facts 45–63 of the study of the first seed: decisions, settlements, and what a person does."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import pytest
from seed.stage import (
    ALLOWED,
    DENIED,
    IN_GRACE_S,
    LATER_S,
    Body,
    BrokenError,
    Hung,
    Stage,
    bound,
    charge,
    doubtful,
    keyed,
)

from kit.ledger import Passed
from mycelium import (
    BoundaryError,
    JobNotFoundError,
    LedgerAlreadyResolvedError,
    LedgerError,
    LedgerHardBlockError,
    LedgerOutcomeAlreadySetError,
    LedgerPollTimeoutError,
    LedgerReleaseRefusedError,
    LedgerWorkerAliveError,
    NotExecuted,
    PredicateVerdict,
    Record,
    State,
    StaticTokenOperatorAuthorizer,
    UndeclaredEffectWarning,
    effect_state,
    mark_dead,
    register_decision_predicate,
    release,
    side_effect,
)

PAYMENT = bound("payment")
BY: Passed = {"by": "ops@example.com", "reason": "looked it up"}


def _release(stage: Stage, later_s: float = LATER_S, request_id: str = "r1", **how: Passed) -> Record:
    said: Passed = {"verified": "completed", **BY, **how}
    if said["verified"] == "completed":
        said.setdefault("result", None)
    return stage.ask(lambda store: release(store, request_id, **said), later_s)


def _dead(stage: Stage, later_s: float = LATER_S, **how: Passed) -> Record:
    return stage.ask(lambda store: mark_dead(store, "r1", **{**BY, **how}), later_s)


# ── 45 to 53: decisions and settlements ──────────────────────────────────────────────────────────────────────────────


def test_fact_45_nothing_is_settled_but_by_a_claim_that_holds_it(stage: Stage) -> None:
    """Differs: every verb takes the entry, so that a fence cannot be left out."""
    stage.noon.complete(stage.attempting(stage.noon, "r1", PAYMENT), 1)
    returned = stage.claimed(stage.noon, "r1", PAYMENT)
    with pytest.raises(LedgerError, match="holds nothing"):
        stage.noon.complete(returned, 2)
    assert returned.result == 1


def test_fact_46_no_completion_without_a_decision(stage: Stage) -> None:
    entry = stage.claimed(stage.noon, "r1", PAYMENT)
    with pytest.raises(LedgerOutcomeAlreadySetError):
        stage.noon.complete(entry, 1)
    assert stage.row("r1").state is State.CLAIMED


def test_fact_47_a_decision_is_recorded_once(stage: Stage) -> None:
    entry = stage.attempting(stage.noon, "r1", PAYMENT)
    with pytest.raises(LedgerOutcomeAlreadySetError):
        stage.noon.record_decision(entry, ALLOWED)


def test_fact_48_a_denial_ends_the_attempt_and_no_body_runs(stage: Stage) -> None:
    """Differs: theirs leaves the row in flight until a wrapper fails it."""
    body = Body()
    take_back = register_decision_predicate(
        "limit", lambda intent, snapshot: PredicateVerdict(allowed=False, reason="too much")
    )
    try:
        with pytest.raises(LedgerHardBlockError, match="too much") as blocked:
            charge(stage.noon, body, effect_class="payment")(1, request_id="r1")
    finally:
        take_back()
    row = stage.row("r1")
    assert (blocked.value.why, body.runs, row.state, effect_state(row.state)) == ("denied", 0, State.FAILED, "ABORTED")
    assert "too much" in row.decision


@pytest.mark.parametrize(
    "decision",
    [
        {"allowed": True, "verdicts": [], "denied_reasons": ["too much"]},
        {**DENIED, "allowed": True},
        {**DENIED, "allowed": False, "verdicts": [], "denied_reasons": []},
        {**ALLOWED, "by": "me"},
        {"allowed": True},
        {**ALLOWED, "allowed": "yes"},
    ],
)
def test_fact_49_a_decision_that_contradicts_itself_is_not_recorded(stage: Stage, decision: dict[str, object]) -> None:
    entry = stage.claimed(stage.noon, "r1", PAYMENT)
    with pytest.raises(LedgerError):
        stage.noon.record_decision(entry, decision)
    assert stage.row("r1").state is State.CLAIMED


def test_fact_50_what_a_predicate_raises_is_raised_and_the_call_is_given_back(stage: Stage) -> None:
    def breaks(intent: object, snapshot: object) -> PredicateVerdict:
        raise BrokenError

    body = Body()
    take_back = register_decision_predicate("limit", breaks)
    try:
        with pytest.raises(BrokenError):
            charge(stage.noon, body, effect_class="payment")(1, request_id="r1")
    finally:
        take_back()
    assert (body.runs, stage.row("r1").state) == (0, State.READY)


def test_fact_51_after_a_takeover_the_old_attempt_can_write_nothing(stage: Stage) -> None:
    old = stage.claimed(stage.noon, "r1", PAYMENT)
    new = stage.claimed(stage.later, "r1", PAYMENT)
    before = stage.row("r1")
    writes: list[Callable[[], None]] = [
        lambda: stage.noon.record_decision(old, ALLOWED),
        lambda: stage.noon.complete(old, 1),
        lambda: stage.noon.fail(old, BrokenError(), failed_after_effect=True),
        lambda: stage.noon.fail(old, BrokenError(), failed_after_effect=False),
    ]
    for write in writes:
        with pytest.raises(LedgerOutcomeAlreadySetError):
            write()
    after = stage.row("r1")
    assert (after.state, after.fence, after.session) == (before.state, new.fence, before.session)


def test_fact_51_after_a_takeover_the_old_attempt_can_mark_nothing(stage: Stage) -> None:
    hung, sent = Hung(), list[int]()

    def stands(amount: int) -> None:
        hung.stand()
        with side_effect():
            sent.append(amount)

    old = charge(stage.noon, stands, effect_class="payment", boundary="explicit")
    new = charge(stage.later, Body(), effect_class="payment", boundary="explicit")
    with hung.during(lambda: old(1, request_id="r1")):
        assert new(1, request_id="r1") == "done"
    assert (type(hung.answer), sent) == (BoundaryError, [])


def test_fact_52_nothing_is_settled_twice(stage: Stage) -> None:
    for request_id, after_effect in (("r1", None), ("r2", False)):
        entry = stage.attempting(stage.noon, request_id, PAYMENT)
        if after_effect is None:
            stage.noon.complete(entry, 1)
        else:
            stage.noon.fail(entry, BrokenError(), failed_after_effect=after_effect)
        ended = stage.row(request_id)
        with pytest.raises(LedgerOutcomeAlreadySetError):
            stage.noon.fail(entry, BrokenError(), failed_after_effect=True)
        assert stage.row(request_id).state is ended.state


def test_fact_52_a_late_result_of_the_same_attempt_settles_what_wasdoubtful(stage: Stage) -> None:
    """Differs: it is evidence (E9); theirs discards it and stays blocked."""
    entry = stage.attempting(stage.noon, "r1", PAYMENT)
    stage.noon.fail(entry, BrokenError(), failed_after_effect=True)
    stage.noon.complete(entry, "late")
    assert stage.claimed(stage.noon, "r1", PAYMENT).result == "late"


def test_fact_53_a_session_that_was_lost_is_renewed_no_more_and_the_next_claim_has_another(stage: Stage) -> None:
    """Differs: a session is renewed, not a call; tests/leases/test_session.py has its refusals."""
    stage.claimed(stage.noon, "r1", PAYMENT)
    lost = stage.row("r1").session
    _dead(stage, 0.0, override=True)
    stage.claimed(stage.noon, "r2", PAYMENT)
    assert stage.row("r2").session not in {lost, ""}


# ── 54 to 61: what a person does ─────────────────────────────────────────────────────────────────────────────────────


def test_fact_54_no_release_of_what_is_not_on_record(stage: Stage) -> None:
    with pytest.raises(LedgerReleaseRefusedError):
        _release(stage, request_id="nobody")


def test_fact_54_no_release_of_what_is_completed(stage: Stage) -> None:
    stage.noon.complete(stage.attempting(stage.noon, "r1", PAYMENT), 1)
    with pytest.raises(LedgerReleaseRefusedError):
        _release(stage)


def test_fact_54_no_release_of_what_is_held(stage: Stage) -> None:
    stage.attempting(stage.noon, "r1", PAYMENT)
    with pytest.raises(LedgerReleaseRefusedError):
        _release(stage, 0.0)


@pytest.mark.parametrize("missing", [{"by": " "}, {"reason": ""}])
def test_fact_54_no_release_without_who_and_why(stage: Stage, missing: Passed) -> None:
    doubtful(stage)
    with pytest.raises(LedgerReleaseRefusedError):
        _release(stage, **missing)


@pytest.mark.parametrize("first", ["completed", "not_executed"])
def test_fact_55_no_second_release(stage: Stage, first: str) -> None:
    doubtful(stage)
    _release(stage, verified=first)
    with pytest.raises(LedgerAlreadyResolvedError):
        _release(stage)


def test_fact_56_released_as_not_executed_it_runs_once_and_then_it_is_an_ordinary_row(stage: Stage) -> None:
    body, tool = doubtful(stage)
    _release(stage, verified="not_executed")
    assert tool(1, request_id="r1") == tool(1, request_id="r1") == "done"
    assert body.runs == 2


def test_fact_56_released_as_not_executed_it_blocks_again_where_it_fails_again(stage: Stage) -> None:
    body, tool = doubtful(stage)
    body.breaks = [BrokenError()]
    _release(stage, verified="not_executed")
    with pytest.raises(BrokenError):
        tool(1, request_id="r1")
    with pytest.raises(LedgerHardBlockError):
        tool(1, request_id="r1")
    assert body.runs == 2


def test_fact_57_released_as_completed_it_gives_the_result_that_was_told(stage: Stage) -> None:
    body, tool = doubtful(stage)
    _release(stage, result={"id": "pi_1"})
    assert tool(1, request_id="r1") == {"id": "pi_1"}
    assert body.runs == 1


def test_fact_58_no_release_while_the_old_worker_may_be_alive(stage: Stage) -> None:
    stage.attempting(stage.noon, "r1", PAYMENT)
    with pytest.raises(LedgerWorkerAliveError):
        _release(stage, IN_GRACE_S, verified="not_executed")


def test_fact_59_no_death_of_who_was_heard_of_lately_but_by_override_and_the_reason_says_so(stage: Stage) -> None:
    stage.attempting(stage.noon, "r1", PAYMENT)
    with pytest.raises(LedgerWorkerAliveError):
        _dead(stage, 0.0)
    record = _dead(stage, 0.0, override=True)
    assert (record.state, record.dead_by) == (State.UNKNOWN, BY["by"])
    assert record.dead_reason.startswith(BY["reason"])
    assert record.dead_reason != BY["reason"]


def test_fact_60_no_death_of_the_holder_of_what_has_ended(stage: Stage) -> None:
    stage.noon.complete(stage.attempting(stage.noon, "r1", PAYMENT), 1)
    with pytest.raises(LedgerReleaseRefusedError):
        _dead(stage)


class _Broken:
    async def authorize(self, *args: object, **named: object) -> bool:
        raise BrokenError

    __call__ = authorize


@pytest.mark.parametrize("credential", [None, "", "wrong"])
def test_fact_61_no_release_with_a_credential_that_is_missing_or_wrong(stage: Stage, credential: str | None) -> None:
    doubtful(stage)
    authorizer = StaticTokenOperatorAuthorizer({BY["by"]: "token"})
    with pytest.raises(LedgerReleaseRefusedError):
        _release(stage, authorizer=authorizer, credential=credential)
    assert stage.row("r1").resolution == ""
    assert _release(stage, authorizer=authorizer, credential="token").resolution == "completed"


def test_fact_61_no_release_where_the_authorizer_fails(stage: Stage) -> None:
    doubtful(stage)
    with pytest.raises(LedgerReleaseRefusedError):
        _release(stage, authorizer=cast("Any", _Broken()))
    assert stage.row("r1").resolution == ""


# ── 62 and 63: waiting ───────────────────────────────────────────────────────────────────────────────────────────────


def test_fact_62_no_wait_for_what_is_not_on_record(stage: Stage) -> None:
    with pytest.raises(JobNotFoundError):
        stage.noon.wait_for_transition("nobody")


def test_fact_62_a_wait_that_is_over_changes_nothing(stage: Stage) -> None:
    stage.attempting(stage.noon, "r1", PAYMENT)
    before = stage.row("r1")
    with pytest.raises(LedgerPollTimeoutError):
        stage.noon.wait_for_transition("r1", timeout_s=0.1)
    assert stage.row("r1") == before


def test_fact_63_who_declares_no_class_is_warned_and_has_the_strictest_rules_of_a_write(stage: Stage) -> None:
    """Differs: there is no lax mode, and a waiter whose time is over says so instead of blocking the row (D4)."""
    body = Body(breaks=[BrokenError()])
    with pytest.warns(UndeclaredEffectWarning):
        tool = charge(stage.noon, body)
    with pytest.raises(BrokenError):
        tool(1, request_id="r1")
    with pytest.raises(LedgerHardBlockError):
        tool(1, request_id="r1")
    assert body.runs == 1


def test_provider_keys_hold_after_a_release_too(stage: Stage) -> None:
    """Fact 56, last clause."""
    body = Body(breaks=[BrokenError(), NotExecuted("declined")])
    tool = keyed(stage.noon, body)
    with pytest.raises(BrokenError):
        tool(1, key="k1", request_id="r1")
    _release(stage, verified="not_executed")
    with pytest.raises(NotExecuted):
        tool(1, key="k1", request_id="r1")
    with pytest.raises(LedgerHardBlockError):
        tool(1, key="k2", request_id="r1")
