"""When a worker is ready: one row a rule, and the first that holds is told."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from mycelium.actors.health.exposition import expose
from mycelium.actors.health.vitals import (
    STALE_S,
    HostVitals,
    Hunger,
    SessionState,
    TurnsVitals,
    Unready,
    Vitals,
    unready,
)
from mycelium.actors.hosts.listener import ExitReason
from mycelium.ledger.states import Settle

WELL = TurnsVitals(
    session=SessionState.TRUSTED,
    hosts=2,
    free_slots=4,
    running=1,
    held=1,
    quiet=False,
    draining=False,
    answered_s=0.2,
    turns_ok=7,
    turns_refused=0,
    claimed=3,
    settled={Settle.COMPLETED: 2},
)


@pytest.mark.parametrize(
    "turns,rest,why",
    [
        ({}, {}, None),
        ({}, {"waiting": 9}, None),
        ({}, {"waiting": 9, "starved_s": STALE_S - 0.1}, None),
        ({}, {"waiting": 9, "starved_s": STALE_S}, Unready.TAKES_NOTHING),
        ({"free_slots": 0}, {"waiting": 9, "starved_s": 99.0}, None),
        ({"held_back": True}, {"waiting": 9, "starved_s": 99.0}, None),
        ({}, {"waiting": None, "starved_s": 99.0}, None),
        ({"answered_s": 10.1}, {}, Unready.STORE_AWAY),
        ({"answered_s": 10.1}, {"patience_s": 20.0}, None),
        ({"answered_s": 99.0, "free_slots": 0}, {}, None),
        ({"hosts": 0, "free_slots": 0}, {}, Unready.NO_HOST),
        ({"session": SessionState.UNTRUSTED}, {}, Unready.UNTRUSTED),
        ({"session": SessionState.NONE}, {}, Unready.NO_SESSION),
        ({"session": SessionState.NONE, "hosts": 0, "answered_s": 99.0}, {}, Unready.NO_SESSION),
        ({"quiet": True, "session": SessionState.NONE}, {}, Unready.QUIET),
        ({"draining": True, "quiet": True}, {}, Unready.STOPPING),
        ({}, {"stopping": True}, Unready.STOPPING),
    ],
)
def test_a_worker_is_ready_unless_a_rule_says_otherwise(
    turns: dict[str, Any], rest: dict[str, Any], why: Unready | None
) -> None:
    assert unready(Vitals(turns=replace(WELL, **turns), **rest)) is why


def test_a_worker_whose_main_part_does_not_answer_is_not_ready() -> None:
    assert unready(Vitals(turns=None)) is Unready.NO_ANSWER
    assert unready(Vitals(turns=None, stopping=True)) is Unready.STOPPING


def test_hunger_lasts_from_the_second_look_that_finds_jobs_and_no_claim() -> None:
    hunger = Hunger()
    for now_s in (0.0, 2.0, 4.0):
        hunger.look(now_s, WELL, 5)
    assert hunger.lasts_s(6.0) == 4.0


@pytest.mark.parametrize(
    "turns,waiting",
    [
        (replace(WELL, claimed=4), 5),
        (WELL, 0),
        (WELL, None),
        (replace(WELL, free_slots=0), 5),
        (replace(WELL, held_back=True), 5),
        (None, 5),
    ],
    ids=["claims", "nothing waits", "not known", "full", "held back", "no answer"],
)
def test_hunger_ends_with_a_claim_or_its_cause(turns: TurnsVitals | None, waiting: int | None) -> None:
    hunger = Hunger()
    for now_s in (0.0, 2.0):
        hunger.look(now_s, WELL, 5)
    hunger.look(4.0, turns, waiting)
    assert hunger.lasts_s(5.0) == 0.0


def test_metrics_have_closed_sets_of_labels_with_every_value_from_the_start() -> None:
    host = HostVitals(name="host-1", running=0, lag_s=0.0, starts=1)
    lines = expose(Vitals(turns=WELL, hosts=(host,), waiting=0)).decode().splitlines()
    said = {line.rpartition(" ")[0] for line in lines if not line.startswith("#")}
    for verb in Settle:
        assert f'mycelium_worker_settlements_total{{verb="{verb}"}}' in said
    for reason in ExitReason:
        assert f'mycelium_worker_host_ends_total{{host="host-1",reason="{reason}"}}' in said
    for word in Unready:
        assert f'mycelium_worker_unready{{reason="{word}"}}' in said
    assert 'mycelium_worker_settlements_total{verb="completed"} 2.0' in lines
    assert "mycelium_worker_ready 1.0" in lines


def test_what_does_not_answer_is_left_out_of_the_metrics() -> None:
    said = expose(Vitals(turns=None)).decode()
    assert "mycelium_worker_ready 0.0" in said
    assert 'mycelium_worker_unready{reason="no_answer"} 1.0' in said
    assert "mycelium_worker_slots" not in said
    assert "mycelium_worker_waiting_jobs" not in said
