"""The whole product of what a tool can declare and how a row can stand, and the gate of each: as a table for people.

.venv/bin/python tests/kit/gates.py > tests/ledger/gates_table.txt
"""

from __future__ import annotations

import functools
import itertools
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from mycelium.leases.errors import ToolDeclarationError
from mycelium.ledger.binding import Binding
from mycelium.ledger.gates import RowView, resolve
from mycelium.ledger.ruling import Ruling
from mycelium.ledger.states import (
    Boundary,
    BoundaryMode,
    Capability,
    EffectClass,
    KeyAge,
    KeyMatch,
    Liveness,
    RetryPermission,
    Spendability,
    State,
)

MECHANISMS: Mapping[str, Mapping[str, Any]] = {
    "nothing": {},
    "reconciler": {"reconcilable": True},
    "key": {"key_param": "key"},
    "window": {"key_param": "key", "key_window_s": 60.0},
}
"""What there is to ask or to de-duplicate by."""
PAST: Mapping[str, Mapping[str, bool]] = {
    "plain": {},
    "doubt": {"doubt": True},
    "worn_out": {"worn_out": True},
    "not_again": {"again": False},
}
"""What else the row says: an earlier attempt in doubt, deaths used up, declared not to repeat when it was granted."""


class Declared(NamedTuple):
    """One combination of what a tool can declare."""

    effect_class: EffectClass
    capability: Capability
    spendability: Spendability
    permission: RetryPermission
    mechanism: str

    def binding(self) -> Binding:
        """Make it, or raise what the binding raises."""
        return Binding(
            effect_class=self.effect_class,
            capability=self.capability,
            spendability=self.spendability,
            retry_permission=self.permission,
            **MECHANISMS[self.mechanism],
        )


class Cell(NamedTuple):
    """One way in which a row can stand and be called again."""

    state: State
    liveness: Liveness
    past: str
    mode: BoundaryMode
    boundary: Boundary
    key: KeyMatch
    age: KeyAge

    def view(self, effect_class: EffectClass) -> RowView:
        """The row of it."""
        facts = {"again": True, "doubt": False, "worn_out": False, **PAST[self.past]}
        return RowView(
            state=self.state,
            boundary=self.boundary,
            effect_class=effect_class,
            boundary_mode=self.mode,
            intact=True,
            **facts,
        )


@dataclass(frozen=True)
class Behaviour:
    """What all of `who` have in common: for each of `cells` the same ruling."""

    who: tuple[Declared, ...]
    cells: tuple[Cell, ...]
    rulings: tuple[Ruling, ...]

    def items(self) -> Iterator[tuple[Cell, Ruling]]:
        """Cells and rulings, side by side."""
        return zip(self.cells, self.rulings, strict=True)


def every_declaration() -> Iterator[Declared]:
    """The whole product, what is refused included."""
    axes = itertools.product(EffectClass, Capability, Spendability, RetryPermission, MECHANISMS)
    return (Declared(*values) for values in axes)


def cells_of(effect_class: EffectClass, mechanism: str) -> tuple[Cell, ...]:
    """Every way in which a row of such a tool can stand."""
    read = effect_class is EffectClass.READ
    modes = [BoundaryMode.NONE] if read else [BoundaryMode.AUTOMATIC, BoundaryMode.EXPLICIT]
    keyed = "key_param" in MECHANISMS[mechanism]
    keys = [KeyMatch.SAME, KeyMatch.DIFFERENT, KeyMatch.MISSING] if keyed else [KeyMatch.NOT_DECLARED]
    ages = list(KeyAge) if "key_window_s" in MECHANISMS[mechanism] else [KeyAge.UNTRACKED]
    axes = itertools.product(State, Liveness, PAST, modes, Boundary, keys, ages)
    return tuple(Cell(*values) for values in axes)


def rulings_of(binding: Binding, cells: Sequence[Cell]) -> tuple[Ruling, ...]:
    """What the resolver says of each."""
    views = {(c.state, c.past, c.mode, c.boundary): c.view(binding.effect_class) for c in cells}
    return tuple(resolve(views[c.state, c.past, c.mode, c.boundary], binding, c.liveness, c.key, c.age) for c in cells)


@functools.cache
def everything() -> tuple[dict[Declared, str], list[Behaviour]]:
    """What is refused, with the sentence; and all else, gathered by what it does."""
    refused: dict[Declared, str] = {}
    same: dict[tuple[tuple[Cell, ...], tuple[Ruling, ...]], list[Declared]] = {}
    cells: dict[tuple[EffectClass, str], tuple[Cell, ...]] = {}
    for declared in every_declaration():
        try:
            binding = declared.binding()
        except ToolDeclarationError as error:
            refused[declared] = error.what
            continue
        place = declared.effect_class, declared.mechanism
        cells[place] = cells.get(place) or cells_of(*place)
        same.setdefault((cells[place], rulings_of(binding, cells[place])), []).append(declared)
    return refused, [Behaviour(tuple(who), *rest) for rest, who in same.items()]


# ── as text ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def lines(leaves: Mapping[tuple[str, ...], str], depth: int) -> list[tuple[tuple[str, ...], str]]:
    """Fold a full product into few lines: values of an axis that lead to the same are one, and all are `*`."""
    if depth == 0:
        return [((), next(iter(leaves.values())))]
    by_value: dict[str, dict[tuple[str, ...], str]] = {}
    for path, leaf in leaves.items():
        by_value.setdefault(path[0], {})[path[1:]] = leaf
    folded: dict[tuple[tuple[tuple[str, ...], str], ...], list[str]] = {}
    for value, below in by_value.items():
        folded.setdefault(tuple(lines(below, depth - 1)), []).append(value)
    found: list[tuple[tuple[str, ...], str]] = []
    for rest, values in folded.items():
        name = "*" if len(folded) == 1 else "|".join(values)
        found += [((name, *path), leaf) for path, leaf in rest]
    return found


_SHORT: Mapping[object, str] = {
    RetryPermission.SAME_KEY: "same_key",
    RetryPermission.MANUAL: "manual",
    RetryPermission.NEVER: "never",
}


def _written(path: Sequence[object]) -> tuple[str, ...]:
    return tuple(_SHORT.get(value, str(value)) for value in path)


def _block(leaves: Mapping[tuple[str, ...], str], indent: str = "  ", only: str = "") -> list[str]:
    """Folded and aligned; with `only`, the lines of that leaf, without it."""
    folded = [(path, leaf) for path, leaf in lines(leaves, len(next(iter(leaves)))) if only in {"", leaf}]
    widths = [max(len(path[at]) for path, _ in folded) for at in range(len(folded[0][0]))]
    text = ["  ".join(word.ljust(width) for word, width in zip(path, widths, strict=True)) for path, _ in folded]
    return [f"{indent}{words}  {'' if only else leaf}".rstrip() for words, (_, leaf) in zip(text, folded, strict=True)]


def _who(who: Sequence[Declared], accepted: Sequence[Declared]) -> list[str]:
    """The declarations of a behaviour, folded: each line is a product that lies wholly in it."""
    inside = set(who)
    return _block({_written(one): "yes" if one in inside else "no" for one in accepted}, "  : ", only="yes")


def _decided_by_state(behaviours: Sequence[Behaviour]) -> dict[State, str]:
    """The states that alone decide, whatever is declared."""
    said: dict[State, set[str]] = {}
    for behaviour in behaviours:
        for cell, ruling in behaviour.items():
            said.setdefault(cell.state, set()).add(f"{ruling.gate} {ruling.why}")
    return {state: words.pop() for state, words in said.items() if len(words) == 1}


def table() -> str:
    """All of it."""
    refused, behaviours = everything()
    alone = _decided_by_state(behaviours)
    text = [
        "Every combination of what a tool can declare and how its row can stand, and the gate that it gets.",
        "Made by `.venv/bin/python tests/kit/gates.py > tests/ledger/gates_table.txt`; a test compares.",
        "A line holds for every value that it names; `*` is every value that is left.",
        "Columns: state, liveness, what else the row says, boundary mode, boundary, key, its age; gate and why.",
        "",
        f"REFUSED: {len(refused)} declarations, by class, capability, spendability, retry permission, mechanism",
        *_block({_written(one): refused.get(one, "-") for one in every_declaration()}),
        "",
        "ALWAYS",
        *_block({(state,): words for state, words in alone.items()}),
    ]
    text = [line for line in text if not line.endswith("  -")]
    accepted = [one for one in every_declaration() if one not in refused]
    blocks: dict[tuple[str, ...], list[Declared]] = {}
    for behaviour in behaviours:
        leaves = {_written(c): f"{r.gate} {r.why}" for c, r in behaviour.items() if c.state not in alone}
        blocks.setdefault(tuple(_block(leaves)), []).extend(behaviour.who)
    for number, (block, who) in enumerate(blocks.items(), 1):
        text += ["", f"BEHAVIOUR {number}: {len(who)} declarations", *_who(who, accepted), *block]
    return "\n".join(text) + "\n"


if __name__ == "__main__":
    sys.stdout.write(table())
