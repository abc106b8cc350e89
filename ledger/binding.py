"""What a tool declares of itself, and what follows from its effect class."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeVar

from ..leases.errors import ToolDeclarationError
from .states import REPEATABLE, BoundaryMode, EffectClass

DEFAULT_TIMEOUT_S = 60.0

_Word = TypeVar("_Word", bound=StrEnum)


def _member(words: type[_Word], word: str) -> _Word:
    try:
        return words(word)
    except ValueError:
        known = ", ".join(words)
        raise ToolDeclarationError(f"{word!r} is none of: {known}.", next_step="Correct the declaration.") from None


@dataclass(frozen=True, slots=True, kw_only=True)
class Binding:
    """The declared facts of one tool, checked at declaration.

    Attributes:
        effect_class: what kind of effect the tool has.
        boundary_mode: who writes the mark; derived from the class when not given.
        timeout_s: seconds that one attempt may take.
        max_attempts: how often a repeatable tool may fail before its transition is dead.
        max_deaths: how often a host or session may end under a transition before it is dead.
        retry_delay_s: mean delay before a repeatable tool that failed runs again.
        key_param: the parameter that carries the provider's idempotency key, if there is one.
        key_window_s: for how long the provider honours that key; None: never assumed.

    Raises:
        ToolDeclarationError: the facts contradict each other.
    """

    effect_class: EffectClass = EffectClass.NON_IDEMPOTENT_MUTATE
    boundary_mode: BoundaryMode | None = None
    timeout_s: float = DEFAULT_TIMEOUT_S
    max_attempts: int = 3
    max_deaths: int = 3
    retry_delay_s: float = 1.0
    key_param: str | None = None
    key_window_s: float | None = None

    def __post_init__(self) -> None:
        """Derive the boundary mode and refuse what cannot hold."""
        # A word of the set is taken for its member: what follows compares by identity.
        object.__setattr__(self, "effect_class", _member(EffectClass, self.effect_class))
        if self.boundary_mode is not None:
            object.__setattr__(self, "boundary_mode", _member(BoundaryMode, self.boundary_mode))
        else:
            read = self.effect_class is EffectClass.READ
            object.__setattr__(self, "boundary_mode", BoundaryMode.NONE if read else BoundaryMode.AUTOMATIC)
        for broken, why in self._contradictions():
            if broken:
                raise ToolDeclarationError(why, next_step="Correct the declaration of the tool.")

    def _contradictions(self) -> list[tuple[bool, str]]:
        read = self.effect_class is EffectClass.READ
        return [
            (read != (self.boundary_mode is BoundaryMode.NONE), "A read has no boundary, and every write has one."),
            (read and self.key_param is not None, "A read sends no idempotency key."),
            (not 0 < self.timeout_s < math.inf, "timeout_s must be above 0 seconds, and finite."),
            (self.max_attempts < 1, "max_attempts must be at least 1."),
            (self.max_deaths < 1, "max_deaths must be at least 1."),
            (not 0 <= self.retry_delay_s < math.inf, "retry_delay_s must not be negative, and finite."),
            (self.key_window_s is not None and self.key_param is None, "key_window_s needs key_param."),
            (self.key_window_s is not None and not self.key_window_s > 0, "key_window_s must be above 0 seconds."),
            (
                self.effect_class is EffectClass.IRREVERSIBLE and self.key_window_s is not None,
                "An irreversible effect is never sent again, so it has no key window.",
            ),
        ]

    @property
    def repeatable(self) -> bool:
        """Whether a lost attempt simply runs again."""
        return self.effect_class in REPEATABLE
