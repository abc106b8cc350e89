"""What a tool declares of itself, and what follows from its effect class."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, TypeVar

from ..leases.errors import ToolCapabilityDeclarationError, ToolDeclarationError
from .states import REPEATABLE, BoundaryMode, Capability, EffectClass, RetryPermission, Spendability, stricter

DEFAULT_TIMEOUT_S = 60.0
MAX_LABEL_BYTES = 128

_Word = TypeVar("_Word", bound=StrEnum)
_DERIVED: Any = None
"""Left out by the declaration: what follows from the class is filled in, so that nobody ever reads it."""
_PATH = re.compile(r"[^\s.]+(\.[^\s.]+)*")
_CORRECT = "Correct the declaration of the tool."


@dataclass(frozen=True, slots=True)
class Allowed:
    """What a class may declare, the laxest first: that is what it gets when it declares nothing.

    Attributes:
        spendabilities: how often an intent may have its effect.
        permissions: who may let it run again.
    """

    spendabilities: tuple[Spendability, ...]
    permissions: tuple[RetryPermission, ...]


_MULTI, _SINGLE, _NOT_REPLAYED = Spendability
_SAFE, _SAME_KEY, _MANUAL, _NEVER = RetryPermission

ALLOWED: Mapping[EffectClass, Allowed] = {
    EffectClass.READ: Allowed((_MULTI,), (_SAFE,)),
    EffectClass.IDEMPOTENT_MUTATE: Allowed((_MULTI, _SINGLE, _NOT_REPLAYED), (_SAFE, _MANUAL, _NEVER)),
    EffectClass.KEYED_MUTATE: Allowed((_SINGLE, _NOT_REPLAYED), (_SAME_KEY, _MANUAL, _NEVER)),
    EffectClass.NON_IDEMPOTENT_MUTATE: Allowed((_SINGLE, _NOT_REPLAYED), (_MANUAL, _NEVER)),
    EffectClass.IRREVERSIBLE: Allowed((_NOT_REPLAYED,), (_NEVER,)),
}

_WHY_NOT: Mapping[Spendability | RetryPermission, str] = {
    _MULTI: "each run of it that reaches the provider may be one effect more",
    _SINGLE: "what cannot be undone is never sent again, so it is non_replayable",
    _SAFE: "an attempt that seems to have failed may have had its effect, and running it again may be a second one",
    _SAME_KEY: "only a keyed_mutate has a provider that de-duplicates by key",
    _MANUAL: "what cannot be undone is never retried by the runtime, so it is never_retry_automatically",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Binding:
    """The declared facts of one tool, checked at declaration. What is left out is derived, and may only be tightened.

    Attributes:
        effect_class: what kind of effect the tool has.
        boundary_mode: who writes the mark; derived from the class when not given.
        timeout_s: seconds that one attempt may take.
        max_attempts: how often a repeatable tool may fail before its transition is dead.
        max_deaths: how often a host or session may end under a transition before it is dead.
        max_timeouts: how often an attempt may be past its time before its transition is dead.
        retry_delay_s: mean delay before a repeatable tool that failed runs again.
        key_param: the parameter that carries the provider's idempotency key, if there is one.
        key_window_s: for how long the provider honours that key; None: never assumed.
        propagate_effect_id_as_provider_key: whether the runtime sends the effect id as the key where the caller gave
            none; derived: yes where there is a `key_param`.
        reconcilable: whether the tool has a reconciler.
        capability: whether the outcome of an unfinished call can be learnt; derived from class, key and reconciler.
            Of `queryable` without key or reconciler see `effective_capability`.
        spendability: how often one intent may have its effect; derived from the class.
        retry_permission: who may let a call run again; derived from the class.
        request_id_from: the parameter that names the request, in place of an explicit request id.
        destination: dotted path of the argument that says where the effect goes, as `to.email`.
        policy_version: of the rules that the host runs under; part of the identity.
        agent_id: who calls; part of the identity.

    Raises:
        ToolDeclarationError: the facts contradict each other.
    """

    effect_class: EffectClass = EffectClass.NON_IDEMPOTENT_MUTATE
    boundary_mode: BoundaryMode | None = None
    timeout_s: float = DEFAULT_TIMEOUT_S
    max_attempts: int = 3
    max_deaths: int = 3
    max_timeouts: int = 3
    retry_delay_s: float = 1.0
    key_param: str | None = None
    key_window_s: float | None = None
    propagate_effect_id_as_provider_key: bool = _DERIVED
    reconcilable: bool = False
    capability: Capability = _DERIVED
    spendability: Spendability = _DERIVED
    retry_permission: RetryPermission = _DERIVED
    request_id_from: str | None = None
    destination: str | None = None
    policy_version: str = ""
    agent_id: str = ""

    def __post_init__(self) -> None:
        """Derive what was left out and refuse what cannot hold."""
        # A word of a set is taken for its member: what follows compares by identity.
        self._set("effect_class", _member(EffectClass, self.effect_class))
        read = self.effect_class is EffectClass.READ
        self._settle("boundary_mode", BoundaryMode, BoundaryMode.NONE if read else BoundaryMode.AUTOMATIC)
        self._settle("capability", Capability, self._derived_capability())
        self._settle("spendability", Spendability, ALLOWED[self.effect_class].spendabilities[0])
        self._settle("retry_permission", RetryPermission, ALLOWED[self.effect_class].permissions[0])
        if self.propagate_effect_id_as_provider_key is _DERIVED:
            self._set("propagate_effect_id_as_provider_key", self.key_param is not None)
        self._check_capability()
        for broken, why in (*self._contradictions(), *self._key_contradictions()):
            if broken:
                raise ToolDeclarationError(why, next_step=_CORRECT)
        for why in (*self._loosened(), *self._bad_names()):
            raise ToolDeclarationError(why, next_step=_CORRECT)

    @property
    def effective_capability(self) -> Capability:
        """The declared capability, but `blind` where nothing is there that could be asked."""
        mechanism = self.key_param is not None or self.reconcilable
        if self.capability is Capability.QUERYABLE and not mechanism:
            return Capability.BLIND
        return stricter(self.capability, self._derived_capability())

    @property
    def repeatable(self) -> bool:
        """Whether what was lost or failed, and may have had its effect, simply runs again."""
        if self.effect_class not in REPEATABLE:
            return False
        return (self.capability, self.spendability, self.retry_permission) == (Capability.IDEMPOTENT, _MULTI, _SAFE)

    @property
    def resends(self) -> bool:
        """Whether what may have been sent may be sent again with its first key, inside the key's window (E6)."""
        return (
            self.effect_class is EffectClass.KEYED_MUTATE
            and self.key_param is not None
            and self.key_window_s is not None
            and self.retry_permission is _SAME_KEY
            and self.spendability is not _NOT_REPLAYED
            and self.effective_capability is not Capability.BLIND
        )

    @property
    def again(self) -> bool:
        """Whether a repeat is left to the class; False where the declaration forbids what the class allows."""
        return self.repeatable or self.effect_class not in REPEATABLE

    def key_to_ask_by(self, stored: str, effect_id: str) -> str | None:
        """What the provider may know a call by: the key that is on record as sent, or None.

        Without a parameter for it a tool may send what `current_call()` told it, which is the effect id.
        """
        return stored or (effect_id if self.key_param is None else None)

    def _set(self, field: str, value: object) -> None:
        object.__setattr__(self, field, value)

    def _settle(self, field: str, words: type[_Word], derived: _Word) -> None:
        declared = getattr(self, field)
        self._set(field, derived if declared is _DERIVED else _member(words, declared))

    def _derived_capability(self) -> Capability:
        if self.effect_class in REPEATABLE:
            return Capability.IDEMPOTENT
        by_key = self.effect_class is EffectClass.KEYED_MUTATE and self.key_param is not None
        asked = self.effect_class is not EffectClass.IRREVERSIBLE and self.reconcilable
        return Capability.QUERYABLE if by_key or asked else Capability.BLIND

    def _check_capability(self) -> None:
        derived = self._derived_capability()
        if stricter(self.capability, derived) is self.capability:
            return
        # Nothing that could be asked is configured yet: taken as a wish, and blind until then.
        if self.capability is Capability.QUERYABLE and self.effect_class is not EffectClass.IRREVERSIBLE:
            return
        raise ToolCapabilityDeclarationError(
            f"A tool of class {self.effect_class} is {derived} here, and cannot be declared {self.capability}: a "
            "capability may only be tightened.",
            next_step="Leave it out, or declare the key parameter or the reconciler that makes it true.",
        )

    def _contradictions(self) -> list[tuple[bool, str]]:
        read = self.effect_class is EffectClass.READ
        tightened = (self.capability, self.spendability, self.retry_permission) != (
            Capability.IDEMPOTENT,
            _MULTI,
            _SAFE,
        )
        return [
            (read != (self.boundary_mode is BoundaryMode.NONE), "A read has no boundary, and every write has one."),
            (read and tightened, "A read has no effect to protect, so nothing of it can be tightened."),
            (not 0 < self.timeout_s < math.inf, "timeout_s must be above 0 seconds, and finite."),
            (self.max_attempts < 1, "max_attempts must be at least 1."),
            (self.max_deaths < 1, "max_deaths must be at least 1."),
            (self.max_timeouts < 1, "max_timeouts must be at least 1."),
            (not 0 <= self.retry_delay_s < math.inf, "retry_delay_s must not be negative, and finite."),
        ]

    def _key_contradictions(self) -> list[tuple[bool, str]]:
        windowed = self.key_window_s is not None
        keyless = self.key_param is None
        return [
            (self.effect_class is EffectClass.READ and not keyless, "A read sends no idempotency key."),
            (keyless and windowed, "key_window_s needs key_param."),
            (self.key_window_s is not None and not self.key_window_s > 0, "key_window_s must be above 0 seconds."),
            (
                self.effect_class is EffectClass.IRREVERSIBLE and windowed,
                "An irreversible effect is never sent again, so it has no key window.",
            ),
            (
                keyless and self.propagate_effect_id_as_provider_key,
                "propagate_effect_id_as_provider_key needs key_param: there is no parameter to send the effect id in.",
            ),
            (
                not keyless and self.key_param in {self.request_id_from, (self.destination or "").partition(".")[0]},
                "The provider's key takes no part in what a call is, so it can name neither request nor destination.",
            ),
        ]

    def _loosened(self) -> Iterator[str]:
        tool = f"A tool of class {self.effect_class}"
        if self.spendability not in ALLOWED[self.effect_class].spendabilities:
            yield f"{tool} cannot be {self.spendability}: {_WHY_NOT[self.spendability]}."
        if self.retry_permission not in ALLOWED[self.effect_class].permissions:
            yield f"{tool} cannot have {self.retry_permission}: {_WHY_NOT[self.retry_permission]}."

    def _bad_names(self) -> Iterator[str]:
        if self.request_id_from is not None and not self.request_id_from.isidentifier():
            yield "request_id_from must name one parameter."
        if self.destination is not None and not _PATH.fullmatch(self.destination):
            yield "destination must be the path of an argument, as 'to' or 'to.email'."
        for field in ("policy_version", "agent_id"):
            label = getattr(self, field)
            if not (isinstance(label, str) and label.isprintable() and len(label.encode()) <= MAX_LABEL_BYTES):
                yield f"{field} must be printable text of at most {MAX_LABEL_BYTES} bytes."


def _member(words: type[_Word], word: str) -> _Word:
    try:
        return words(word)
    except ValueError:
        known = ", ".join(words)
        raise ToolDeclarationError(f"{word!r} is none of: {known}.", next_step="Correct the declaration.") from None
