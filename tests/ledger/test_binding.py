"""What a declaration of a tool may say, and what follows from its class."""

from __future__ import annotations

import math
from datetime import timedelta
from typing import Any

import pytest

from mycelium.leases.errors import SettingsError, ToolDeclarationError
from mycelium.ledger.binding import Binding
from mycelium.ledger.states import BoundaryMode, EffectClass
from mycelium.ledger.submit import Retention


@pytest.mark.parametrize("effect_class", EffectClass)
def test_the_class_says_who_marks_and_whether_it_repeats(effect_class: EffectClass) -> None:
    binding = Binding(effect_class=effect_class)
    read = effect_class is EffectClass.READ
    assert binding.boundary_mode is (BoundaryMode.NONE if read else BoundaryMode.AUTOMATIC)
    assert binding.repeatable == (effect_class in {"read", "idempotent_mutate"})


def test_an_undeclared_tool_is_strict() -> None:
    assert Binding().effect_class is EffectClass.NON_IDEMPOTENT_MUTATE


def test_a_word_is_taken_for_its_member() -> None:
    read: Any = "read"
    explicit: Any = "explicit"
    assert Binding(effect_class=read) == Binding(effect_class=EffectClass.READ)
    assert Binding(boundary_mode=explicit).boundary_mode is BoundaryMode.EXPLICIT


@pytest.mark.parametrize(
    "declared",
    [
        {"effect_class": "harmless"},
        {"boundary_mode": "sometimes"},
        {"effect_class": EffectClass.READ, "boundary_mode": BoundaryMode.AUTOMATIC},
        {"boundary_mode": BoundaryMode.NONE},
        {"effect_class": EffectClass.READ, "key_param": "key"},
        {"timeout_s": 0},
        {"timeout_s": math.nan},
        {"timeout_s": math.inf},
        {"max_attempts": 0},
        {"max_deaths": 0},
        {"retry_delay_s": -1},
        {"retry_delay_s": math.nan},
        {"key_window_s": 60},
        {"key_param": "key", "key_window_s": 0},
        {"key_param": "key", "key_window_s": math.nan},
        {"effect_class": EffectClass.IRREVERSIBLE, "key_param": "key", "key_window_s": 60},
    ],
    ids=str,
)
def test_a_declaration_that_cannot_hold_is_refused(declared: dict[str, Any]) -> None:
    with pytest.raises(ToolDeclarationError):
        Binding(**declared)


@pytest.mark.parametrize("name", ["row", "result"])
@pytest.mark.parametrize("kept", [timedelta(0), timedelta(seconds=-1), timedelta(microseconds=400)])
def test_what_ended_is_kept_for_a_while(name: str, kept: timedelta) -> None:
    with pytest.raises(SettingsError, match=f"Retention.{name}"):
        Retention(**{name: kept})
