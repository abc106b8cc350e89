"""What an attempt's end means for its record: pure functions; the class and the boundary decide."""

from __future__ import annotations

import random
from dataclasses import replace

from ...ledger.record import Failure
from ...ledger.states import REPEATABLE, Boundary, Settle
from ...ledger.turn import Grant, Settlement
from ..hosts.frames import NEVER_BEGAN, NO_PROGRESS, Again, Done, Outcome
from .attempt import Attempt

_RETRY_CAP_S = 300.0
_ELSEWHERE_S = 10.0
"""Until what a worker cannot run is offered again."""
_ORDER = (Boundary.NOT_CROSSED, Boundary.MAYBE_CROSSED, Boundary.CROSSED)
_AGAIN = frozenset({Settle.RETRY, Settle.TIMED_OUT, Settle.NOT_DONE})


def settlement_of(attempt: Attempt, done: Done, rng: random.Random) -> Settlement:
    """Judge how an attempt ended (design, "Boundary modes"; E4).

    An effect that may have begun and whose end nobody saw is unknown, whatever the error looks like. What the tool
    proved with `NotExecuted` is a failure, or runs again where the tool says when. A class that may run again is
    retried. A timeout is never a plain failure.
    """
    boundary = max(attempt.boundary, done.boundary, key=_ORDER.index)
    if done.outcome is Outcome.NOT_EXECUTED and done.error_class == NEVER_BEGAN:
        return given_back(attempt.grant)
    if attempt.mark_missed and done.outcome is Outcome.FAILED and boundary is Boundary.NOT_CROSSED:
        # Not the tool's failure but the store's absence: nothing was sent, and it runs again when the store is back.
        return given_back(attempt.grant)
    error, detail = _fault(attempt, done)
    if done.outcome is Outcome.REFUSED:
        # Not a fault of the call: this worker cannot run it, as in the middle of a deploy. Another one may (Q7).
        return replace(given_back(attempt.grant), error=error, delay_s=_ELSEWHERE_S * rng.uniform(0.5, 1.5))
    if _snoozes(done) and boundary is not Boundary.CROSSED:
        # Proved that nothing was done, and not charged: it is not its time yet.
        return replace(given_back(attempt.grant), delay_s=done.after_s)
    verb = _verb(attempt, done, boundary)
    return Settlement(
        request_id=attempt.grant.request_id,
        fence=attempt.grant.fence,
        verb=verb,
        body=Failure(error, detail).body() if error else done.body,
        error=error,
        delay_s=_delay_s(attempt, done, rng) if verb in _AGAIN else 0.0,
        over=done.over and (attempt.gone or done.outcome not in {Outcome.TIMEOUT, Outcome.CANCELLED}),
        boundary=Boundary.NOT_CROSSED if verb is Settle.NOT_DONE else boundary,
        ref=done.ref or attempt.ref,
    )


def given_back(grant: Grant) -> Settlement:
    """An attempt that no host got, or whose effect cannot begin any more: ready again, and not charged."""
    return Settlement(request_id=grant.request_id, fence=grant.fence, verb=Settle.RELEASED)


def died(attempt: Attempt, why: str) -> Settlement:
    """An attempt whose host ended under it."""
    return Settlement(
        request_id=attempt.grant.request_id,
        fence=attempt.grant.fence,
        verb=Settle.DIED,
        error=why,
        boundary=attempt.boundary,
        ref=attempt.ref,
    )


def out_of_window(attempt: Attempt) -> Settlement:
    """A keyed attempt that came too late to be sent with its first key (E6): what the first one did stays unknown."""
    return Settlement(
        request_id=attempt.grant.request_id,
        fence=attempt.grant.fence,
        verb=Settle.UNKNOWN,
        body=Failure("KeyWindowOver", "The provider's key window ended before the call could be sent again.").body(),
        error="KeyWindowOver",
        boundary=Boundary.MAYBE_CROSSED,
    )


def _fault(attempt: Attempt, done: Done) -> tuple[str, str]:
    """What the record says of an end without a result: a time-out is one, whatever it took to end the body."""
    match done.outcome:
        case Outcome.COMPLETED:
            return "", ""
        case Outcome.TIMEOUT if done.error_class == NO_PROGRESS:
            return "NoProgress", "It told of no progress for its idle timeout."
        case Outcome.TIMEOUT:
            return "Timeout", f"It had not ended after {attempt.timeout_s:g} s."
        case Outcome.CANCELLED if attempt.cancelled:
            return "Cancelled", "Somebody asked for its cancel."
        case Outcome.CANCELLED:
            return "Cancelled", "Its worker lost its session, or was stopped."
        case _:
            return done.error_class.rpartition(".")[2] or done.outcome, done.detail


def _verb(attempt: Attempt, done: Done, boundary: Boundary) -> Settle:  # noqa: C901, PLR0911 - one rule an end
    # The row may have been granted under another declaration than its host's: the stricter one holds.
    repeatable = attempt.grant.effect_class in REPEATABLE and attempt.binding.repeatable
    unsent = boundary is Boundary.NOT_CROSSED
    final = done.again is Again.NEVER
    match done.outcome:
        case Outcome.REFUSED:
            return Settle.RELEASED
        case Outcome.COMPLETED:
            return Settle.COMPLETED
        case Outcome.NOT_EXECUTED if _snoozes(done):
            # It says that it has done nothing, and its call has returned: its class decides, as after any other error.
            return Settle.RETRY if repeatable else Settle.UNKNOWN
        case Outcome.NOT_EXECUTED:
            return Settle.NOT_DONE if done.again is Again.LATER else Settle.FAILED
        case Outcome.FAILED if repeatable and not final:
            return Settle.RETRY
        case Outcome.FAILED if unsent and done.again is Again.LATER:
            return Settle.NOT_DONE
        case Outcome.FAILED:
            return Settle.FAILED if unsent else Settle.UNKNOWN
        case Outcome.TIMEOUT:
            return Settle.TIMED_OUT if repeatable or unsent else Settle.UNKNOWN
        case Outcome.CANCELLED if attempt.cancelled:
            # The store tells what was sent from what was not, as it does for each end.
            return Settle.CANCELLED
        case Outcome.CANCELLED:
            return Settle.RELEASED if repeatable or unsent else Settle.UNKNOWN


def _snoozes(done: Done) -> bool:
    return done.outcome is Outcome.NOT_EXECUTED and done.again is Again.SNOOZE


def _delay_s(attempt: Attempt, done: Done, rng: random.Random) -> float:
    """Full jitter under an exponential ceiling; a time that the tool named is kept, and spread upwards only."""
    if done.again in {Again.LATER, Again.SNOOZE}:
        return done.after_s * rng.uniform(1.0, 1.1)
    ceiling = min(_RETRY_CAP_S, attempt.binding.retry_delay_s * 2.0 ** min(attempt.grant.attempt, 30))
    return rng.uniform(0.0, ceiling)
