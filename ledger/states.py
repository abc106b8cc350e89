"""The closed sets of the ledger: states, boundaries, what a tool declares of itself, gates, and words of settlement."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import TypeVar

_Word = TypeVar("_Word", bound=StrEnum)


def stricter(one: _Word, other: _Word) -> _Word:
    """The stricter of two members of a set whose members stand from the laxest to the strictest."""
    members = list(type(one))
    return max(one, other, key=members.index)


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
    """What kind of effect a tool has; retry, recovery and cancel all follow from it. From the laxest to the strictest.

    Other names of the classes, as `payment`, are taken for the class: see `CLASS_ALIASES`.
    """

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

    @classmethod
    def _missing_(cls, value: object) -> EffectClass | None:
        return CLASS_ALIASES.get(value) if isinstance(value, str) else None


CLASS_ALIASES: Mapping[str, EffectClass] = {
    "read_only": EffectClass.READ,
    "idempotent_write": EffectClass.IDEMPOTENT_MUTATE,
    "external_api_mutation": EffectClass.KEYED_MUTATE,
    "non_idempotent_write": EffectClass.NON_IDEMPOTENT_MUTATE,
    "payment": EffectClass.NON_IDEMPOTENT_MUTATE,
    "email": EffectClass.NON_IDEMPOTENT_MUTATE,
    "subagent": EffectClass.NON_IDEMPOTENT_MUTATE,
    "onchain_action": EffectClass.IRREVERSIBLE,
}
"""Names of classes that people write; each is read as its class and never stored."""

REPEATABLE = frozenset({EffectClass.READ, EffectClass.IDEMPOTENT_MUTATE})
"""Classes whose lost attempt may run again, where the declaration is not stricter: see `Binding.repeatable`."""


class Capability(StrEnum):
    """Whether the outcome of an unfinished call can be learnt. From the laxest to the strictest."""

    IDEMPOTENT = "idempotent"
    """It need not be: running it again is safe."""
    QUERYABLE = "queryable"
    """A reconciler or the provider's key can establish it."""
    BLIND = "blind"
    """Nobody can: what is in doubt waits for a person."""


class Spendability(StrEnum):
    """How often one intent may have its effect. From the laxest to the strictest."""

    MULTI_USE = "multi_use"
    """As often as it runs: once more changes nothing."""
    SINGLE_USE = "single_use"
    """Once: what may have had its effect is not run again, unless the provider de-duplicates it."""
    NON_REPLAYABLE = "non_replayable"
    """Once, and never sent again after it may have been sent, not even with its key."""


class RetryPermission(StrEnum):
    """Who may let a call run again that failed or is in doubt. From the laxest to the strictest."""

    SAFE_RETRY = "safe_retry"
    """The runtime."""
    SAME_KEY = "retry_only_with_same_provider_idempotency_key"
    """The runtime, with the key that was sent first."""
    MANUAL = "manual_reconciliation_required"
    """A person, or a provider's verdict."""
    NEVER = "never_retry_automatically"
    """Nobody by default: a person has to take it on themselves."""


class Gate(StrEnum):
    """What a repeated dispatch gets. The words are public: people read them in metrics and logs."""

    ALLOW = "ALLOW"
    """It runs."""
    RETURN = "RETURN"
    """The stored result; nothing runs."""
    POLL = "POLL"
    """Wait: somebody has it, or it is not its time; nothing runs and nothing is written."""
    RECLAIM = "RECLAIM"
    """A read: taken over, and run again."""
    REPAIR = "REPAIR"
    """The row is filled in first and then judged; nothing runs."""
    SOFT_BLOCK = "SOFT_BLOCK"
    """A read whose outcome is unknown: run again by default, refused for who asks for that."""
    HARD_BLOCK = "HARD_BLOCK"
    """Refused: a reconciler or a person has to say what happened."""


class Liveness(StrEnum):
    """Whether the last attempt of a transition may still act."""

    HELD = "held"
    """Its session is alive."""
    GRACE = "grace"
    """Its session lapsed, and there is no evidence yet that the attempt can send nothing more."""
    DEAD = "dead"
    """There is: its session was ended or declared dead, or the grace is over."""
    NOBODY = "nobody"
    """None was begun, or its holder told that it is over."""


class KeyMatch(StrEnum):
    """How the provider's key of this call compares with the one that was sent before."""

    NOT_DECLARED = "not_declared"
    """The tool names no parameter for it."""
    SAME = "same"
    """It is the same key."""
    DIFFERENT = "different"
    """The provider would take it for another effect."""
    MISSING = "missing"
    """One of the two is not there."""


class KeyAge(StrEnum):
    """Whether the provider still knows the key that was sent first."""

    UNTRACKED = "untracked"
    """Nobody can say: no window is declared, or no first dispatch is on record."""
    VALID = "valid"
    """It does, and still will when this call arrives at the latest."""
    OVER = "over"
    """It may have forgotten it."""


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
    TIMED_OUT = "timed_out"
    """Past its time: as a failure of its class, and counted apart."""
    NOT_DONE = "not_done"
    """Proved that nothing was sent, mark or no mark: again after the delay, while attempts last, whatever the class."""
    CANCELLED = "cancelled"
    """Ended because somebody asked: cancelled where nothing was sent, and unknown where something may have been."""
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


class Drift(StrEnum):
    """What happens when the same dispatch comes with other arguments."""

    SOFT = "soft"
    """It is refused, and the caller may correct it."""
    HARD = "hard"
    """It is refused as blocked: a person looks at it."""
    OFF = "off"
    """Other arguments are another call."""
