"""The demo's numbers: a planted duplicate, a lost job and a wrong result are found."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from kit.airline import row, write_rows
from mycelium.examples.airline.calls import RecordedCall, read_calls
from mycelium.examples.airline.effects import EffectsFile, count_effects
from mycelium.examples.airline.score import Ended, Ending, Score, score


@pytest.fixture
def calls(tmp_path: Path) -> list[RecordedCall]:
    refusal = row(step=1, result="Error: no")
    read = row(step=2, tool="get_user_details", arguments='{"user_id": "a"}', result="A")
    return read_calls(write_rows(tmp_path / "calls", [row(result="done"), refusal, read]))


def count(calls: list[RecordedCall], effects: Counter[str], **changes: Ending) -> Score:
    """Score endings that are as recorded, but for those of `write`, `refusal` and `read` that are given."""
    good = {
        "write": Ending(Ended.COMPLETED, "done"),
        "refusal": Ending(Ended.REFUSED, "Error: no"),
        "read": Ending(Ended.COMPLETED, "A"),
    }
    endings = dict(zip((call.key for call in calls), {**good, **changes}.values(), strict=True))
    return score(calls, endings, effects, kills=1, seconds=1.26)


def test_all_is_well(calls: list[RecordedCall]) -> None:
    result = count(calls, Counter({calls[0].key: 1}))
    assert result == Score(
        calls=3,
        writes=2,
        completed=2,
        refused=1,
        reconciled=0,
        unknown=0,
        max_effects_per_write=1,
        duplicates=0,
        wrong_results=0,
        lost=0,
        kills=1,
        seconds=1.3,
    )
    assert result.exit_code == 0


def test_a_duplicate_planted_in_the_file_is_found(calls: list[RecordedCall], tmp_path: Path) -> None:
    path = tmp_path / "effects"
    with EffectsFile(path) as file:
        for number in range(3):
            file.append({"key": calls[0].key, "tool": calls[0].tool, "at": 0.0, "n": number + 1})
    result = count(calls, count_effects(path))
    assert (result.max_effects_per_write, result.duplicates, result.exit_code) == (3, 2, 1)


def test_a_call_without_an_ending_is_lost(calls: list[RecordedCall]) -> None:
    result = score(calls, {}, Counter(), kills=0, seconds=0)
    assert (result.lost, result.exit_code) == (3, 1)


def test_unknown_is_told_and_is_no_fault(calls: list[RecordedCall]) -> None:
    result = count(calls, Counter({calls[0].key: 1}), write=Ending(Ended.UNKNOWN))
    assert (result.unknown, result.exit_code) == (1, 0)


def test_a_call_that_the_reconciler_settled_is_counted(calls: list[RecordedCall]) -> None:
    settled = Ending(Ended.COMPLETED, "done", reconciled=True)
    assert count(calls, Counter({calls[0].key: 1}), write=settled).reconciled == 1


@pytest.mark.parametrize(
    "which, ending, effects",
    [
        ("write", Ending(Ended.COMPLETED, "other"), 1),
        ("write", Ending(Ended.COMPLETED, "done"), 0),
        ("write", Ending(Ended.REFUSED, "done"), 0),
        ("write", Ending(Ended.FAILED), 0),
        ("refusal", Ending(Ended.COMPLETED, "Error: no"), 1),
        ("refusal", Ending(Ended.REFUSED, "Error: yes"), 1),
        ("read", Ending(Ended.COMPLETED, "B"), 1),
    ],
)
def test_an_ending_that_does_not_agree_is_wrong(
    calls: list[RecordedCall], which: str, ending: Ending, effects: int
) -> None:
    result = count(calls, Counter({calls[0].key: effects}), **{which: ending})
    assert (result.wrong_results, result.exit_code) == (1, 1)


def test_a_refusal_with_an_effect_is_wrong(calls: list[RecordedCall]) -> None:
    result = count(calls, Counter({calls[0].key: 1, calls[1].key: 1}))
    assert result.wrong_results == 1
