"""Facts 15–32 of the study of the first seed: what a redispatch gets. docs/seed.md lists the differences."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from seed.stage import (
    ABSENT,
    CANNOT_SAY,
    HAPPENED,
    IN_GRACE_S,
    Body,
    BrokenError,
    Hung,
    Provider,
    Stage,
    bound,
    charge,
    meanwhile,
    until,
)

from kit.ledger import Client, Passed
from mycelium import (
    Binding,
    Boundary,
    BoundaryError,
    LedgerHardBlockError,
    LedgerPollTimeoutError,
    LedgerSoftBlockError,
    State,
    Verdict,
    ledger_sync,
    record_external_operation,
    side_effect,
    terminal_outcome,
)

PAYMENT = bound("payment")
MARKS_ITSELF = bound("payment", boundary_mode="explicit")
IDEMPOTENT = bound("idempotent_mutate", boundary_mode="explicit")
READ = bound("read")
WRITES = ["idempotent_mutate", "keyed_mutate", "non_idempotent_mutate", "irreversible"]


# ── 15 and 16: in flight ─────────────────────────────────────────────────────────────────────────────────────────────


def test_fact_15_a_peer_waits_for_the_owner_of_a_held_call_and_gets_its_result(stage: Stage, client: Client) -> None:
    hung, ran, peers = Hung(), Body("done"), list[object]()

    def stands(**values: object) -> object:
        hung.stand()
        return ran(**values)

    owner = charge(stage.noon, stands, effect_class="payment")
    peer = charge(stage.another(settings={"poll_timeout_s": 20.0}), ran, effect_class="payment")
    with hung.during(lambda: owner(1, request_id="r1")), meanwhile(lambda: peer(1, request_id="r1"), peers):
        until(lambda: client.hget(stage.key("r1"), "waiters"))
        hung.go_on()
    assert (hung.answer, peers, ran.runs) == ("done", ["done"], 1)


def test_fact_16_no_call_is_held_without_a_session_so_that_none_is_waited_for_for_ever(stage: Stage) -> None:
    """Differs: theirs has leases without an end, which a peer waits for and nobody can release."""
    stage.attempting(stage.noon, "r1", PAYMENT)
    assert stage.row("r1").session
    with pytest.raises(LedgerHardBlockError):
        stage.claimed(stage.later, "r1", PAYMENT)


# ── 17 to 21: the holder is dead ─────────────────────────────────────────────────────────────────────────────────────


def test_fact_17_a_lost_write_that_the_runtime_had_marked_is_blocked(stage: Stage) -> None:
    """Differs: the row is `unknown`, never `BLOCKED`: that it is blocked is a judgement, and is not stored."""
    stage.attempting(stage.noon, "r1", PAYMENT)
    with pytest.raises(LedgerHardBlockError):
        stage.claimed(stage.later, "r1", PAYMENT)
    assert (stage.row("r1").state, stage.row("r1").boundary) == (State.UNKNOWN, Boundary.MAYBE_CROSSED)


def test_fact_17_a_lost_write_of_a_tool_that_marks_for_itself_and_had_not_runs(stage: Stage) -> None:
    """Differs: its late mark would be refused by its fence, so nothing was sent and nothing can be; theirs blocks."""
    first = stage.begun(stage.noon, "r1", MARKS_ITSELF)
    again = stage.claimed(stage.later, "r1", MARKS_ITSELF)
    assert (again.completed, int(again.fence) > int(first.shown.fence)) == (False, True)


def test_fact_18_a_lost_idempotent_write_runs_under_a_higher_fence(stage: Stage) -> None:
    first = stage.attempting(stage.noon, "r1", IDEMPOTENT)
    again = stage.claimed(stage.later, "r1", IDEMPOTENT)
    assert (again.completed, int(again.fence) > int(first.fence)) == (False, True)


@pytest.mark.parametrize("binding", [IDEMPOTENT, READ, PAYMENT])
def test_fact_19_what_lapsed_without_evidence_of_death_is_waited_for(stage: Stage, binding: Binding) -> None:
    stage.attempting(stage.noon, "r1", binding)
    before = stage.row("r1")
    with pytest.raises(LedgerPollTimeoutError):
        stage.claimed(stage.at(IN_GRACE_S), "r1", binding)
    assert stage.row("r1") == before


def test_fact_20_a_lost_read_runs(stage: Stage) -> None:
    stage.attempting(stage.noon, "r1", READ)
    assert not stage.claimed(stage.later, "r1", READ).completed


def test_fact_21_a_lost_idempotent_write_that_may_have_happened_runs_again(stage: Stage) -> None:
    """Differs: its class promises that once more changes nothing; theirs waits for a person."""
    automatic = bound("idempotent_mutate")
    stage.attempting(stage.noon, "r1", automatic)
    assert stage.row("r1").boundary is Boundary.MAYBE_CROSSED
    assert not stage.claimed(stage.later, "r1", automatic).completed


# ── 22 to 25: a provider that can be asked ───────────────────────────────────────────────────────────────────────────


def test_fact_22_a_lost_call_that_its_provider_has_no_record_of_runs_exactly_once_more(stage: Stage) -> None:
    provider, body = Provider(ABSENT), Body()
    _lose_with_a_handle(stage)
    tool = charge(stage.at(3600.0), body, effect_class="payment", reconciler=provider)
    assert tool(1, request_id="r1") == tool(1, request_id="r1") == "done"
    assert (body.runs, [lookup.external_operation_ref for lookup in provider.asked]) == (1, ["pi_1"])


def test_fact_23_a_lost_call_that_its_provider_has_seen_gives_the_providers_result(stage: Stage) -> None:
    provider, body = Provider(HAPPENED), Body()
    _lose_with_a_handle(stage)
    tool = charge(stage.later, body, effect_class="payment", reconciler=provider)
    assert tool(1, request_id="r1") == tool(1, request_id="r1") == {"id": "pi_1"}
    assert (body.runs, len(provider.asked)) == (0, 1)


def test_fact_24_a_lost_claim_without_a_decision_runs_and_nobody_has_to_be_asked(stage: Stage) -> None:
    """Differs: without a decision nothing can have been sent; theirs blocks it for ever (D14)."""
    provider = Provider(HAPPENED)
    stage.claimed(stage.noon, "r1", PAYMENT)
    later = stage.another(3600.0, reconciler=provider)
    assert not stage.claimed(later, "r1", PAYMENT).completed
    assert provider.asked == []


@pytest.mark.parametrize("said", [CANNOT_SAY, RuntimeError("down"), "yes"])
def test_fact_25_a_provider_that_cannot_say_or_fails_leaves_the_call_blocked(stage: Stage, said: Passed) -> None:
    body = Body()
    _lose_with_a_handle(stage)
    tool = charge(stage.later, body, effect_class="payment", reconciler=Provider(said))
    with pytest.raises(LedgerHardBlockError, match="pi_1"):
        tool(1, request_id="r1")
    assert body.runs == 0


def test_fact_25_a_provider_is_asked_without_a_handle_too_by_effect_id_and_arguments(stage: Stage) -> None:
    """Differs: theirs does not ask without a handle."""
    provider, body = Provider(HAPPENED), Body(breaks=[BrokenError()])
    tool = charge(stage.noon, body, effect_class="payment", reconciler=provider)
    with pytest.raises(BrokenError):
        tool(1, request_id="r1")
    assert tool(1, request_id="r1") == {"id": "pi_1"}
    [lookup] = provider.asked
    assert (lookup.external_operation_ref, lookup.effect_id, lookup.arguments) == (
        None,
        stage.row("r1").effect_id,
        {"amount": 1},
    )


def _lose_with_a_handle(stage: Stage) -> None:
    """A call whose worker vanished with its provider's handle on record, and no further."""
    hung = Hung()

    def vanishes(amount: int) -> None:
        record_external_operation("pi_1")
        hung.stand()
        raise SystemExit

    tool = charge(stage.noon, vanishes, effect_class="payment")
    with hung.during(lambda: tool(1, request_id="r1")), pytest.raises(LedgerHardBlockError):
        # Somebody comes by when its session is dead, and takes it from it.
        charge(stage.later, Body(), effect_class="payment")(1, request_id="r1")


# ── 26 to 32: the body failed ────────────────────────────────────────────────────────────────────────────────────────


def _fails(where: str) -> Callable[..., object]:
    """A body that fails once before, inside or after its external call, and then succeeds."""
    fails = [where]

    def body(**values: object) -> str:
        now = fails.pop() if fails else ""
        _break(now, "before")
        with side_effect():
            _break(now, "inside")
        _break(now, "after")
        return "done"

    return body


def _break(now: str, place: str) -> None:
    if now == place:
        raise BrokenError(place)


def _failed(stage: Stage, where: str, effect_class: str, boundary: str = "explicit") -> Callable[..., Any]:
    tool = charge(stage.noon, _fails(where), effect_class=effect_class, boundary=boundary)
    with pytest.raises(BrokenError, match=where):
        tool(1, request_id="r1")
    return tool


@pytest.mark.parametrize("effect_class", WRITES)
def test_fact_26_a_failure_before_any_mark_is_recorded_as_such_and_raised_as_it_is(
    stage: Stage, effect_class: str
) -> None:
    _failed(stage, "before", effect_class)
    row = stage.row("r1")
    assert (row.state, row.boundary, terminal_outcome(row.state, row.boundary)) == (
        State.FAILED,
        Boundary.NOT_CROSSED,
        "FAILED_BEFORE_EFFECT",
    )


@pytest.mark.parametrize("effect_class", ["keyed_mutate", "non_idempotent_mutate", "irreversible"])
def test_fact_26_where_the_runtime_marks_a_failure_of_a_body_proves_nothing(stage: Stage, effect_class: str) -> None:
    """Differs: by default the mark is written before the body, so no tool is unsafe for want of `side_effect()`."""
    tool = _failed(stage, "before", effect_class, "automatic")
    assert (stage.row("r1").state, stage.row("r1").boundary) == (State.UNKNOWN, Boundary.MAYBE_CROSSED)
    with pytest.raises(LedgerHardBlockError):
        tool(1, request_id="r1")


@pytest.mark.parametrize("effect_class", ["keyed_mutate", "non_idempotent_mutate", "irreversible"])
def test_fact_27_a_failure_inside_the_external_call_is_unknown(stage: Stage, effect_class: str) -> None:
    _failed(stage, "inside", effect_class)
    row = stage.row("r1")
    assert (row.boundary, terminal_outcome(row.state, row.boundary)) == (Boundary.MAYBE_CROSSED, "UNKNOWN")


@pytest.mark.parametrize("effect_class", ["keyed_mutate", "non_idempotent_mutate", "irreversible"])
def test_fact_28_a_failure_after_the_external_call_is_one_after_the_effect(stage: Stage, effect_class: str) -> None:
    _failed(stage, "after", effect_class)
    row = stage.row("r1")
    assert (row.boundary, terminal_outcome(row.state, row.boundary)) == (Boundary.CROSSED, "FAILED_AFTER_EFFECT")


@pytest.mark.parametrize("effect_class", ["idempotent_mutate", "keyed_mutate"])
def test_fact_29_what_failed_before_its_effect_and_may_be_retried_runs_at_once(stage: Stage, effect_class: str) -> None:
    """D0: a recorded failure is proof that the worker is done, so that no death is waited for."""
    tool = _failed(stage, "before", effect_class)
    assert tool(1, request_id="r1") == "done"


def test_fact_29_a_read_that_failed_runs_at_once(stage: Stage) -> None:
    body = Body(breaks=[BrokenError()])
    tool = charge(stage.noon, body, effect_class="read")
    with pytest.raises(BrokenError):
        tool(1, request_id="r1")
    assert tool(1, request_id="r1") == "done"


@pytest.mark.parametrize("effect_class", ["non_idempotent_mutate", "irreversible"])
def test_fact_30_what_failed_before_its_effect_and_may_not_be_retried_is_blocked(
    stage: Stage, effect_class: str
) -> None:
    tool = _failed(stage, "before", effect_class)
    with pytest.raises(LedgerHardBlockError):
        tool(1, request_id="r1")


@pytest.mark.parametrize("where", ["inside", "after"])
@pytest.mark.parametrize("effect_class", ["keyed_mutate", "non_idempotent_mutate", "irreversible"])
def test_fact_31_what_failed_in_or_after_its_effect_is_blocked(stage: Stage, where: str, effect_class: str) -> None:
    tool = _failed(stage, where, effect_class)
    with pytest.raises(LedgerHardBlockError):
        tool(1, request_id="r1")


@pytest.mark.parametrize("where", ["inside", "after"])
def test_fact_31_an_idempotent_write_that_failed_in_or_after_its_effect_runs_again(stage: Stage, where: str) -> None:
    """Differs: as fact 21."""
    assert _failed(stage, where, "idempotent_mutate")(1, request_id="r1") == "done"


def test_fact_32_an_unknown_read_runs_again_and_is_refused_for_who_defers(stage: Stage) -> None:
    entry = stage.attempting(stage.noon, "r1", READ)
    stage.noon.fail(entry, BrokenError(), failed_after_effect=True)
    assert stage.row("r1").state is State.UNKNOWN
    again = stage.claimed(stage.noon, "r1", READ)
    assert int(again.fence) > int(entry.fence)


def test_fact_32_a_deferred_unknown_read_is_refused_softly_and_its_body_does_not_run(
    stage: Stage, client: Client
) -> None:
    body = Body(breaks=[BrokenError()])
    tool = charge(stage.noon, body, effect_class="read", defer_read_only_unknown=True)
    with pytest.raises(BrokenError):
        tool(1, request_id="r1")
    client.hset(stage.key("r1"), "state", "unknown")
    with pytest.raises(LedgerSoftBlockError):
        tool(1, request_id="r1")
    assert body.runs == 1
    assert charge(stage.noon, body, effect_class="read")(1, request_id="r1") == "done"


def test_a_read_has_no_effect_to_mark(stage: Stage) -> None:
    """Differs from fact 27 for reads: theirs lets a read cross a boundary."""

    @ledger_sync(ledger=stage.noon, effect_class="read")
    def look() -> None:
        with side_effect():
            pytest.fail("it went on")

    with pytest.raises(BoundaryError):
        look(request_id="r1")


def test_a_verdict_is_needed_for_what_a_provider_says() -> None:
    with pytest.raises(ValueError, match="evidence"):
        Verdict.not_executed(evidence=None)
