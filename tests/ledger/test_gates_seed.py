"""Another system's gates, replayed: half of an exhaustive enumeration of its resolver against ours.

Its words are translated by the tables below. Where the two differ, the difference is one of the listed classes, each
with the reason why ours is what it is (docs/gates.md); what is in no class fails, and so does a class without instance.
"""

from __future__ import annotations

import csv
import gzip
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

from mycelium.leases.errors import ToolDeclarationError
from mycelium.ledger.binding import Binding
from mycelium.ledger.gates import RowView, key_match, resolve
from mycelium.ledger.ruling import Ruling, Why
from mycelium.ledger.states import (
    Boundary,
    BoundaryMode,
    EffectClass,
    Gate,
    KeyAge,
    Liveness,
    RetryPermission,
    Spendability,
    State,
)

DATA = Path(__file__).parent / "seed_gates.csv.gz"


class Row(NamedTuple):
    """One line of the enumeration, in its own words; `none` is a key or a TTL that is not there."""

    cls: str
    retry: str
    spend: str
    outcome: str
    boundary: str
    lease: str
    param: str
    stored_key: str
    incoming_key: str
    ttl: str
    gate: str


# ── its words in ours ────────────────────────────────────────────────────────────────────────────────────────────────

STATE = {
    "COMPLETED": State.COMPLETED,
    "IN_FLIGHT": State.ATTEMPTING,
    "EXPIRED": State.ATTEMPTING,
    "FAILED_BEFORE_EFFECT": State.FAILED,
    "FAILED_AFTER_EFFECT": State.UNKNOWN,
    "BLOCKED": State.UNKNOWN,
    "UNKNOWN": State.UNKNOWN,
}
LIVENESS = {"held": Liveness.HELD, "unbounded": Liveness.HELD, "expired": Liveness.DEAD}
"""Of what is in flight. What is stored as EXPIRED is dead, and what has an outcome is held by nobody."""
AGE = {"none": KeyAge.UNTRACKED, "valid": KeyAge.VALID, "expired": KeyAge.OVER}


def _key(word: str) -> str | None:
    return None if word == "none" else word


@cache
def binding_of(declared: tuple[str, str, str, str, str], mode: BoundaryMode) -> Binding | None:
    """The declaration in ours, or None where ours refuses it. A read's key is left out: nothing ever looks at it."""
    cls, retry, spend, param, ttl = declared
    read = cls == EffectClass.READ
    keyed = param == "True" and not read
    try:
        return Binding(
            effect_class=EffectClass(cls),
            boundary_mode=BoundaryMode.NONE if read else mode,
            retry_permission=RetryPermission(retry),
            spendability=Spendability(spend),
            key_param="key" if keyed else None,
            key_window_s=60.0 if keyed and ttl != "none" else None,
        )
    except ToolDeclarationError:
        return None


def ours(row: Row, binding: Binding) -> Ruling:
    """Our gate for the same row."""
    nobody = row.outcome not in {"IN_FLIGHT", "EXPIRED"}
    view = RowView(
        state=STATE[row.outcome],
        boundary=Boundary(row.boundary),
        effect_class=binding.effect_class,
        boundary_mode=BoundaryMode(str(binding.boundary_mode)),
        again=binding.again,
        doubt=False,
        worn_out=False,
        intact=True,
    )
    liveness = Liveness.DEAD if row.outcome == "EXPIRED" else LIVENESS[row.lease]
    key = key_match(binding.key_param is not None, _key(row.stored_key), _key(row.incoming_key), propagate=False)
    return resolve(view, binding, Liveness.NOBODY if nobody else liveness, key, AGE[row.ttl])


# ── where the two differ ─────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class Difference:
    """A class of difference: how it is told, and why ours is what it is."""

    name: str
    reason: str
    holds: Callable[[Row, Ruling], bool]


DIFFERENCES: list[Difference] = [
    Difference(
        "a read is judged as a read",
        "The enumeration puts reads through the rules for writes. A read has no effect: it is reclaimed.",
        lambda row, ruling: row.cls == "read" and ruling == Ruling(Gate.RECLAIM, Why.READ),
    ),
    Difference(
        "an unknown read is blocked softly",
        "The same for a read that ended nobody knows how: run again by default, refused for who asks for that.",
        lambda row, ruling: row.cls == "read" and ruling == Ruling(Gate.SOFT_BLOCK, Why.READ_UNKNOWN),
    ),
    Difference(
        "an idempotent write runs again",
        "Its class promises that running it again changes nothing, so a death after the mark needs no person.",
        lambda row, ruling: (
            (row.gate, row.cls, row.spend) == ("HARD_BLOCK", "idempotent_mutate", "multi_use")
            and ruling == Ruling(Gate.ALLOW, Why.REPEATABLE)
        ),
    ),
    Difference(
        "nothing was sent",
        "A tool that marks for itself and had not marked sent nothing: a mark that comes late is refused by its fence.",
        lambda row, ruling: (
            (row.gate, row.boundary) == ("HARD_BLOCK", "not_crossed")
            and row.outcome in {"IN_FLIGHT", "EXPIRED"}
            and ruling == Ruling(Gate.ALLOW, Why.NOTHING_SENT)
        ),
    ),
    Difference(
        "a failure past its mark is proved",
        "We write `failed` past the mark only on proof that no effect exists; what is not proved is `unknown`.",
        lambda row, ruling: (
            (row.gate, row.outcome) == ("HARD_BLOCK", "FAILED_BEFORE_EFFECT")
            and row.boundary != "not_crossed"
            and ruling == Ruling(Gate.ALLOW, Why.FAILED_BEFORE)
        ),
    ),
    Difference(
        "the same key inside its window",
        "All that may have been sent is one state to us, and the key protects all of it while its window lasts.",
        lambda row, ruling: (
            (row.gate, row.cls, row.ttl) == ("HARD_BLOCK", "keyed_mutate", "valid")
            and row.outcome != "UNKNOWN"
            and row.stored_key == row.incoming_key != "none"
            and ruling == Ruling(Gate.ALLOW, Why.SAME_KEY)
        ),
    ),
]

ORDER = {
    "retry": [permission.value for permission in RetryPermission],
    "spend": [spendability.value for spendability in Spendability],
}
LAXEST = {
    "idempotent_mutate": ("safe_retry", "multi_use"),
    "keyed_mutate": ("retry_only_with_same_provider_idempotency_key", "single_use"),
    "non_idempotent_mutate": ("manual_reconciliation_required", "single_use"),
    "irreversible": ("never_retry_automatically", "non_replayable"),
}


def _laxer(row: Row) -> bool:
    if row.cls not in LAXEST:
        return False
    retry, spend = LAXEST[row.cls]
    laxer_retry = ORDER["retry"].index(row.retry) < ORDER["retry"].index(retry)
    return laxer_retry or ORDER["spend"].index(row.spend) < ORDER["spend"].index(spend)


REFUSED: Mapping[str, tuple[str, Callable[[Row], bool]]] = {
    "a read is tightened": (
        "A read has no effect to protect; what has one is no read.",
        lambda row: row.cls == "read" and (row.retry, row.spend) != ("safe_retry", "multi_use"),
    ),
    "laxer than the class": (
        "A class is a promise about what a second run does: its permission and spendability may only be tightened.",
        _laxer,
    ),
    "same key without a keyed class": (
        "Only a keyed_mutate has a provider that de-duplicates by key.",
        lambda row: (row.cls, row.retry) == ("idempotent_mutate", "retry_only_with_same_provider_idempotency_key"),
    ),
    "a window of what is never sent again": (
        "An irreversible effect is never sent again, so a key window promises what does not happen.",
        lambda row: (row.cls, row.param) == ("irreversible", "True") and row.ttl != "none",
    ),
}


@cache
def read_rows() -> list[Row]:
    with gzip.open(DATA, "rt", encoding="utf-8", newline="") as file:
        return [Row(**line) for line in csv.DictReader(file)]


def replay(*, refused: bool = False) -> Iterator[tuple[Row, Binding | None]]:
    """Each row with its declaration in ours, once for each boundary mode."""
    for row in read_rows():
        for mode in (BoundaryMode.AUTOMATIC, BoundaryMode.EXPLICIT):
            binding = binding_of((row.cls, row.retry, row.spend, row.param, row.ttl), mode)
            if (binding is None) == refused:
                yield row, binding


def differing() -> Iterator[tuple[Row, Ruling]]:
    for row, binding in replay():
        assert binding is not None
        ruling = ours(row, binding)
        if ruling.gate != row.gate:
            yield row, ruling


def test_every_gate_is_theirs_or_differs_for_a_listed_reason() -> None:
    unlisted = [
        (row, ruling) for row, ruling in differing() if sum(kind.holds(row, ruling) for kind in DIFFERENCES) != 1
    ]
    assert unlisted == []


def test_every_declaration_that_we_refuse_is_refused_for_a_listed_reason() -> None:
    refused = [row for row, _ in replay(refused=True)]
    assert [row for row in refused if not any(holds(row) for _, holds in REFUSED.values())] == []
    accepted = [row for row, _ in replay()]
    assert [row for row in accepted if any(holds(row) for _, holds in REFUSED.values())] == []


def test_every_listed_reason_has_its_instances() -> None:
    assert len(read_rows()) == 12_960
    found = Counter(kind.name for row, ruling in differing() for kind in DIFFERENCES if kind.holds(row, ruling))
    refused = Counter(name for row, _ in replay(refused=True) for name, (_, holds) in REFUSED.items() if holds(row))
    assert set(found) == {kind.name for kind in DIFFERENCES}
    assert set(refused) == set(REFUSED)


def test_no_difference_lets_a_write_through_that_may_be_a_second_effect() -> None:
    for row, ruling in differing():
        if row.cls in {"non_idempotent_mutate", "irreversible"}:
            assert ruling.why is Why.NOTHING_SENT, row


@pytest.mark.parametrize("name", [*(kind.name for kind in DIFFERENCES), *REFUSED])
def test_every_difference_is_told_in_the_documents(name: str) -> None:
    told = (Path(__file__).parents[2] / "docs" / "gates.md").read_text(encoding="utf-8")
    assert f"| {name} |" in told
