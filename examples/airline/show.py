"""The whole demo in one function: stage, workers, replay, kills, score."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path

from ...leases.errors import SettingsError
from .calls import read_calls
from .effects import count_effects
from .guarded import Guarded
from .replay import Replay, Tell
from .score import Score, score
from .stage import Stage
from .unguarded import Unguarded

WORKERS = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What is shown.

    Attributes:
        calls: the recording.
        directory: where data, effects and logs go; must have no effects in it.
        seed: of the airline's faults.
        kills: workers killed on the way.
        guarded: by the product, or the naive way.

    Raises:
        SettingsError: the number of kills is negative.
    """

    calls: Path
    directory: Path
    seed: int = 0
    kills: int = 1
    guarded: bool = True

    def __post_init__(self) -> None:
        """Refuse what cannot be done."""
        if self.kills < 0:
            raise SettingsError(f"The number of kills is {self.kills}.", next_step="Give 0 or more.")


async def perform(plan: Plan, tell: Tell) -> Score:
    """Show it, and count effects in the airline's own file.

    Args:
        plan: what is shown.
        tell: hears of progress.

    Raises:
        SettingsError: the calls file is not one; nothing was started.
        MyceliumError: a process ended by itself; the text names its log.
    """
    calls = read_calls(plan.calls)
    began_s = time.monotonic()
    async with Stage(plan.directory) as stage:
        await stage.start_server()
        await stage.start_airline(plan.calls, seed=plan.seed)
        async with Guarded(stage.server_url) if plan.guarded else Unguarded(stage.server_url) as way:
            replay = Replay(stage, way, calls, kills=plan.kills, tell=tell)
            endings = await replay.run(workers=WORKERS)
        seconds = time.monotonic() - began_s
    effects = count_effects(stage.effects)
    return score(calls, endings, effects, kills=replay.tally.killed, seconds=seconds)
