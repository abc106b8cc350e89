"""What a declaration of a tool may say, and what follows from its class."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import msgspec
import pytest

from mycelium.leases.errors import SettingsError, ToolCapabilityDeclarationError, ToolDeclarationError
from mycelium.ledger.binding import Binding
from mycelium.ledger.states import (
    CLASS_ALIASES,
    BoundaryMode,
    Capability,
    EffectClass,
    RetryPermission,
    Spendability,
)
from mycelium.ledger.submit import Retention

READ, IDEMPOTENT, KEYED, ONCE, FINAL = EffectClass
SAFE, SAME_KEY, MANUAL, NEVER = RetryPermission
MULTI, SINGLE, NOT_REPLAYED = Spendability
PLAIN, QUERYABLE, BLIND = Capability

KEY: dict[str, Any] = {"key_param": "key"}
WINDOW: dict[str, Any] = {"key_param": "key", "key_window_s": 60.0}
ASKED: dict[str, Any] = {"reconcilable": True}
MECHANISMS: dict[str, dict[str, Any]] = {
    "nothing": {},
    "key": KEY,
    "window": WINDOW,
    "reconciler": ASKED,
    "window and reconciler": WINDOW | ASKED,
}


# ── what follows from the class ──────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("effect_class", EffectClass)
def test_the_class_says_who_marks_and_whether_it_repeats(effect_class: EffectClass) -> None:
    binding = Binding(effect_class=effect_class)
    read = effect_class is EffectClass.READ
    assert binding.boundary_mode is (BoundaryMode.NONE if read else BoundaryMode.AUTOMATIC)
    assert binding.repeatable == (effect_class in {"read", "idempotent_mutate"})
    assert binding.again
    assert not binding.resends


@pytest.mark.parametrize(
    "effect_class, spendability, permission",
    [
        (READ, MULTI, SAFE),
        (IDEMPOTENT, MULTI, SAFE),
        (KEYED, SINGLE, SAME_KEY),
        (ONCE, SINGLE, MANUAL),
        (FINAL, NOT_REPLAYED, NEVER),
    ],
)
def test_what_is_left_out_follows_from_the_class(
    effect_class: EffectClass, spendability: Spendability, permission: RetryPermission
) -> None:
    binding = Binding(effect_class=effect_class)
    assert (binding.spendability, binding.retry_permission) == (spendability, permission)


DERIVED = {
    READ: {"nothing": PLAIN, "reconciler": PLAIN},
    IDEMPOTENT: dict.fromkeys(MECHANISMS, PLAIN),
    KEYED: dict.fromkeys(MECHANISMS, QUERYABLE) | {"nothing": BLIND},
    ONCE: dict.fromkeys(MECHANISMS, BLIND) | dict.fromkeys(["reconciler", "window and reconciler"], QUERYABLE),
    FINAL: dict.fromkeys(["nothing", "key", "reconciler"], BLIND),
}


@pytest.mark.parametrize(
    "effect_class, mechanism, derived",
    [(effect_class, name, derived) for effect_class, cases in DERIVED.items() for name, derived in cases.items()],
)
def test_the_capability_is_what_class_key_and_reconciler_can_support(
    effect_class: EffectClass, mechanism: str, derived: Capability
) -> None:
    binding = Binding(effect_class=effect_class, **MECHANISMS[mechanism])
    assert (binding.capability, binding.effective_capability) == (derived, derived)


@pytest.mark.parametrize("effect_class", EffectClass)
@pytest.mark.parametrize("declared", Capability)
def test_a_capability_may_be_tightened_and_never_loosened(effect_class: EffectClass, declared: Capability) -> None:
    for mechanism in DERIVED[effect_class]:
        derived = DERIVED[effect_class][mechanism]
        facts: dict[str, Any] = {"effect_class": effect_class, "capability": declared, **MECHANISMS[mechanism]}
        ranks = list(Capability)
        if effect_class is READ and declared is not PLAIN:
            with pytest.raises(ToolDeclarationError, match="no effect to protect"):
                Binding(**facts)
        elif ranks.index(declared) >= ranks.index(derived):
            assert Binding(**facts).capability is declared
        elif declared is QUERYABLE and effect_class is not FINAL:
            # A wish: nothing is there yet that could be asked, so it is blind until something is.
            assert Binding(**facts).effective_capability is BLIND
        else:
            with pytest.raises(ToolCapabilityDeclarationError, match=f"{derived} here"):
                Binding(**facts)


def test_queryable_without_anything_to_ask_is_blind_whatever_the_class() -> None:
    for effect_class in (IDEMPOTENT, KEYED, ONCE):
        assert Binding(effect_class=effect_class, capability=QUERYABLE).effective_capability is BLIND
    assert Binding(effect_class=IDEMPOTENT, capability=QUERYABLE, **ASKED).effective_capability is QUERYABLE
    # A key that no provider looks at tells nothing of a class that is not keyed.
    assert Binding(effect_class=ONCE, capability=QUERYABLE, **KEY).effective_capability is BLIND


ACCEPTED = {
    READ: {(MULTI, SAFE)},
    IDEMPOTENT: set(itertools.product(Spendability, [SAFE, MANUAL, NEVER])),
    KEYED: set(itertools.product([SINGLE, NOT_REPLAYED], [SAME_KEY, MANUAL, NEVER])),
    ONCE: set(itertools.product([SINGLE, NOT_REPLAYED], [MANUAL, NEVER])),
    FINAL: {(NOT_REPLAYED, NEVER)},
}


@pytest.mark.parametrize("effect_class", EffectClass)
@pytest.mark.parametrize("spendability", Spendability)
@pytest.mark.parametrize("permission", RetryPermission)
def test_a_class_can_be_tightened_and_not_be_loosened(
    effect_class: EffectClass, spendability: Spendability, permission: RetryPermission
) -> None:
    facts: dict[str, Any] = {
        "effect_class": effect_class,
        "spendability": spendability,
        "retry_permission": permission,
    }
    if (spendability, permission) in ACCEPTED[effect_class]:
        binding = Binding(**facts)
        assert (binding.spendability, binding.retry_permission) == (spendability, permission)
        return
    with pytest.raises(ToolDeclarationError) as refused:
        Binding(**facts)
    # The sentence says why, and not only that it is so.
    assert ":" in refused.value.what or "so nothing of it can be tightened" in refused.value.what


def every_binding() -> Iterator[Binding]:
    """All that can be declared of class, capability, spendability, permission, key and reconciler."""
    axes = itertools.product(EffectClass, Capability, Spendability, RetryPermission, MECHANISMS.values())
    for effect_class, capability, spendability, permission, mechanism in axes:
        facts = {"capability": capability, "spendability": spendability, "retry_permission": permission}
        try:
            yield Binding(effect_class=effect_class, **facts, **mechanism)
        except ToolDeclarationError:
            continue


def test_only_what_is_declared_to_change_nothing_when_run_again_repeats() -> None:
    for binding in every_binding():
        plain = (binding.capability, binding.spendability, binding.retry_permission) == (PLAIN, MULTI, SAFE)
        assert binding.repeatable == (binding.effect_class is READ or (binding.effect_class is IDEMPOTENT and plain))
        assert binding.again == (binding.repeatable or binding.effect_class not in {READ, IDEMPOTENT})


def test_only_a_keyed_write_with_a_window_is_sent_again_by_its_key() -> None:
    sent_again = [binding for binding in every_binding() if binding.resends]
    assert sent_again
    for binding in sent_again:
        assert (binding.effect_class, binding.retry_permission) == (KEYED, SAME_KEY)
        assert (binding.spendability, binding.effective_capability) == (SINGLE, QUERYABLE)
        assert binding.key_window_s is not None
    assert not Binding(effect_class=KEYED, **KEY).resends
    assert not Binding(effect_class=ONCE, **WINDOW).resends
    for tightened in ({"capability": BLIND}, {"spendability": NOT_REPLAYED}, {"retry_permission": MANUAL}):
        facts: dict[str, Any] = {"effect_class": KEYED, **WINDOW, **tightened}
        assert not Binding(**facts).resends


@pytest.mark.parametrize(
    "facts, sends",
    [
        ({"effect_class": KEYED}, False),
        ({"effect_class": KEYED, **KEY}, True),
        ({"effect_class": KEYED, **KEY, "propagate_effect_id_as_provider_key": False}, False),
        ({"effect_class": ONCE, **KEY}, True),
        ({"effect_class": ONCE, **KEY, "propagate_effect_id_as_provider_key": False}, False),
    ],
)
def test_the_effect_id_is_sent_as_key_where_there_is_a_parameter_for_it(facts: dict[str, Any], *, sends: bool) -> None:
    assert Binding(**facts).propagate_effect_id_as_provider_key is sends


# ── words, refusals, travel ──────────────────────────────────────────────────────────────────────────────────────────


def test_an_undeclared_tool_is_strict() -> None:
    assert Binding().effect_class is EffectClass.NON_IDEMPOTENT_MUTATE


def test_a_word_is_taken_for_its_member() -> None:
    words: dict[str, Any] = {
        "effect_class": "keyed_mutate",
        "boundary_mode": "explicit",
        "capability": "blind",
        "spendability": "non_replayable",
        "retry_permission": "never_retry_automatically",
    }
    binding = Binding(**words)
    assert (binding.effect_class, binding.boundary_mode, binding.capability) == (KEYED, BoundaryMode.EXPLICIT, BLIND)
    assert binding.effect_class is KEYED
    assert binding.boundary_mode is BoundaryMode.EXPLICIT
    assert binding.capability is BLIND
    assert binding.spendability is NOT_REPLAYED
    assert binding.retry_permission is NEVER


@pytest.mark.parametrize("alias", CLASS_ALIASES)
def test_a_class_can_be_named_as_people_name_it(alias: str) -> None:
    effect_class: Any = alias
    assert Binding(effect_class=effect_class).effect_class is CLASS_ALIASES[alias]
    assert alias not in set(EffectClass)


IMPOSSIBLE: list[tuple[dict[str, Any], str]] = [
    ({"effect_class": "harmless"}, "none of: read"),
    ({"boundary_mode": "sometimes"}, "none of: automatic"),
    ({"capability": "psychic"}, "none of: idempotent"),
    ({"spendability": "twice"}, "none of: multi_use"),
    ({"retry_permission": "perhaps"}, "none of: safe_retry"),
    ({"effect_class": READ, "boundary_mode": BoundaryMode.AUTOMATIC}, "A read has no boundary"),
    ({"boundary_mode": BoundaryMode.NONE}, "every write has one"),
    ({"effect_class": READ, **KEY}, "sends no idempotency key"),
    ({"effect_class": READ, "retry_permission": MANUAL}, "no effect to protect"),
    ({"effect_class": READ, "spendability": SINGLE}, "no effect to protect"),
    ({"timeout_s": 0}, "timeout_s"),
    ({"timeout_s": math.nan}, "timeout_s"),
    ({"timeout_s": math.inf}, "timeout_s"),
    ({"max_attempts": 0}, "max_attempts"),
    ({"max_deaths": 0}, "max_deaths"),
    ({"retry_delay_s": -1}, "retry_delay_s"),
    ({"retry_delay_s": math.nan}, "retry_delay_s"),
    ({"key_window_s": 60}, "needs key_param"),
    ({**KEY, "key_window_s": 0}, "above 0"),
    ({**KEY, "key_window_s": math.nan}, "above 0"),
    ({"effect_class": FINAL, **WINDOW}, "never sent again, so it has no key window"),
    ({"effect_class": KEYED, "propagate_effect_id_as_provider_key": True}, "no parameter to send the effect id in"),
    ({"effect_class": KEYED, **KEY, "request_id_from": "key"}, "can name neither"),
    ({"effect_class": KEYED, **KEY, "destination": "key.part"}, "can name neither"),
    ({"effect_class": KEYED, "retry_permission": SAFE}, "may be a second one"),
    ({"effect_class": IDEMPOTENT, "retry_permission": SAME_KEY}, "only a keyed_mutate"),
    ({"effect_class": ONCE, "spendability": MULTI}, "may be one effect more"),
    ({"request_id_from": "order id"}, "must name one parameter"),
    ({"request_id_from": ""}, "must name one parameter"),
    ({"destination": "to."}, "path of an argument"),
    ({"destination": ""}, "path of an argument"),
    ({"destination": "to email"}, "path of an argument"),
    ({"agent_id": "a\nb"}, "agent_id must be printable"),
    ({"agent_id": "é" * 65}, "at most 128 bytes"),
    ({"policy_version": "\ud800"}, "policy_version must be printable"),
    ({"policy_version": 3}, "policy_version must be printable"),
]


@pytest.mark.parametrize("declared, why", IMPOSSIBLE, ids=[str(facts) for facts, _ in IMPOSSIBLE])
def test_a_declaration_that_cannot_hold_is_refused_and_says_why(declared: dict[str, Any], why: str) -> None:
    with pytest.raises(ToolDeclarationError, match=why):
        Binding(**declared)


def test_names_at_their_limits_are_taken() -> None:
    binding = Binding(agent_id="é" * 64, policy_version="2026.07 β", request_id_from="order", destination="to.0.email")
    assert (binding.agent_id, binding.destination) == ("é" * 64, "to.0.email")


def test_a_binding_travels_whole() -> None:
    decoder = msgspec.msgpack.Decoder(Binding)
    for binding in every_binding():
        assert decoder.decode(msgspec.msgpack.encode(binding)) == binding
    named = Binding(agent_id="a", policy_version="2", request_id_from="order", destination="to", **ASKED)
    assert decoder.decode(msgspec.msgpack.encode(named)) == named


@pytest.mark.parametrize("name", ["row", "result"])
@pytest.mark.parametrize("kept", [timedelta(0), timedelta(seconds=-1), timedelta(microseconds=400)])
def test_what_ended_is_kept_for_a_while(name: str, kept: timedelta) -> None:
    with pytest.raises(SettingsError, match=f"Retention.{name}"):
        Retention(**{name: kept})
