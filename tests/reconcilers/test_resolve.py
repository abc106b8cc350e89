"""What may be concluded from a provider's answer: the rules of R2 to R4 and E6, as a table."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from typing import Any, cast

import pytest

from mycelium.ledger.states import EffectClass
from mycelium.ledger.verdict import Doubt, Said
from mycelium.reconcilers.resolve import AskedTool, ResolveSettings, conclude
from mycelium.reconcilers.verdict import Verdict

SETTINGS = ResolveSettings(presumed_dead_s=30.0, first_s=0.5, at_most_s=300.0)
TOOL = AskedTool(lag_s=5.0, timeout_s=10.0)
KEYED = AskedTool(lag_s=5.0, timeout_s=10.0, key_window_s=3600.0)
DOUBT = Doubt(
    request_id="r",
    fence="7",
    tool="charge",
    effect_class=EffectClass.NON_IDEMPOTENT_MUTATE,
    effect_id="e",
    attempt=1,
    ref="",
    unknown_for_ms=1_000,
    ended=True,
    asks=0,
    age_ms=2_000,
    key="",
    args=b"{}",
)
ABSENT = Verdict.not_executed({"matches": 0})
PRESENT = Verdict.completed({"id": "ch_1"}, {"matches": ["ch_1"]})
SILENT = Verdict.unknown("timeout")


def test_an_effect_that_was_seen_completes_at_once_whatever_the_lag() -> None:
    found = conclude(DOUBT, PRESENT, TOOL, SETTINGS)
    assert (found.said, found.body, found.evidence) == (Said.COMPLETED, b'{"id":"ch_1"}', '{"matches":["ch_1"]}')


@pytest.mark.parametrize(
    "ended, unknown_for_ms, said, ask_again_s",
    [
        (True, 0, Said.UNKNOWN, 5.0),
        (True, 4_999, Said.UNKNOWN, 0.001),
        (True, 5_000, Said.NOT_EXECUTED, 0.0),
        (False, 5_000, Said.UNKNOWN, 30.0),
        (False, 34_999, Said.UNKNOWN, 0.001),
        (False, 35_000, Said.NOT_EXECUTED, 0.0),
    ],
)
def test_absence_proves_something_only_after_the_lag_and_when_the_old_attempt_can_send_no_more(
    *, ended: bool, unknown_for_ms: int, said: Said, ask_again_s: float
) -> None:
    doubt = replace(DOUBT, ended=ended, unknown_for_ms=unknown_for_ms)
    found = conclude(doubt, ABSENT, TOOL, SETTINGS)
    assert found.said is said
    assert found.ask_again_s == pytest.approx(ask_again_s)


def test_a_call_that_may_take_longer_than_the_presumption_of_death_is_waited_for() -> None:
    slow = AskedTool(lag_s=5.0, timeout_s=600.0)
    doubt = replace(DOUBT, ended=False, unknown_for_ms=100_000)
    found = conclude(doubt, ABSENT, slow, SETTINGS)
    assert found.said is Said.UNKNOWN
    assert found.ask_again_s == pytest.approx(505.0)


@pytest.mark.parametrize("asks, again_s", [(0, 0.5), (1, 1.0), (5, 16.0), (10, 300.0), (10_000, 300.0)])
def test_what_cannot_be_told_is_asked_again_ever_more_seldom(asks: int, again_s: float) -> None:
    found = conclude(replace(DOUBT, asks=asks), SILENT, TOOL, SETTINGS)
    assert (found.said, found.ask_again_s) == (Said.UNKNOWN, again_s)


@pytest.mark.parametrize(
    "change, tool, said",
    [
        ({}, KEYED, Said.RESEND),
        ({"effect_class": EffectClass.NON_IDEMPOTENT_MUTATE}, KEYED, Said.UNKNOWN),
        ({"effect_class": EffectClass.IRREVERSIBLE}, KEYED, Said.UNKNOWN),
        ({}, TOOL, Said.UNKNOWN),
        ({"age_ms": 3_589_999}, KEYED, Said.RESEND),
        ({"age_ms": 3_590_000}, KEYED, Said.UNKNOWN),
        ({"age_ms": -1}, KEYED, Said.UNKNOWN),  # the clock was set back: nobody can say how old the key is
        ({"ended": False}, KEYED, Said.UNKNOWN),
        ({"unknown_for_ms": 4_000}, KEYED, Said.UNKNOWN),
    ],
)
def test_only_a_keyed_call_inside_its_declared_window_is_sent_again_by_itself(
    change: dict[str, object], tool: AskedTool, said: Said
) -> None:
    keyed = replace(DOUBT, effect_class=EffectClass.KEYED_MUTATE, unknown_for_ms=5_000)
    doubt = replace(keyed, **cast("Any", change))
    assert conclude(doubt, SILENT, tool, SETTINGS).said is said


def test_a_keyed_call_that_its_provider_knows_is_not_sent_again() -> None:
    doubt = replace(DOUBT, effect_class=EffectClass.KEYED_MUTATE, unknown_for_ms=5_000)
    assert conclude(doubt, PRESENT, KEYED, SETTINGS).said is Said.COMPLETED


class Mute:
    def __str__(self) -> str:
        raise AssertionError


CIRCULAR: list[object] = []
CIRCULAR.append(CIRCULAR)
NO_JSON = [Decimal("1.5"), float("nan"), float("inf"), {1, 2}, b"x", {(1, 2): 3}, "\ud800", Mute(), CIRCULAR]


@pytest.mark.parametrize("result", [*NO_JSON, {"a": [Decimal(1)]}], ids=lambda value: type(value).__name__)
def test_a_result_that_json_cannot_hold_completes_nothing_and_nothing_is_put_in_its_place(result: object) -> None:
    keyed = replace(DOUBT, effect_class=EffectClass.KEYED_MUTATE, unknown_for_ms=5_000, asks=1)
    found = conclude(keyed, Verdict.completed(result, {"id": "ch_1"}), KEYED, SETTINGS)
    assert (found.said, found.body, found.ask_again_s) == (Said.UNKNOWN, b"", 1.0)
    assert found.evidence == "the adapter's result cannot be kept"


@pytest.mark.parametrize("evidence", NO_JSON, ids=lambda value: type(value).__name__)
@pytest.mark.parametrize("said", [Said.COMPLETED, Said.NOT_EXECUTED])
def test_of_evidence_that_json_cannot_hold_the_type_is_told(evidence: object, said: Said) -> None:
    seen = Verdict.completed(None, evidence) if said is Said.COMPLETED else Verdict.not_executed(evidence)
    found = conclude(replace(DOUBT, unknown_for_ms=5_000), seen, TOOL, SETTINGS)
    assert (found.said, found.evidence) == (said, f'"<{type(evidence).__name__}>"')


def test_what_json_can_hold_is_told_beside_it() -> None:
    found = conclude(DOUBT, Verdict.completed(1, {"id": "ch_1", "amount": Decimal(5)}), TOOL, SETTINGS)
    assert found.evidence == '{"id":"ch_1","amount":"<Decimal>"}'


def test_a_reason_is_kept_short_and_as_text() -> None:
    found = conclude(DOUBT, Verdict.unknown("\ud800" + "x" * 300), TOOL, SETTINGS)
    assert (len(found.evidence), found.evidence[:7]) == (200, "\\ud800x")
