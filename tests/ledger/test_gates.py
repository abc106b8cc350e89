"""What a repeated dispatch gets: the whole product as a table, and the rules of safety said once more by themselves."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from kit.gates import MECHANISMS, Behaviour, Cell, Declared, cells_of, everything, table
from mycelium.leases.errors import ToolDeclarationError
from mycelium.ledger.binding import Binding
from mycelium.ledger.gates import RowView, key_age, key_match, resolve
from mycelium.ledger.ruling import Ruling, Why
from mycelium.ledger.states import (
    Boundary,
    BoundaryMode,
    Capability,
    EffectClass,
    Gate,
    KeyAge,
    KeyMatch,
    Liveness,
    RetryPermission,
    Spendability,
    State,
)

READ, IDEMPOTENT, KEYED, ONCE, FINAL = EffectClass
RUNS = {Gate.ALLOW, Gate.RECLAIM, Gate.SOFT_BLOCK}
"""Gates behind which a body may run, by default."""
HELD = {State.CLAIMED, State.ATTEMPTING}
ALIVE = {Liveness.HELD, Liveness.GRACE}
LAXEST = {effect_class: Binding(effect_class=effect_class) for effect_class in EffectClass} | {
    KEYED: Binding(effect_class=KEYED, key_param="key", key_window_s=60.0)
}
"""The laxest declaration of each class."""


@pytest.fixture(scope="module")
def behaviours() -> list[Behaviour]:
    return everything()[1]


def writes(behaviours: list[Behaviour]) -> Iterator[tuple[list[Binding], Cell, Ruling]]:
    for behaviour in behaviours:
        bindings = [one.binding() for one in behaviour.who if one.effect_class is not READ]
        if bindings:
            yield from ((bindings, cell, ruling) for cell, ruling in behaviour.items())


# ── the table ────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_the_table_is_what_the_resolver_says_of_every_combination() -> None:
    kept = (Path(__file__).parent / "gates_table.txt").read_text(encoding="utf-8")
    assert table().splitlines() == kept.splitlines()


def test_the_product_is_whole(behaviours: list[Behaviour]) -> None:
    refused, _ = everything()
    accepted = [one for behaviour in behaviours for one in behaviour.who]
    assert len(accepted) == len(set(accepted))
    assert len(accepted) + len(refused) == 5 * 3 * 3 * 4 * len(MECHANISMS)
    assert sum(len(behaviour.who) * len(behaviour.cells) for behaviour in behaviours) > 500_000
    assert {ruling.why for behaviour in behaviours for ruling in behaviour.rulings} == set(Why) - {Why.INCOMPLETE}


# ── the rules of safety, over the whole product ──────────────────────────────────────────────────────────────────────


def may_have_been_sent(cell: Cell) -> bool:
    """Said without the resolver: could the effect of an earlier attempt exist?"""
    if cell.state in {State.FAILED, State.CANCELLED, State.DEAD, State.PARKED, State.DELAYED}:
        return False
    if cell.past == "doubt" or cell.state is State.UNKNOWN:
        return True
    if cell.state is State.READY:
        return False
    seen = cell.state is State.CLAIMED or cell.mode is BoundaryMode.EXPLICIT
    return not seen or cell.boundary is not Boundary.NOT_CROSSED


def test_a_write_that_may_have_been_sent_runs_again_only_if_that_can_be_no_second_effect(
    behaviours: list[Behaviour],
) -> None:
    checked = 0
    for bindings, cell, ruling in writes(behaviours):
        if ruling.gate in RUNS and may_have_been_sent(cell):
            checked += 1
            known = (cell.key, cell.age) == (KeyMatch.SAME, KeyAge.VALID)
            again = cell.past != "not_again"
            assert all((b.repeatable and again) or (b.resends and known) for b in bindings), (cell, ruling)
    assert checked


def test_what_is_held_or_may_still_be_at_it_never_runs(behaviours: list[Behaviour]) -> None:
    for behaviour in behaviours:
        for cell, ruling in behaviour.items():
            if cell.liveness in ALIVE and cell.state in HELD:
                assert ruling.gate is Gate.POLL, cell
            if cell.liveness in ALIVE and cell.state is State.UNKNOWN and behaviour.who[0].effect_class is not READ:
                assert ruling.gate not in RUNS, cell


def test_what_is_completed_always_returns_and_nothing_else_does(behaviours: list[Behaviour]) -> None:
    for behaviour in behaviours:
        for cell, ruling in behaviour.items():
            assert (ruling.gate is Gate.RETURN) == (cell.state is State.COMPLETED), cell


def test_an_unknown_write_that_runs_once_is_never_let_through(behaviours: list[Behaviour]) -> None:
    for behaviour in behaviours:
        if {one.effect_class for one in behaviour.who} & {ONCE, FINAL}:
            for cell, ruling in behaviour.items():
                if cell.state is State.UNKNOWN:
                    assert ruling.gate is Gate.HARD_BLOCK, cell


def test_blind_parks_all_that_may_have_been_sent(behaviours: list[Behaviour]) -> None:
    for bindings, cell, ruling in writes(behaviours):
        if any(b.effective_capability is Capability.BLIND for b in bindings) and may_have_been_sent(cell):
            assert ruling.gate not in RUNS, cell


def test_a_death_too_many_ends_what_was_lost(behaviours: list[Behaviour]) -> None:
    for behaviour in behaviours:
        for cell, ruling in behaviour.items():
            if cell.past == "worn_out" and cell.state in HELD and cell.liveness not in ALIVE:
                assert ruling == Ruling(Gate.HARD_BLOCK, Why.WORN_OUT), cell


def test_a_recorded_failure_waits_for_no_death(behaviours: list[Behaviour]) -> None:
    for behaviour in behaviours:
        told = defaultdict(set)
        for cell, ruling in behaviour.items():
            if cell.state is State.FAILED:
                assert ruling.gate is not Gate.POLL
                told[cell.key, cell.age].add(ruling)
        assert all(len(rulings) == 1 for rulings in told.values())


def test_what_is_lost_before_its_decision_runs_again_whatever_its_class(behaviours: list[Behaviour]) -> None:
    for behaviour in behaviours:
        for cell, ruling in behaviour.items():
            fresh = (cell.state, cell.boundary, cell.past) == (State.CLAIMED, Boundary.NOT_CROSSED, "plain")
            if fresh and cell.liveness not in ALIVE:
                assert ruling.gate in {Gate.ALLOW, Gate.RECLAIM}, cell


def test_only_reads_are_reclaimed_or_blocked_softly(behaviours: list[Behaviour]) -> None:
    for behaviour in behaviours:
        soft = {ruling.gate for ruling in behaviour.rulings} & {Gate.RECLAIM, Gate.SOFT_BLOCK}
        assert bool(soft) == (behaviour.who[0].effect_class is READ)


# ── stricter is never laxer ──────────────────────────────────────────────────────────────────────────────────────────


def tighter(one: Declared) -> Iterator[Declared]:
    """The same declaration, one step stricter on one axis."""
    axes: dict[str, Any] = {
        "effect_class": EffectClass,
        "capability": Capability,
        "spendability": Spendability,
        "permission": RetryPermission,
    }
    for axis, words in axes.items():
        members = list(words)
        for stricter in members[members.index(getattr(one, axis)) + 1 :]:
            yield one._replace(**{axis: stricter})


def test_no_stricter_declaration_lets_through_what_a_laxer_one_does_not(behaviours: list[Behaviour]) -> None:
    runs = {
        one: (behaviour.cells, [ruling.gate in RUNS for ruling in behaviour.rulings])
        for behaviour in behaviours
        for one in behaviour.who
    }
    compared = 0
    for one, (cells, lax) in runs.items():
        for stricter in tighter(one):
            if stricter in runs and runs[stricter][0] == cells:
                compared += 1
                loosened = [c for c, was, now in zip(cells, lax, runs[stricter][1], strict=True) if now and not was]
                assert loosened == [], (one, stricter)
    assert compared > 300


def worse(cell: Cell) -> Iterator[Cell]:
    """The same row, one step further in doubt."""
    if cell.past == "plain":
        yield from (cell._replace(past=past) for past in ("doubt", "worn_out", "not_again"))
    if cell.mode is BoundaryMode.EXPLICIT:
        yield cell._replace(mode=BoundaryMode.AUTOMATIC)
    if cell.boundary is not Boundary.CROSSED:
        yield cell._replace(boundary=Boundary.CROSSED)
    if cell.key is KeyMatch.SAME:
        yield from (cell._replace(key=key) for key in (KeyMatch.DIFFERENT, KeyMatch.MISSING))
    if cell.age is KeyAge.VALID:
        yield from (cell._replace(age=age) for age in (KeyAge.UNTRACKED, KeyAge.OVER))
    if cell.liveness is Liveness.DEAD:
        yield from (cell._replace(liveness=liveness) for liveness in ALIVE)


def test_no_row_further_in_doubt_is_let_through_where_a_clearer_one_is_not(behaviours: list[Behaviour]) -> None:
    for behaviour in behaviours:
        runs = {cell: ruling.gate in RUNS for cell, ruling in behaviour.items()}
        for cell, let_through in runs.items():
            if not let_through:
                assert not [further for further in worse(cell) if runs.get(further)], (behaviour.who[0], cell)


def test_where_row_and_declaration_differ_the_stricter_holds(behaviours: list[Behaviour]) -> None:
    rng = random.Random(20_260_701)
    declared = [(one, one.binding(), cells_of(KEYED, one.mechanism)) for b in behaviours for one in b.who]
    for _ in range(40_000):
        (one, binding, cells), effect_class = rng.choice(declared), rng.choice(list(EffectClass))
        cell = rng.choice(cells)
        view = cell.view(effect_class)
        if resolve(view, binding, cell.liveness, cell.key, cell.age).gate not in RUNS:
            continue
        # So it would with a row of the declaration's class, and with the laxest declaration of the row's class.
        same = replace(view, effect_class=binding.effect_class)
        assert resolve(same, binding, cell.liveness, cell.key, cell.age).gate in RUNS, (one, cell, effect_class)
        laxest = LAXEST[effect_class]
        assert resolve(view, laxest, cell.liveness, cell.key, cell.age).gate in RUNS, (one, cell, effect_class)


def test_a_row_that_lacks_a_field_is_repaired_before_anything_is_concluded() -> None:
    for effect_class in EffectClass:
        for state in State:
            view = RowView(
                state=state,
                boundary=Boundary.NOT_CROSSED,
                effect_class=effect_class,
                boundary_mode=BoundaryMode.AUTOMATIC,
                again=True,
                doubt=False,
                worn_out=False,
                intact=False,
            )
            ruling = resolve(view, Binding(), Liveness.NOBODY, KeyMatch.NOT_DECLARED, KeyAge.UNTRACKED)
            assert ruling == Ruling(Gate.REPAIR, Why.INCOMPLETE)


# ── the provider's key ───────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "declared, stored, incoming, propagate, match",
    [
        (False, "a", "a", True, KeyMatch.NOT_DECLARED),
        (True, "a", "a", False, KeyMatch.SAME),
        (True, "a", "b", True, KeyMatch.DIFFERENT),
        (True, "a", None, True, KeyMatch.SAME),
        (True, "a", None, False, KeyMatch.MISSING),
        (True, None, "a", True, KeyMatch.MISSING),
        (True, None, None, True, KeyMatch.MISSING),
        (True, "", "", True, KeyMatch.MISSING),
        (True, "a", "", True, KeyMatch.SAME),
        (True, "a", "A", False, KeyMatch.DIFFERENT),
    ],
)
def test_a_call_has_the_key_that_was_sent_first_or_not(
    declared: bool,  # noqa: FBT001
    stored: str | None,
    incoming: str | None,
    propagate: bool,  # noqa: FBT001
    match: KeyMatch,
) -> None:
    assert key_match(declared, stored, incoming, propagate) is match


@pytest.mark.parametrize(
    "first_ms, window_s, now_ms, worst_delay_s, age",
    [
        (None, 60.0, 5, 0.0, KeyAge.UNTRACKED),
        (5, None, 5, 0.0, KeyAge.UNTRACKED),
        (1000, 60.0, 1000, 59.999, KeyAge.VALID),
        (1000, 60.0, 1000, 60.0, KeyAge.OVER),
        (1000, 60.0, 60_999, 0.0, KeyAge.VALID),
        (1000, 60.0, 61_000, 0.0, KeyAge.OVER),
        (1000, 60.0, 31_000, 30.0, KeyAge.OVER),
        # The server's clock was set back: how old the key is, nobody knows.
        (1000, 60.0, 999, 0.0, KeyAge.OVER),
    ],
)
def test_a_key_is_known_while_the_last_byte_can_still_arrive_inside_the_window(
    first_ms: int | None, window_s: float | None, now_ms: int, worst_delay_s: float, age: KeyAge
) -> None:
    assert key_age(first_ms, window_s, now_ms, worst_delay_s) is age


# ── for people ───────────────────────────────────────────────────────────────────────────────────────────────────────


def test_every_reason_is_a_sentence_and_says_what_to_do() -> None:
    for why in Why:
        assert why.what.endswith(".")
        assert why.next_step.endswith(".")
        assert why.__doc__ == why.what
    assert len({why.what for why in Why}) == len(Why)
    assert Why["BLIND"] is Why.BLIND
    assert f"{Why.BLIND}" == "blind"


def test_the_table_says_no_to_what_cannot_be_declared() -> None:
    refused, _ = everything()
    for one, why in list(refused.items())[::17]:
        with pytest.raises(ToolDeclarationError) as error:
            one.binding()
        assert error.value.what == why
