"""What a repeated dispatch gets: one pure function over row, declaration, last attempt and provider key.

The row was written under the declaration of its time, and the tool may have been declared anew since: wherever the two
differ, the stricter one holds. Nothing here reads a clock or a store, and nothing is written: who asks, acts.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from .binding import ALLOWED, Binding
from .ruling import Ruling, Why
from .states import (
    REPEATABLE,
    Boundary,
    BoundaryMode,
    Capability,
    EffectClass,
    Gate,
    KeyAge,
    KeyMatch,
    Liveness,
    RetryPermission,
    State,
    stricter,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class RowView:
    """What the gate needs to know of a row.

    Attributes:
        state: where it stands.
        boundary: how far its last attempt may have come.
        effect_class: as it was granted, or submitted.
        boundary_mode: who marked its last attempt.
        again: `Binding.again` of when it was granted, or submitted.
        doubt: an attempt before its last one may have had the effect.
        worn_out: as many hosts or sessions ended under it as may.
        intact: no field is missing that could be filled in.
        cancelled: somebody asked for its cancel, so that it does not run again.
    """

    state: State
    boundary: Boundary
    effect_class: EffectClass
    boundary_mode: BoundaryMode
    again: bool
    doubt: bool
    worn_out: bool
    intact: bool
    cancelled: bool = False


_DECIDED_BY_STATE: Mapping[State, Ruling] = {
    State.COMPLETED: Ruling(Gate.RETURN, Why.COMPLETED),
    State.DELAYED: Ruling(Gate.POLL, Why.NOT_YET),
    State.PARKED: Ruling(Gate.POLL, Why.APPROVAL),
    State.CANCELLED: Ruling(Gate.HARD_BLOCK, Why.CANCELLED),
    State.DEAD: Ruling(Gate.HARD_BLOCK, Why.DEAD),
}
_RUNS = frozenset({Gate.ALLOW, Gate.RECLAIM, Gate.SOFT_BLOCK})


def resolve(view: RowView, binding: Binding, liveness: Liveness, key: KeyMatch, age: KeyAge) -> Ruling:
    """Judge one dispatch of what is already on record.

    Args:
        view: the row.
        binding: the tool's declaration here and now.
        liveness: of the row's last attempt.
        key: from `key_match`.
        age: from `key_age`.
    """
    if not view.intact:
        return Ruling(Gate.REPAIR, Why.INCOMPLETE)
    if decided := _DECIDED_BY_STATE.get(view.state):
        return decided
    ruling = _judge(view, _Rules.of(view, binding), liveness, key, age)
    if view.cancelled and ruling.gate in _RUNS:
        return Ruling(Gate.HARD_BLOCK, Why.CANCELLED)
    return ruling


def _judge(view: RowView, rules: _Rules, liveness: Liveness, key: KeyMatch, age: KeyAge) -> Ruling:
    if view.state is State.READY:
        return _ready(view, rules, key, age)
    if view.state is State.FAILED:
        return _failed(rules, key, age)
    if view.state is State.UNKNOWN:
        return _unknown(view, rules, liveness, key, age)
    return _held(view, rules, liveness, key, age)


def key_match(declared: bool, stored: str | None, incoming: str | None, propagate: bool) -> KeyMatch:  # noqa: FBT001
    """Compare the provider's key of this call with the one that was sent first. An empty key is none.

    Args:
        declared: the tool names a parameter for the key.
        stored: what was sent before.
        incoming: what this caller gave.
        propagate: where the caller gave none, the runtime sends what was sent before.
    """
    if not declared:
        return KeyMatch.NOT_DECLARED
    sent_now = incoming or (stored if propagate else None)
    if not stored or not sent_now:
        return KeyMatch.MISSING
    return KeyMatch.SAME if sent_now == stored else KeyMatch.DIFFERENT


def key_age(first_ms: int | None, window_s: float | None, now_ms: int, worst_delay_s: float) -> KeyAge:
    """Tell whether the provider will still know the key when a request that leaves now arrives (E6).

    Args:
        first_ms: server milliseconds of the first dispatch of all.
        window_s: for how long the provider honours a key.
        now_ms: server milliseconds.
        worst_delay_s: so long the request may take to arrive.
    """
    if first_ms is None or window_s is None:
        return KeyAge.UNTRACKED
    age_ms = now_ms - first_ms
    # A first dispatch in the future says that the server's clock was set back, and by how much nobody knows.
    if age_ms < 0 or age_ms + worst_delay_s * 1000 >= window_s * 1000:
        return KeyAge.OVER
    return KeyAge.VALID


@dataclass(frozen=True, slots=True)
class _Rules:
    """What holds where row and declaration differ: the stricter of the two."""

    effect_class: EffectClass
    permission: RetryPermission
    blind: bool
    repeatable: bool
    resends: bool

    @classmethod
    def of(cls, view: RowView, binding: Binding) -> _Rules:
        effect_class = stricter(view.effect_class, binding.effect_class)
        return cls(
            effect_class=effect_class,
            permission=stricter(binding.retry_permission, ALLOWED[effect_class].permissions[0]),
            blind=binding.effective_capability is Capability.BLIND or effect_class is EffectClass.IRREVERSIBLE,
            repeatable=effect_class in REPEATABLE and binding.repeatable and view.again,
            resends=effect_class is EffectClass.KEYED_MUTATE and binding.resends,
        )

    @property
    def read(self) -> bool:
        return self.effect_class is EffectClass.READ


def _ready(view: RowView, rules: _Rules, key: KeyMatch, age: KeyAge) -> Ruling:
    if rules.read:
        return Ruling(Gate.RECLAIM, Why.READ)
    if view.doubt:
        return _in_doubt(view, rules, key, age)
    return Ruling(Gate.ALLOW, Why.QUEUED)


def _held(view: RowView, rules: _Rules, liveness: Liveness, key: KeyMatch, age: KeyAge) -> Ruling:
    match liveness:
        case Liveness.HELD:
            return Ruling(Gate.POLL, Why.HELD)
        case Liveness.GRACE:
            return Ruling(Gate.POLL, Why.GRACE)
        case Liveness.DEAD | Liveness.NOBODY:
            return _lost(view, rules, key, age)


def _lost(view: RowView, rules: _Rules, key: KeyMatch, age: KeyAge) -> Ruling:
    """What becomes of a row whose holder ended (design, "Session lost while attempting").

    A tool that marks for itself shows that it sent nothing: its mark, if it comes late, is refused by its fence.
    """
    if view.worn_out:
        return Ruling(Gate.HARD_BLOCK, Why.WORN_OUT)
    if rules.read:
        return Ruling(Gate.RECLAIM, Why.READ)
    shows_it = view.state is State.CLAIMED or view.boundary_mode is BoundaryMode.EXPLICIT
    if shows_it and view.boundary is Boundary.NOT_CROSSED and not view.doubt:
        return Ruling(Gate.ALLOW, Why.NOTHING_SENT)
    return _in_doubt(view, rules, key, age)


def _failed(rules: _Rules, key: KeyMatch, age: KeyAge) -> Ruling:
    """A recorded failure is proof that no effect exists and that the attempt is over: no death evidence is needed."""
    if rules.read:
        return Ruling(Gate.RECLAIM, Why.READ)
    refused: Why | None = None
    if rules.permission is RetryPermission.NEVER:
        refused = Why.NEVER
    elif rules.permission is RetryPermission.MANUAL:
        refused = Why.MANUAL
    elif rules.permission is RetryPermission.SAME_KEY and key is not KeyMatch.NOT_DECLARED:
        refused = _wrong_key(key, age)
    return Ruling(Gate.HARD_BLOCK, refused) if refused else Ruling(Gate.ALLOW, Why.FAILED_BEFORE)


def _unknown(view: RowView, rules: _Rules, liveness: Liveness, key: KeyMatch, age: KeyAge) -> Ruling:
    if rules.read:
        return Ruling(Gate.SOFT_BLOCK, Why.READ_UNKNOWN)
    ruling = _in_doubt(view, rules, key, age)
    # Even what may run twice does not run beside an attempt that may still be at it.
    if ruling.gate is Gate.ALLOW and liveness is Liveness.HELD:
        return Ruling(Gate.POLL, Why.HELD)
    if ruling.gate is Gate.ALLOW and liveness is Liveness.GRACE:
        return Ruling(Gate.POLL, Why.GRACE)
    return ruling


def _in_doubt(view: RowView, rules: _Rules, key: KeyMatch, age: KeyAge) -> Ruling:
    """A write that may have had its effect: it runs again only where that can be no second effect (E1, E6)."""
    if view.worn_out:
        return Ruling(Gate.HARD_BLOCK, Why.WORN_OUT)
    if rules.repeatable:
        return Ruling(Gate.ALLOW, Why.REPEATABLE)
    refused = _unsendable(rules, key, age)
    return Ruling(Gate.HARD_BLOCK, refused) if refused else Ruling(Gate.ALLOW, Why.SAME_KEY)


def _unsendable(rules: _Rules, key: KeyMatch, age: KeyAge) -> Why | None:
    """Why what may have been sent may not be sent again by key."""
    if rules.blind:
        return Why.BLIND
    if rules.effect_class is not EffectClass.KEYED_MUTATE:
        return Why.MAY_HAVE_HAPPENED
    if not rules.resends or key is KeyMatch.NOT_DECLARED:
        return Why.NOT_RESENT
    return _wrong_key(key, age) or (Why.KEY_UNTRACKED if age is KeyAge.UNTRACKED else None)


def _wrong_key(key: KeyMatch, age: KeyAge) -> Why | None:
    if key is KeyMatch.MISSING:
        return Why.KEY_MISSING
    if key is KeyMatch.DIFFERENT:
        return Why.KEY_DIFFERENT
    return Why.KEY_OVER if age is KeyAge.OVER else None
