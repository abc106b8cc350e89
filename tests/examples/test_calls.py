"""The recording that ships, and the errors of files that are none."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from kit.airline import row, write_rows
from mycelium.examples.airline.calls import bundled_calls, by_run, read_calls
from mycelium.leases.errors import SettingsError


def test_the_recording_that_ships_is_whole() -> None:
    calls = read_calls(bundled_calls())
    assert (len(calls), len(by_run(calls))) == (777, 122)
    assert sum(call.is_write for call in calls) == 209
    assert sum(call.is_refused for call in calls) == 57
    assert len({call.key for call in calls}) == 777


def test_its_source_and_licence_are_beside_it() -> None:
    text = bundled_calls().with_name("SOURCE.md").read_text(encoding="utf-8")
    assert "sierra-research/tau-bench" in text
    assert "Copyright (c) 2024 Sierra" in text
    assert "Permission is hereby granted" in text


def test_equal_calls_of_one_step_are_told_apart_by_their_place(tmp_path: Path) -> None:
    calls = read_calls(write_rows(tmp_path / "calls", [row(), row(tool_call_id="other"), row(step=1)]))
    assert [call.ordinal for call in calls] == [0, 1, 0]
    assert len({call.key for call in calls}) == 3


def test_the_models_id_is_no_part_of_the_identity(tmp_path: Path) -> None:
    one = read_calls(write_rows(tmp_path / "one", [row()]))
    other = read_calls(write_rows(tmp_path / "other", [row(tool_call_id="call_2")]))
    assert one[0].key == other[0].key


def test_blank_lines_are_passed_over_and_still_counted(tmp_path: Path) -> None:
    calls = read_calls(write_rows(tmp_path / "calls", ["", row(), "   ", row(step=1)]))
    assert [call.line for call in calls] == [2, 4]


WITHOUT_STEP = {name: value for name, value in row().items() if name != "step"}


@pytest.mark.parametrize(
    "line, says",
    [
        ("{", "line 2 is not JSON"),
        ("[1]", "line 2 is not a JSON object"),
        ("[" * 100_000, "line 2 is nested too deep"),
        (WITHOUT_STEP, "line 2: step missing"),
        (row(step="0"), "line 2: step is not a whole number"),
        (row(step=True), "line 2: step is not a whole number"),
        (row(step=-1), "line 2: .*step is not a whole number from 0"),
        (row(run_id=7), "line 2: run_id is not text"),
        (row(run_id=" "), "line 2: .*run_id is blank"),
        (row(run_id="r" * 2000), "line 2: .*run_id is longer than"),
        (row(tool="fly"), "line 2: There is no tool 'fly'"),
        (row(arguments={"reservation_id": "ABC123"}), "line 2: arguments is not text"),
        (row(arguments="{"), "line 2: arguments is not JSON"),
        (row(arguments="[]"), "line 2: arguments is not a JSON object"),
        (row(arguments="{}"), "line 2: .*reservation_id"),
        (row(arguments='{"reservation_id": "A", "more": 1}'), "line 2: .*no such parameter"),
        (row(tool="send_certificate", arguments='{"user_id": "a", "amount": NaN}'), "line 2: .*amount"),
        (row(arguments='{"reservation_id": "\\ud800"}'), "line 2: .*surrogate|line 2: .*reservation_id"),
    ],
)
def test_a_line_that_is_no_call_is_named(tmp_path: Path, line: object, says: str) -> None:
    path = write_rows(tmp_path / "calls", [row(), line])
    with pytest.raises(SettingsError) as caught:
        read_calls(path)
    assert re.search(says, caught.value.what), caught.value.what
    assert "Nothing was started" in caught.value.next_step


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    (tmp_path / "binary").write_bytes(b'{"run_id": "\xff"}')
    (tmp_path / "empty").touch()
    for name, says in (
        ("absent", "No such file"),
        ("binary", "not UTF-8"),
        ("empty", "has no calls"),
        (".", "directory"),
    ):
        with pytest.raises(SettingsError, match=says):
            read_calls(tmp_path / name)
