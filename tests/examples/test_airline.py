"""The airline: its faults by rule, its lagging look-up, and effects that are on file before the answer begins."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kit.airline import Ground, ground, only, row
from mycelium.examples.airline.airline import BROKEN, HANG_UP, OK, REFUSED, Pace, Reply
from mycelium.examples.airline.faults import Fault, FaultRule
from mycelium.leases.errors import SettingsError

READ = row(tool="get_user_details", arguments='{"user_id": "a"}', result="A")
REFUSAL = row(step=1, result="Error: no")


async def ask(on: Ground, at: int = 0) -> Reply:
    call = on.calls[at]
    return await on.airline.call(call.tool, call.arguments, call.key, "tester")


async def test_a_call_is_answered_as_it_was_recorded(tmp_path: Path) -> None:
    on = ground(tmp_path, [row(), REFUSAL, {**READ, "step": 2}])
    assert [await ask(on, at) for at in range(3)] == [
        Reply.text(OK, '{"status": "cancelled"}'),
        Reply.text(REFUSED, "Error: no"),
        Reply.text(OK, "A"),
    ]
    assert on.number_of_effects == 1


async def test_what_was_not_recorded_is_refused(tmp_path: Path) -> None:
    on = ground(tmp_path, [row()])
    call = on.calls[0]
    for tool, arguments, key in (
        (call.tool, call.arguments, "other"),
        ("send_certificate", call.arguments, call.key),
        (call.tool, {"reservation_id": "XYZ"}, call.key),
        (call.tool, [object()], call.key),
    ):
        assert (await on.airline.call(tool, arguments, key, "")).status == REFUSED
    assert on.number_of_effects == 0


async def test_an_effect_is_on_file_before_the_answer_begins(tmp_path: Path) -> None:
    on = ground(tmp_path, [row()])
    await ask(on)
    assert on.seen_while_waiting == [1]
    (line,) = on.effects.read_text().splitlines()
    assert json.loads(line) | {"at": 0} == {"key": on.calls[0].key, "tool": "cancel_reservation", "at": 0, "n": 1}


async def test_it_does_not_de_duplicate_by_key(tmp_path: Path) -> None:
    on = ground(tmp_path, [row()])
    await ask(on)
    await ask(on)
    assert on.number_of_effects == 2


@pytest.mark.parametrize(
    "fault, first, effects",
    [
        (Fault.SLOW, Reply.text(OK, '{"status": "cancelled"}'), 1),
        (Fault.ERROR_BEFORE, Reply.text(BROKEN, "internal error"), 0),
        (Fault.ERROR_AFTER, Reply.text(BROKEN, "internal error"), 1),
        (Fault.HANG_UP, HANG_UP, 1),
    ],
)
async def test_a_fault_happens_once(tmp_path: Path, fault: Fault, first: Reply, effects: int) -> None:
    on = ground(tmp_path, [row()], only(fault))
    assert await ask(on) == first
    assert on.number_of_effects == effects
    assert (await ask(on)).status == OK
    assert on.number_of_effects == effects + 1


async def test_a_refusal_has_no_effect_whatever_the_fault(tmp_path: Path) -> None:
    on = ground(tmp_path, [REFUSAL], only(Fault.HANG_UP))
    assert await ask(on) == HANG_UP
    assert await ask(on) == Reply.text(REFUSED, "Error: no")
    assert on.number_of_effects == 0


async def test_a_look_up_lags_behind(tmp_path: Path) -> None:
    on = ground(tmp_path, [row()], pace=Pace(lag_s=0.5))
    key = on.calls[0].key
    await ask(on)
    on.clock_s = 0.4
    assert on.airline.look_up(key).body == {"matches": [], "in_progress": False}
    on.clock_s = 0.5
    found = on.airline.look_up(key).body
    assert found["text"] == '{"status": "cancelled"}'
    assert isinstance(found["matches"], list)
    assert len(found["matches"]) == 1


def test_a_look_up_of_nothing_has_no_match(tmp_path: Path) -> None:
    on = ground(tmp_path, [row()])
    assert on.airline.look_up("nothing").body == {"matches": [], "in_progress": False}


def test_faults_are_repeatable_by_seed() -> None:
    keys = [f"key-{number}" for number in range(2000)]
    rule = FaultRule(seed=7)
    faults = [rule.fault_of(key) for key in keys]
    assert [FaultRule(seed=7).fault_of(key) for key in reversed(keys)] == faults[::-1]
    assert [FaultRule(seed=8).fault_of(key) for key in keys] != faults
    assert faults.count(Fault.HANG_UP) / len(keys) == pytest.approx(rule.hang_up, abs=0.02)
    assert set(faults) == set(Fault)


@pytest.mark.parametrize("slow, hang_up", [(-0.1, 0.0), (1.1, 0.0), (float("nan"), 0.0), (0.6, 0.6)])
def test_rates_that_are_no_fractions_are_refused(slow: float, hang_up: float) -> None:
    with pytest.raises(SettingsError, match="fractions"):
        FaultRule(slow=slow, hang_up=hang_up)
