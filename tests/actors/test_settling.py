"""What the end of an attempt means for its record, for every class, boundary and outcome."""

from __future__ import annotations

import random
from typing import cast

import pytest

from mycelium.actors.hosts.frames import NEVER_BEGAN, Done, Outcome
from mycelium.actors.worker.attempt import Attempt
from mycelium.actors.worker.settling import settlement_of
from mycelium.leases.session import Session
from mycelium.ledger.binding import Binding
from mycelium.ledger.states import REPEATABLE, Boundary, BoundaryMode, EffectClass, RetryPermission, Settle
from mycelium.ledger.turn import Grant

NOT, MAYBE, CROSSED = Boundary.NOT_CROSSED, Boundary.MAYBE_CROSSED, Boundary.CROSSED
WRITES = [effect_class for effect_class in EffectClass if effect_class not in REPEATABLE]


def attempt_of(effect_class: EffectClass, boundary: Boundary) -> Attempt:
    mode = BoundaryMode.NONE if effect_class is EffectClass.READ else BoundaryMode.EXPLICIT
    grant = Grant("r", "7", 1, "t", "default", effect_class, mode, "e", 0, None, "", "", b"{}")
    binding = Binding(effect_class=effect_class, boundary_mode=mode)
    return Attempt(grant, binding, cast("Session", None), boundary=boundary)


def verb_of(effect_class: EffectClass, recorded: Boundary, outcome: Outcome, told: Boundary) -> Settle:
    done = Done(0, outcome, told, error_class="builtins.OSError")
    return settlement_of(attempt_of(effect_class, recorded), done, random.Random(0)).verb


@pytest.mark.parametrize("effect_class", list(EffectClass))
@pytest.mark.parametrize("boundary", list(Boundary))
def test_a_result_completes_and_a_proof_of_non_execution_fails(effect_class: EffectClass, boundary: Boundary) -> None:
    assert verb_of(effect_class, boundary, Outcome.COMPLETED, boundary) is Settle.COMPLETED
    assert verb_of(effect_class, boundary, Outcome.NOT_EXECUTED, boundary) is Settle.FAILED


@pytest.mark.parametrize("effect_class", sorted(REPEATABLE))
@pytest.mark.parametrize("boundary", list(Boundary))
def test_what_may_run_again_is_retried_or_given_back(effect_class: EffectClass, boundary: Boundary) -> None:
    assert verb_of(effect_class, boundary, Outcome.FAILED, boundary) is Settle.RETRY
    assert verb_of(effect_class, boundary, Outcome.TIMEOUT, boundary) is Settle.TIMED_OUT
    assert verb_of(effect_class, boundary, Outcome.CANCELLED, boundary) is Settle.RELEASED


def test_what_is_declared_stricter_than_its_class_is_not_run_again() -> None:
    attempt = attempt_of(EffectClass.IDEMPOTENT_MUTATE, MAYBE)
    attempt.binding = Binding(
        effect_class=EffectClass.IDEMPOTENT_MUTATE,
        boundary_mode=BoundaryMode.EXPLICIT,
        retry_permission=RetryPermission.MANUAL,
    )
    for outcome in (Outcome.FAILED, Outcome.TIMEOUT, Outcome.CANCELLED):
        done = Done(0, outcome, MAYBE, error_class="builtins.OSError")
        assert settlement_of(attempt, done, random.Random(0)).verb is Settle.UNKNOWN


@pytest.mark.parametrize("effect_class", WRITES)
@pytest.mark.parametrize("outcome", [Outcome.FAILED, Outcome.TIMEOUT, Outcome.CANCELLED])
@pytest.mark.parametrize("recorded, told", [(MAYBE, MAYBE), (MAYBE, CROSSED), (MAYBE, NOT), (NOT, MAYBE)])
def test_a_write_past_its_mark_is_unknown_whatever_the_error_looks_like(
    effect_class: EffectClass, outcome: Outcome, recorded: Boundary, told: Boundary
) -> None:
    assert verb_of(effect_class, recorded, outcome, told) is Settle.UNKNOWN


@pytest.mark.parametrize("effect_class", WRITES)
def test_a_write_before_its_mark_fails_and_its_timeout_is_no_failure(effect_class: EffectClass) -> None:
    assert verb_of(effect_class, NOT, Outcome.FAILED, NOT) is Settle.FAILED
    assert verb_of(effect_class, NOT, Outcome.TIMEOUT, NOT) is Settle.TIMED_OUT
    assert verb_of(effect_class, NOT, Outcome.CANCELLED, NOT) is Settle.RELEASED


@pytest.mark.parametrize("effect_class", list(EffectClass))
def test_a_body_that_never_began_is_given_back_and_not_charged(effect_class: EffectClass) -> None:
    done = Done(0, Outcome.NOT_EXECUTED, NOT, error_class=NEVER_BEGAN)
    settlement = settlement_of(attempt_of(effect_class, MAYBE), done, random.Random(0))
    assert (settlement.verb, settlement.boundary) == (Settle.RELEASED, NOT)


def test_a_tool_whose_mark_got_no_answer_is_given_back_unless_it_was_marked_after_all() -> None:
    done = Done(0, Outcome.FAILED, NOT, error_class="mycelium.leases.errors.BoundaryError")
    attempt = attempt_of(EffectClass.NON_IDEMPOTENT_MUTATE, NOT)
    attempt.mark_missed = True
    assert settlement_of(attempt, done, random.Random(0)).verb is Settle.RELEASED
    attempt.boundary = MAYBE
    assert settlement_of(attempt, done, random.Random(0)).verb is Settle.UNKNOWN


@pytest.mark.parametrize("effect_class", list(EffectClass))
def test_what_this_worker_cannot_run_is_given_back_for_later(effect_class: EffectClass) -> None:
    done = Done(0, Outcome.REFUSED, MAYBE, error_class="mycelium.leases.errors.BadArgumentsError")
    settlement = settlement_of(attempt_of(effect_class, MAYBE), done, random.Random(0))
    assert (settlement.verb, settlement.boundary, settlement.error) == (Settle.RELEASED, NOT, "BadArgumentsError")
    assert settlement.delay_s > 0


def test_a_time_out_is_told_as_one() -> None:
    done = Done(0, Outcome.TIMEOUT, MAYBE, error_class="asyncio.exceptions.CancelledError")
    settlement = settlement_of(attempt_of(EffectClass.KEYED_MUTATE, MAYBE), done, random.Random(0))
    assert (settlement.verb, settlement.error) == (Settle.UNKNOWN, "Timeout")


def test_a_tools_own_error_cannot_pass_for_a_body_that_never_began() -> None:
    done = Done(0, Outcome.FAILED, MAYBE, error_class=NEVER_BEGAN)
    settlement = settlement_of(attempt_of(EffectClass.KEYED_MUTATE, MAYBE), done, random.Random(0))
    assert settlement.verb is Settle.UNKNOWN


def test_the_record_gets_the_bare_class_name_and_the_body_gets_the_words() -> None:
    done = Done(0, Outcome.FAILED, MAYBE, error_class="shop.errors.Declined", detail="card declined")
    settlement = settlement_of(attempt_of(EffectClass.KEYED_MUTATE, MAYBE), done, random.Random(0))
    assert settlement.error == "Declined"
    assert settlement.body == b'{"error": "Declined", "detail": "card declined"}'


def test_retries_are_spread_and_grow_with_the_attempts() -> None:
    done = Done(0, Outcome.FAILED, NOT, error_class="OSError")
    attempt = attempt_of(EffectClass.READ, NOT)
    delays = [settlement_of(attempt, done, random.Random(seed)).delay_s for seed in range(50)]
    assert max(delays) <= 2 * attempt.binding.retry_delay_s
    assert len(set(delays)) == len(delays)
