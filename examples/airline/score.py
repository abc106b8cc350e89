"""What the demo comes to: each call's ending against the recording, and the airline's file of effects against both."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum

from .calls import RecordedCall


class Ended(StrEnum):
    """How one call ended, for the agent that made it."""

    COMPLETED = "completed"
    """It has a result."""
    REFUSED = "refused"
    """The airline refused it: there is no effect."""
    FAILED = "failed"
    """It was given up otherwise."""
    UNKNOWN = "unknown"
    """It is in doubt, and said to be."""
    LOST = "lost"
    """Nothing is known of it: the worst that can happen to a call."""


@dataclass(frozen=True, slots=True)
class Ending:
    """How one call ended.

    Attributes:
        ended: the word.
        text: the result, or the words of the refusal.
        reconciled: whether it was unknown in between, and the provider's word settled it.
    """

    ended: Ended
    text: str = ""
    reconciled: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Score:
    """The numbers of one run of the demo.

    Attributes:
        calls: recorded calls.
        writes: those that have an effect when they succeed.
        completed: calls that ended with a result.
        refused: writes that the airline refused, as it did when they were recorded.
        reconciled: calls that were unknown until the reconciler settled them.
        unknown: calls that are unknown at the end.
        max_effects_per_write: most effects that one write had, counted in the airline's file.
        duplicates: effects beyond the first, summed over all writes: nobody reported one of them.
        wrong_results: calls that ended otherwise than recorded, or whose ending does not agree with the airline's file.
        lost: calls without any ending.
        kills: workers that were killed.
        seconds: from the start of the first process to the end of the last call.
    """

    calls: int
    writes: int
    completed: int
    refused: int
    reconciled: int
    unknown: int
    max_effects_per_write: int
    duplicates: int
    wrong_results: int
    lost: int
    kills: int
    seconds: float

    def as_dict(self) -> dict[str, int | float]:
        """The numbers by name."""
        return asdict(self)

    @property
    def exit_code(self) -> int:
        """1 when a write had more than one effect, a job was lost, or a result is wrong; else 0."""
        return int(self.max_effects_per_write > 1 or self.lost > 0 or self.wrong_results > 0)


def score(
    calls: Sequence[RecordedCall],
    endings: Mapping[str, Ending],
    effects: Counter[str],
    *,
    kills: int,
    seconds: float,
) -> Score:
    """Count.

    Args:
        calls: what was recorded.
        endings: how each ended, by key; a call without an ending is lost.
        effects: effects by key, from the airline's file.
        kills: workers that were killed.
        seconds: how long it took.
    """
    ended = [endings.get(call.key, Ending(Ended.LOST)) for call in calls]
    words = Counter(ending.ended for ending in ended)
    return Score(
        calls=len(calls),
        writes=sum(call.is_write for call in calls),
        completed=words[Ended.COMPLETED],
        refused=words[Ended.REFUSED],
        reconciled=sum(ending.reconciled for ending in ended),
        unknown=words[Ended.UNKNOWN],
        max_effects_per_write=max(effects.values(), default=0),
        duplicates=sum(number - 1 for number in effects.values()),
        wrong_results=sum(_is_wrong(*pair, effects) for pair in zip(calls, ended, strict=True)),
        lost=words[Ended.LOST],
        kills=kills,
        seconds=round(seconds, 1),
    )


def _is_wrong(call: RecordedCall, ending: Ending, effects: Counter[str]) -> bool:
    match ending.ended:
        case Ended.COMPLETED:
            unfounded = call.is_write and not effects[call.key]
            return call.is_refused or unfounded or ending.text != call.result
        case Ended.REFUSED:
            return not call.is_refused or effects[call.key] > 0 or ending.text != call.result
        case Ended.FAILED:
            return True
        case Ended.UNKNOWN | Ended.LOST:
            return False
