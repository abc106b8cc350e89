"""Made-up calls for tests of the airline, and the airline with a clock that a test moves."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from mycelium.examples.airline.airline import Airline, Pace
from mycelium.examples.airline.calls import RecordedCall, bundled_calls, read_calls
from mycelium.examples.airline.effects import EffectsFile, count_effects
from mycelium.examples.airline.faults import Fault, FaultRule

SOUND = FaultRule(slow=0, error_before=0, error_after=0, hang_up=0)


def row(**changes: object) -> dict[str, object]:
    """A line of a recording, as a mapping."""
    whole: dict[str, object] = {
        "run_id": "run-1",
        "step": 0,
        "tool_call_id": "call_1",
        "tool": "cancel_reservation",
        "arguments": '{"reservation_id": "ABC123"}',
        "result": '{"status": "cancelled"}',
    }
    return {**whole, **changes}


def write_rows(path: Path, rows: Sequence[object]) -> Path:
    """Write a recording; text is written as it is."""
    path.write_text("".join(f"{each if isinstance(each, str) else json.dumps(each)}\n" for each in rows))
    return path


def first_runs(path: Path, number: int) -> Path:
    """Write the first runs of the recording that ships with the package."""
    lines = bundled_calls().read_text(encoding="utf-8").splitlines()
    names = list(dict.fromkeys(json.loads(line)["run_id"] for line in lines))[:number]
    return write_rows(path, [line for line in lines if json.loads(line)["run_id"] in names])


def only(fault: Fault) -> FaultRule:
    """A rule by which every write meets one fault."""
    return FaultRule(
        slow=float(fault is Fault.SLOW),
        error_before=float(fault is Fault.ERROR_BEFORE),
        error_after=float(fault is Fault.ERROR_AFTER),
        hang_up=float(fault is Fault.HANG_UP),
    )


@dataclass
class Ground:
    """An airline, its file, and what it looked like whenever the airline waited."""

    calls: list[RecordedCall]
    airline: Airline
    effects: Path
    clock_s: float = 0.0
    seen_while_waiting: list[int] = field(default_factory=list)

    @property
    def number_of_effects(self) -> int:
        """Effects in the file."""
        return count_effects(self.effects).total()


def ground(directory: Path, rows: Sequence[object], rule: FaultRule = SOUND, pace: Pace | None = None) -> Ground:
    """Make an airline that never really waits."""
    calls = read_calls(write_rows(directory / "calls.jsonl", rows))
    made: list[Ground] = []

    async def pause(_: float) -> None:
        made[0].seen_while_waiting.append(made[0].number_of_effects)

    effects = directory / "effects.jsonl"
    airline = Airline(
        calls, EffectsFile(effects), rule=rule, pace=pace or Pace(), now_s=lambda: made[0].clock_s, pause=pause
    )
    made.append(Ground(calls, airline, effects))
    return made[0]
