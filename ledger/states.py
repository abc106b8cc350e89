"""The closed sets of the ledger: states, boundaries, effect classes, and the words that settle an attempt."""

from __future__ import annotations

from enum import StrEnum


class State(StrEnum):
    """Where one transition stands. The only thing stored; every other outcome word is a view of it."""

    DELAYED = "delayed"
    """Due later."""
    READY = "ready"
    """May be claimed."""
    PARKED = "parked"
    """Waits for a person before the effect."""
    CLAIMED = "claimed"
    """Leased; no decision is recorded, so no effect can exist."""
    ATTEMPTING = "attempting"
    """The decision is recorded; the body may have begun."""
    COMPLETED = "completed"
    """The effect was seen."""
    FAILED = "failed"
    """No effect exists and none can still arrive."""
    UNKNOWN = "unknown"
    """The effect may exist."""
    CANCELLED = "cancelled"
    """Never dispatched."""
    DEAD = "dead"
    """Attempts or deaths are used up; no effect exists."""


TERMINAL = frozenset({State.COMPLETED, State.FAILED, State.CANCELLED, State.DEAD})
"""States that no sweep, late result or retry leaves (E5)."""

HELD = frozenset({State.CLAIMED, State.ATTEMPTING})
"""States in which a session holds the transition."""


class Boundary(StrEnum):
    """How far an attempt may have come; it only moves forward."""

    NOT_CROSSED = "not_crossed"
    """No request has left."""
    MAYBE_CROSSED = "maybe_crossed"
    """The mark is written: a request may have left."""
    CROSSED = "crossed"
    """The external call returned."""


class BoundaryMode(StrEnum):
    """Who writes the mark."""

    AUTOMATIC = "automatic"
    """The runtime, before the body starts."""
    EXPLICIT = "explicit"
    """The tool, by wrapping its external call in `side_effect()`."""
    NONE = "none"
    """Nobody: the class has no effect to mark."""


class EffectClass(StrEnum):
    """What kind of effect a tool has; retry, recovery and cancel all follow from it."""

    READ = "read"
    """No effect: may run again at will."""
    IDEMPOTENT_MUTATE = "idempotent_mutate"
    """Running it again leaves the world as running it once did."""
    KEYED_MUTATE = "keyed_mutate"
    """The provider de-duplicates by a key that we send, inside a window."""
    NON_IDEMPOTENT_MUTATE = "non_idempotent_mutate"
    """Each dispatch is a new effect."""
    IRREVERSIBLE = "irreversible"
    """Each dispatch is a new effect that cannot be undone."""


REPEATABLE = frozenset({EffectClass.READ, EffectClass.IDEMPOTENT_MUTATE})
"""Classes whose lost attempt simply runs again."""


class Settle(StrEnum):
    """How an attempt ends, as its holder tells it."""

    COMPLETED = "completed"
    """The effect was seen; the body is the result."""
    FAILED = "failed"
    """Proved: no effect exists and none can still arrive."""
    UNKNOWN = "unknown"
    """The effect may exist, and this attempt can send nothing more."""
    RELEASED = "released"
    """Given back unstarted: not charged as an attempt."""
    RETRY = "retry"
    """A repeatable class failed: again after the delay, while attempts last."""
    DIED = "died"
    """The host ended under it: the class and the boundary decide."""


class Settled(StrEnum):
    """What the store answers to one settlement."""

    SETTLED = "settled"
    """Recorded, now or by an earlier sending of the same settlement."""
    LATE = "late"
    """Accepted as evidence: the transition had become unknown under the same fence (E9)."""
    STALE = "stale"
    """Refused: the fence or the state is another's; nothing changed but a note."""
    MISSING = "missing"
    """Refused: no such row."""
    CORRUPT = "corrupt"
    """Refused: the row is not what a script of ours writes."""
