"""Other words for where a transition stands, computed from state, boundary and holder; nothing of this is stored."""

from __future__ import annotations

from enum import StrEnum

from .states import Boundary, Liveness, State


class TerminalOutcome(StrEnum):
    """Where the last attempt of a transition ended, as reports speak of it."""

    IN_FLIGHT = "IN_FLIGHT"
    """It has not ended."""
    COMPLETED = "COMPLETED"
    """Its effect was seen."""
    FAILED_BEFORE_EFFECT = "FAILED_BEFORE_EFFECT"
    """No effect exists."""
    FAILED_AFTER_EFFECT = "FAILED_AFTER_EFFECT"
    """The external call returned, and what came after it failed."""
    EXPIRED = "EXPIRED"
    """Its holder ended, or lost its session, and nobody has taken it up yet."""
    UNKNOWN = "UNKNOWN"
    """Its effect may exist."""
    BLOCKED = "BLOCKED"
    """It never runs as it is: cancelled, or its attempts are used up."""


class EffectState(StrEnum):
    """How far the intent to have an effect has come."""

    INTENDED = "INTENDED"
    """On record; nothing allows it yet."""
    ATTEMPTING = "ATTEMPTING"
    """It was allowed; the provider may be reached."""
    COMMITTED = "COMMITTED"
    """The effect exists."""
    ABORTED = "ABORTED"
    """Denied, or failed before the effect."""
    UNKNOWN = "UNKNOWN"
    """The effect may exist."""


_OUTCOMES = {
    State.COMPLETED: TerminalOutcome.COMPLETED,
    State.FAILED: TerminalOutcome.FAILED_BEFORE_EFFECT,
    State.CANCELLED: TerminalOutcome.BLOCKED,
    State.DEAD: TerminalOutcome.BLOCKED,
}
_EFFECTS = {
    State.ATTEMPTING: EffectState.ATTEMPTING,
    State.COMPLETED: EffectState.COMMITTED,
    State.FAILED: EffectState.ABORTED,
    State.CANCELLED: EffectState.ABORTED,
    State.DEAD: EffectState.ABORTED,
    State.UNKNOWN: EffectState.UNKNOWN,
}
_HELD = {State.CLAIMED, State.ATTEMPTING}


def terminal_outcome(state: State, boundary: Boundary, liveness: Liveness = Liveness.HELD) -> TerminalOutcome:
    """Tell where the last attempt ended."""
    if state is State.UNKNOWN:
        after = boundary is Boundary.CROSSED
        return TerminalOutcome.FAILED_AFTER_EFFECT if after else TerminalOutcome.UNKNOWN
    if state in _HELD and liveness is not Liveness.HELD:
        return TerminalOutcome.EXPIRED
    return _OUTCOMES.get(state, TerminalOutcome.IN_FLIGHT)


def effect_state(state: State) -> EffectState:
    """Tell how far the intent has come."""
    return _EFFECTS.get(state, EffectState.INTENDED)
