"""Back-off grows to its ceiling, with full jitter from the source of chance that it is given."""

from __future__ import annotations

from itertools import islice
from random import Random

import pytest

from mycelium.actors.runtime import Backoff
from mycelium.leases.errors import SettingsError


def test_ceilings_double_up_to_the_highest() -> None:
    backoff = Backoff(first_s=0.1, factor=2.0, most_s=0.5)
    assert [backoff.ceiling_s(attempt) for attempt in range(4)] == [0.1, 0.2, 0.4, 0.5]
    assert backoff.ceiling_s(10**9) == 0.5


def test_delays_lie_between_zero_and_their_ceiling_and_are_spread() -> None:
    backoff = Backoff(first_s=1.0, factor=2.0, most_s=8.0)
    delays = list(islice(backoff.delays(Random(1)), 200))
    assert all(0 <= delay <= backoff.ceiling_s(attempt) for attempt, delay in enumerate(delays))
    assert min(delays[10:]) < 1.0
    assert max(delays[10:]) > 7.0


def test_the_same_seed_gives_the_same_delays() -> None:
    backoff = Backoff()
    assert list(islice(backoff.delays(Random(3)), 9)) == list(islice(backoff.delays(Random(3)), 9))


@pytest.mark.parametrize("first_s, factor, most_s", [(-1, 2, 1), (1, 0.5, 2), (3, 2, 1)])
def test_settings_that_contradict_each_other_are_refused(first_s: float, factor: float, most_s: float) -> None:
    with pytest.raises(SettingsError):
        Backoff(first_s=first_s, factor=factor, most_s=most_s)
