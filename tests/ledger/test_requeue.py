"""Requeue in each state, twice, and by two at once (case 114); dead is reached, each way to fail counted apart."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from kit.asking import cancel, requeue, requeueing
from kit.ledger import KINDS, MC, TTL_MS, Ledger, ended
from kit.ledger_checks import faults

READ, IDEM, AUTO = "read-none", "idempotent_mutate-automatic", "non_idempotent_mutate-automatic"
HISTORY = ("h1", "h2")


def _ready(ledger: Ledger) -> None:
    ledger.submit(AUTO, "r1")


def _delayed(ledger: Ledger) -> None:
    ledger.submit(AUTO, "r1", delay_s=9)


def _claimed(ledger: Ledger) -> None:
    ledger.granted(AUTO)


def _attempting(ledger: Ledger) -> None:
    ledger.marked(AUTO)


def _unknown(ledger: Ledger) -> None:
    ledger.unknown()


def _completed(ledger: Ledger) -> None:
    ledger.settle(ended("r1", ledger.marked(AUTO), "completed", boundary=MC))


def _failed(ledger: Ledger) -> None:
    ledger.settle(ended("r1", ledger.marked(AUTO), "failed"))


def _cancelled(ledger: Ledger) -> None:
    ledger.submit(AUTO, "r1", deadline_s=99)
    cancel(ledger)


def _dead(ledger: Ledger) -> None:
    ledger.submit(AUTO, "r1", binding=replace(KINDS[AUTO], max_deaths=1))
    ledger.settle(ended("r1", ledger.claim()[0].fence, "died"))
    assert ledger.state("r1") == "dead"


OPEN, ENDED = (_ready, _delayed, _claimed, _attempting, _unknown), (_failed, _cancelled, _dead)


@pytest.mark.parametrize("bring", OPEN)
def test_what_has_not_ended_is_not_touched(ledger: Ledger, bring: Callable[[Ledger], None]) -> None:
    bring(ledger)
    before = ledger.dump()
    assert [requeue(ledger), requeue(ledger)] == ["open", "open"]
    assert ledger.dump() == before


def test_what_had_its_effect_stays_as_it_is(ledger: Ledger) -> None:
    _completed(ledger)
    before = ledger.dump()
    assert requeue(ledger) == "completed"
    assert ledger.dump() == before


@pytest.mark.parametrize("bring", ENDED)
def test_what_ended_without_an_effect_runs_again_with_its_history(
    ledger: Ledger, bring: Callable[[Ledger], None]
) -> None:
    bring(ledger)
    before = ledger.row("r1")
    assert requeue(ledger) == "requeued"
    row = ledger.row("r1")
    assert {name: row[name] for name in HISTORY} == {name: before[name] for name in HISTORY}
    assert [row[name] for name in ("state", "attempts", "fails", "deaths", "timeouts")] == ["ready", "0", "0", "0", "0"]
    assert (row["requeued_by"], row["requeue_reason"]) == ("ops", "its cause is gone")
    assert not row.keys() & {"cancel", "deadline", "start_by", "cause"}
    (granted,) = ledger.claim()
    assert int(granted.fence) > int(row["fence"]) > int(before["fence"])
    assert ledger.settle(ended("r1", before["fence"], "completed", boundary=MC)) == ["stale"]
    assert faults(ledger.dump()) == []


@pytest.mark.parametrize("bring", ENDED)
def test_two_who_ask_at_once_are_one_requeue(ledger: Ledger, bring: Callable[[Ledger], None]) -> None:
    bring(ledger)
    first, second = requeueing(ledger), requeueing(ledger)
    words = [ledger.run(command)[0] for command in (first, second, first, second)]
    assert words == ["requeued", "open", "requeued", "open"]
    assert len(ledger.claim(9)) == 1
    assert faults(ledger.dump()) == []


def test_a_doubt_that_a_verdict_ended_is_not_taken_up_again(ledger: Ledger) -> None:
    ledger.settle(ended("r1", ledger.marked(IDEM), "retry", boundary=MC))
    (second,) = ledger.claim()
    ledger.mark("r1", second.fence)
    ledger.settle(ended("r1", second.fence, "unknown", boundary=MC))
    ledger.edit("HSET", ledger.keys.row("r1"), "max_attempts", "2")
    assert ledger.judge("r1", second.fence, "not_executed") == "settled"
    assert ledger.state("r1") == "failed"
    assert requeue(ledger) == "requeued"
    assert cancel(ledger) == "cancelled"
    assert faults(ledger.dump()) == []


# ── E10 ──────────────────────────────────────────────────────────────────────────────────────────────────────────────

COUNTS = {"retry": "fails", "not_done": "fails", "timed_out": "timeouts", "died": "deaths"}
CAUSES = {"fails": "attempts", "timeouts": "timeouts", "deaths": "deaths"}


@pytest.mark.parametrize("verb", COUNTS)
@pytest.mark.parametrize("most", [1, 3])
def test_dead_is_reached_and_says_of_what(ledger: Ledger, verb: str, most: int) -> None:
    binding = replace(KINDS[READ], max_attempts=most, max_deaths=most, max_timeouts=most)
    ledger.submit(READ, "r1", binding=binding)
    for _ in range(most):
        ledger.settle(ended("r1", ledger.claim()[0].fence, verb))
    row = ledger.row("r1")
    assert (row["state"], row["cause"], row[COUNTS[verb]]) == ("dead", CAUSES[COUNTS[verb]], str(most))
    assert ledger.claim(9) == []
    assert faults(ledger.dump()) == []


def test_each_way_to_fail_is_counted_apart_and_has_its_own_bound(ledger: Ledger) -> None:
    ledger.submit(READ, "r1")
    verbs = ["retry", "timed_out", "died", "not_done", "timed_out", "died", "retry"]
    for verb in verbs:
        assert ledger.state("r1") == "ready"
        ledger.settle(ended("r1", ledger.claim()[0].fence, verb))
    row = ledger.row("r1")
    assert [row[name] for name in ("state", "fails", "timeouts", "deaths", "attempts")] == ["dead", "3", "2", "2", "7"]
    assert faults(ledger.dump()) == []


def test_dead_is_reached_though_every_worker_dies_at_once(ledger: Ledger) -> None:
    ledger.submit(READ, "r1")
    for number in range(3):
        session = f"worker{number}"
        ledger.open(session)
        assert len(ledger.claim(session=session)) == 1
        ledger.now_ms += TTL_MS
        ledger.expire(session)
    assert (ledger.state("r1"), ledger.row("r1")["cause"]) == ("dead", "deaths")
    assert faults(ledger.dump()) == []


def test_what_may_have_been_sent_is_never_dead(ledger: Ledger) -> None:
    ledger.submit(IDEM, "r1", binding=replace(KINDS[IDEM], max_timeouts=1))
    (granted,) = ledger.claim()
    ledger.mark("r1", granted.fence)
    ledger.settle(ended("r1", granted.fence, "timed_out", boundary=MC))
    assert ledger.state("r1") == "unknown"
