"""A verdict is one of three words, with evidence, and never a boolean."""

from __future__ import annotations

import dataclasses

import pytest

from mycelium.reconcilers.protocol import AsyncReconciler, Lookup, Reconciler
from mycelium.reconcilers.verdict import Verdict, VerdictWord


def test_the_three_words() -> None:
    assert Verdict.completed({"id": 1}, "pi_1") == Verdict(VerdictWord.COMPLETED, {"id": 1}, "pi_1")
    assert Verdict.not_executed("no such key").word is VerdictWord.NOT_EXECUTED
    assert Verdict.unknown("too early").reason == "too early"


@pytest.mark.parametrize("evidence", [None, "", [], {}])
def test_a_definite_verdict_needs_evidence(evidence: object) -> None:
    with pytest.raises(ValueError, match="needs evidence"):
        Verdict.completed(1, evidence)
    with pytest.raises(ValueError, match="needs evidence"):
        Verdict.not_executed(evidence)


def test_a_verdict_has_no_truth_and_does_not_change() -> None:
    verdict = Verdict.unknown("x")
    with pytest.raises(TypeError):
        bool(verdict)
    with pytest.raises(dataclasses.FrozenInstanceError):
        verdict.reason = "y"  # type: ignore[misc]


def test_adapters_are_known_by_what_they_have() -> None:
    class Blocking:
        lag_s = 1.0

        def reconcile(self, lookup: Lookup) -> Verdict:
            return Verdict.unknown(lookup.tool)

    assert isinstance(Blocking(), Reconciler)
    assert not isinstance(Blocking(), AsyncReconciler)
