"""What must start by a time, and what must have ended by one: at submit, while it waits, and while it runs."""

from __future__ import annotations

import pytest

from kit.asking import sweep
from kit.ledger import KINDS, MC, NC, Ledger, ended
from kit.ledger_checks import faults
from mycelium.ledger.limits import Concurrency

READ, IDEM, AUTO = "read-none", "idempotent_mutate-automatic", "non_idempotent_mutate-automatic"
TIMES = {"deadline_s": ("deadline", "DeadlinePassed"), "start_by_s": ("expired", "Expired")}


def ended_by(ledger: Ledger, request_id: str = "r1") -> tuple[str, str, str]:
    """The state, the reason word of the last move, and the error."""
    row = ledger.row(request_id)
    return row["state"], row[f"h{row['n']}"].split(" ")[3], row.get("error", "")


@pytest.mark.parametrize("time", TIMES)
def test_what_can_only_be_late_is_not_recorded(ledger: Ledger, time: str) -> None:
    assert ledger.submit(AUTO, "r1", **{time: 0})[1] == "late"
    assert ledger.submit(AUTO, "r1", delay_s=5, **{time: 5})[1] == "late"
    assert ledger.row("r1") == {}
    assert ledger.submit(AUTO, "r1", delay_s=5, **{time: 6})[1] == "created"
    assert faults(ledger.dump()) == []


@pytest.mark.parametrize("by_sweep", [True, False])
@pytest.mark.parametrize("time", TIMES)
@pytest.mark.parametrize("delay_s", [0.0, 4.0])
def test_what_waits_past_its_time_is_cancelled(ledger: Ledger, time: str, delay_s: float, by_sweep: bool) -> None:  # noqa: FBT001
    ledger.submit(AUTO, "r1", delay_s=delay_s, **{time: 5})
    ledger.submit(AUTO, "r2")
    ledger.now_ms += 4_999
    assert sweep(ledger)[1] == 0
    ledger.now_ms += 1
    if by_sweep:
        assert sweep(ledger)[1] == 1
    assert [granted.id for granted in ledger.claim(9)] == ["r2"]
    word, error = TIMES[time]
    assert ended_by(ledger) == ("cancelled", word, error)
    assert ledger.row("r1")["attempts"] == "0"
    assert faults(ledger.dump()) == []


@pytest.mark.parametrize("time", TIMES)
def test_what_waits_under_a_key_past_its_time_is_cancelled(ledger: Ledger, time: str) -> None:
    ledger.submit(AUTO, "r0", limits=(Concurrency("one", 1),))
    ledger.submit(AUTO, "r1", limits=(Concurrency("one", 1),), **{time: 5})
    assert len(ledger.claim(9)) == 1
    ledger.now_ms += 5_000
    assert sweep(ledger)[1] == 1
    assert ended_by(ledger)[0] == "cancelled"
    assert faults(ledger.dump()) == []


def test_what_has_started_need_not_start_again_by_then(ledger: Ledger) -> None:
    ledger.submit(READ, "r1", start_by_s=5)
    fence = ledger.claim()[0].fence
    ledger.now_ms += 6_000
    assert sweep(ledger)[1] == 0
    ledger.settle(ended("r1", fence, "retry"))
    assert ledger.state("r1") == "ready"
    assert len(ledger.claim()) == 1


def test_what_was_given_back_unstarted_after_that_time_has_not_started(ledger: Ledger) -> None:
    ledger.submit(READ, "r1", start_by_s=5)
    fence = ledger.claim()[0].fence
    ledger.now_ms += 6_000
    sweep(ledger)
    ledger.settle(ended("r1", fence, "released"))
    assert ended_by(ledger) == ("cancelled", "expired", "Expired")
    assert faults(ledger.dump()) == []


@pytest.mark.parametrize("tool", KINDS)
def test_a_holder_past_the_deadline_is_asked_to_stop_and_what_it_did_is_found_out(ledger: Ledger, tool: str) -> None:
    ledger.submit(tool, "r1", deadline_s=5)
    (granted,) = ledger.claim()
    sent = tool != READ and ledger.mark("r1", granted.fence) == "marked"
    ledger.now_ms += 5_000
    assert sweep(ledger)[1] == 0
    reply = ledger.run(ledger.turning(0))
    assert reply[6:] == ["r1", granted.fence]
    ledger.settle(ended("r1", granted.fence, "timed_out", boundary=MC if sent else NC))
    assert ledger.state("r1") == ("unknown" if sent else "cancelled")
    # Nobody is asked any more.
    assert ledger.run(ledger.turning(0))[5] == 0
    assert faults(ledger.dump()) == []


@pytest.mark.parametrize("verb", ["retry", "timed_out", "released", "died"])
def test_nothing_is_retried_after_its_deadline(ledger: Ledger, verb: str) -> None:
    ledger.submit(READ, "r1", deadline_s=5)
    fence = ledger.claim()[0].fence
    ledger.now_ms += 5_000
    ledger.settle(ended("r1", fence, verb, delay_ms=100))
    assert ended_by(ledger) == ("cancelled", "deadline", "DeadlinePassed")
    assert faults(ledger.dump()) == []


def test_a_retry_that_is_due_after_the_deadline_is_cancelled_at_the_deadline(ledger: Ledger) -> None:
    ledger.submit(READ, "r1", deadline_s=5)
    ledger.settle(ended("r1", ledger.claim()[0].fence, "retry", delay_ms=9_000))
    assert ledger.state("r1") == "delayed"
    ledger.now_ms += 5_000
    assert sweep(ledger)[1] == 1
    assert ended_by(ledger)[:2] == ("cancelled", "deadline")
    assert faults(ledger.dump()) == []


def test_what_is_in_doubt_at_its_deadline_is_found_out(ledger: Ledger) -> None:
    ledger.submit(IDEM, "r1", deadline_s=5)
    (granted,) = ledger.claim()
    ledger.mark("r1", granted.fence)
    ledger.settle(ended("r1", granted.fence, "retry", boundary=MC))
    ledger.now_ms += 5_000
    sweep(ledger)
    assert ledger.state("r1") == "unknown"
    assert ledger.judge("r1", granted.fence, "not_executed") == "settled"
    assert ended_by(ledger) == ("cancelled", "deadline", "DeadlinePassed")
    assert faults(ledger.dump()) == []


def test_a_result_that_comes_after_the_deadline_counts(ledger: Ledger) -> None:
    ledger.submit(AUTO, "r1", deadline_s=5)
    (granted,) = ledger.claim()
    ledger.mark("r1", granted.fence)
    ledger.now_ms += 6_000
    sweep(ledger)
    assert ledger.settle(ended("r1", granted.fence, "completed", boundary=MC)) == ["settled"]
    assert ledger.state("r1") == "completed"


def test_a_grant_tells_how_much_is_left(ledger: Ledger) -> None:
    ledger.submit(AUTO, "r1", deadline_s=5)
    ledger.now_ms += 2_000
    reply = ledger.run(ledger.turning(1))
    assert reply[6:][10] == "3000"
