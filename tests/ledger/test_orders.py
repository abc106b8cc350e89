"""What an operator orders: a paused queue or tool, and jobs that are struck by the value of an argument."""

from __future__ import annotations

import pytest

from kit.asking import pause, strike
from kit.ledger import CR, Ledger, Passed, ended
from kit.ledger_checks import faults
from mycelium.ledger.facets import facets_of
from mycelium.ledger.limits import Concurrency

READ, IDEM = "read-none", "idempotent_mutate-automatic"
VALUES = {"int": 1, "text": "1", "yes": True, "half": 1.5}


def ids(ledger: Ledger, slots: int = 10, **more: Passed) -> list[str]:
    return [granted.id for granted in ledger.claim(slots, **more)]


@pytest.mark.parametrize("target", ["queue:default", f"tool:{READ}"])
def test_a_pause_keeps_jobs_ready_and_lets_run_what_runs(ledger: Ledger, target: str) -> None:
    fence = ledger.marked(READ, "r0")
    ledger.submit(READ, "r1", "r2")
    assert pause(ledger, target) == "paused"
    reply = ledger.run(ledger.turning(9, ended("r0", fence, "completed", boundary=CR)))
    # It says that something is kept back, so that a worker which takes nothing is not taken for idle.
    assert reply[3:7] == [1, 1, 0, "settled"]
    ledger.submit(READ, "r3")
    assert ids(ledger) == []
    assert pause(ledger, target, on=False) == "resumed"
    assert ids(ledger) == ["r1", "r2", "r3"]
    assert faults(ledger.dump()) == []


def test_a_pause_of_one_tool_or_queue_is_none_of_another(ledger: Ledger) -> None:
    ledger.submit(READ, "r1")
    ledger.submit(READ, "m1", queue="mail")
    ledger.submit(IDEM, "i1", queue="mail")
    pause(ledger, "queue:default")
    pause(ledger, f"tool:{IDEM}")
    assert ids(ledger, queues=("default", "mail")) == ["m1"]


@pytest.mark.parametrize("kind", VALUES)
def test_a_strike_is_exact_on_the_kind_of_value(ledger: Ledger, kind: str) -> None:
    for name, value in VALUES.items():
        ledger.submit(READ, name, facets=facets_of({"other": 1, "value": value}))
    ledger.submit(READ, "another", facets=facets_of({"value": 2, "other": VALUES[kind]}))
    ledger.submit(IDEM, "tool", facets=facets_of({"value": VALUES[kind]}))
    assert strike(ledger, READ, "value", VALUES[kind]) == "struck"
    assert sorted(ids(ledger)) == sorted([*(name for name in VALUES if name != kind), "another", "tool"])
    assert ledger.row(kind)["attempts"] == "0"
    assert strike(ledger, READ, "value", VALUES[kind], on=False) == "lifted"
    assert ids(ledger) == [kind]
    assert faults(ledger.dump()) == []


def test_a_whole_number_is_one_value_however_it_is_written(ledger: Ledger) -> None:
    ledger.submit(READ, "r1", facets=facets_of({"value": 1.0}))
    strike(ledger, READ, "value", 1)
    assert ids(ledger) == []


def test_what_was_struck_comes_back_in_order(ledger: Ledger) -> None:
    facets = facets_of({"value": 1})
    ledger.submit(READ, *(f"r{number:03}" for number in range(150)), facets=facets)
    strike(ledger, READ, "value", 1)
    for _ in range(9):
        assert ids(ledger) == []
    ledger.submit(READ, "last", facets=facets)
    strike(ledger, READ, "value", 1, on=False)
    order = [request_id for _ in range(20) for request_id in ids(ledger)]
    assert order == [*(f"r{number:03}" for number in range(150)), "last"]
    assert faults(ledger.dump()) == []


def test_a_strike_that_is_ordered_again_wakes_nobody(ledger: Ledger) -> None:
    ledger.submit(READ, "r1", facets=facets_of({"value": 1}))
    for on in (True, False, True):
        strike(ledger, READ, "value", 1, on=on)
        if on:
            assert ids(ledger) == []
    # Nothing is looked at any more, and no worker is told to come again soon.
    assert int(ledger.run(ledger.turning(9))[2]) == 0
    before = ledger.dump()
    assert ids(ledger) == []
    assert ledger.dump() == before


def test_what_is_struck_keeps_no_place_of_a_key(ledger: Ledger) -> None:
    one = (Concurrency("one", 1),)
    ledger.submit(READ, "r1", "r2", limits=one, facets=facets_of({"value": 1}))
    ledger.submit(READ, "r3", limits=one, facets=facets_of({"value": 2}))
    assert ids(ledger) == ["r1"]
    strike(ledger, READ, "value", 1)
    ledger.settle(ended("r1", ledger.row("r1")["fence"], "failed"))
    assert ids(ledger) + ids(ledger) == ["r3"]
    assert ledger.row("r2")["gate"].startswith("s:")
    assert faults(ledger.dump()) == []
