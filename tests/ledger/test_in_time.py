"""A cancel or a deadline before the point of no return is in time; what pauses, keys and shares do to each other."""

from __future__ import annotations

import pytest

from kit.asking import cancel, pause, requeue, sweep
from kit.ledger import MC, NC, Ledger, ended
from kit.ledger_checks import faults
from kit.script_cases import AUTO, IDEM, READ
from mycelium.ledger.limits import Concurrency
from mycelium.ledger.states import State

ONE = Concurrency("one", 1)


def ids(ledger: Ledger, slots: int = 9) -> list[str]:
    return [grant.id for grant in ledger.claim(slots)]


def end(ledger: Ledger, *request_ids: str) -> None:
    for request_id in request_ids:
        assert ledger.settle(ended(request_id, ledger.row(request_id)["fence"], "completed")) == ["settled"]


def test_no_mark_passes_after_a_cancel_and_what_is_given_back_is_cancelled(ledger: Ledger) -> None:
    fence = ledger.granted(AUTO)
    assert cancel(ledger) == "asked"
    assert ledger.mark("r1", fence) == "stopped"
    assert ledger.row("r1")["boundary"] == NC
    assert ledger.settle(ended("r1", fence, "released")) == ["settled"]
    assert ledger.state("r1") == State.CANCELLED
    assert faults(ledger.dump()) == []


def test_no_mark_passes_after_a_deadline(ledger: Ledger) -> None:
    ledger.submit(AUTO, "r1", deadline_s=1)
    (grant,) = ledger.claim()
    ledger.now_ms += 2000
    assert ledger.mark("r1", grant.fence) == "stopped"


def test_a_mark_that_was_written_before_is_told_again_after_a_cancel(ledger: Ledger) -> None:
    fence = ledger.marked(AUTO)
    assert cancel(ledger) == "asked"
    assert ledger.mark("r1", fence) == "marked"


def test_what_started_in_time_and_is_given_back_later_does_not_expire(ledger: Ledger) -> None:
    ledger.submit(IDEM, "r1", start_by_s=1)
    (grant,) = ledger.claim()
    assert ledger.mark("r1", grant.fence) == "marked"
    ledger.now_ms += 2000
    assert ledger.settle(ended("r1", grant.fence, "released", boundary=MC)) == ["settled"]
    assert ledger.state("r1") == State.READY


def test_the_attempt_that_a_person_asked_for_is_told_as_theirs(ledger: Ledger) -> None:
    fence = ledger.granted(AUTO)
    assert ledger.settle(ended("r1", fence, "failed")) == ["settled"]
    assert requeue(ledger) == "requeued"
    ledger.claim()
    assert any(text.endswith(" operator") and " claimed " in text for text in ledger.row("r1").values())


def test_who_is_paused_holds_up_nobody_else_under_a_key(ledger: Ledger) -> None:
    ledger.submit(READ, "first", limits=(ONE,))
    assert ids(ledger) == ["first"]
    ledger.submit(READ, *(f"bulk{at}" for at in range(20)), limits=(ONE,), queue="bulk")
    ledger.run(ledger.turning(9, queues=("default", "bulk")))
    pause(ledger, "queue:bulk")
    ledger.submit(READ, "urgent", limits=(ONE,))
    assert ids(ledger) == []
    end(ledger, "first")
    found = [request_id for _ in range(3) for request_id in ids(ledger)]
    assert found == ["urgent"]
    assert faults(ledger.dump()) == []


def test_a_flood_under_a_key_takes_no_more_than_its_turns(ledger: Ledger) -> None:
    nine = Concurrency("nine", 9)
    ledger.submit(READ, *(f"f{at}" for at in range(60)), limits=(nine,), tenant="flood")
    for tenant in range(10):
        ledger.submit(READ, *(f"t{tenant}-{at}" for at in range(6)), tenant=f"t{tenant}")
    running = ids(ledger, 10)
    taken = list(running)
    for _ in range(30):
        end(ledger, running.pop(0))
        new = ids(ledger, 1) or ids(ledger, 1)
        running += new
        taken += new
    # Eleven tenants, in turn: the flood's share of what came after the first look is one in eleven, and a start.
    assert sum(name.startswith("f") for name in taken[10:]) <= 6


@pytest.mark.parametrize("target", ["queue:default", f"tool:{READ}"])
def test_what_was_put_aside_for_a_pause_comes_back_when_it_ends(ledger: Ledger, target: str) -> None:
    ledger.submit(READ, "r1", "r2", limits=(ONE,))
    assert ids(ledger) == ["r1"]
    assert ids(ledger) == []
    pause(ledger, target)
    end(ledger, "r1")
    assert ids(ledger) == []
    assert ledger.row("r2")["gate"] == f"p:{target}"
    pause(ledger, target, on=False)
    sweep(ledger)
    assert ids(ledger) == ["r2"]
    assert faults(ledger.dump()) == []
