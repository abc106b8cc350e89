"""Limits that the fleet shares: concurrency keys and rates, and who comes next where there is room again."""

from __future__ import annotations

import random

import pytest

from kit.asking import cancel, sweep
from kit.claims import claimed, version
from kit.ledger import KINDS, MC, NC, Ledger, Passed, ended
from kit.ledger_checks import faults
from mycelium.ledger.limits import Concurrency, Rate
from mycelium.ledger.line import Priority

READ, IDEM, AUTO = "read-none", "idempotent_mutate-automatic", "non_idempotent_mutate-automatic"
ONE, TWO = Concurrency("one", 1), Concurrency("two", 2)
CHEAP, DEAR = Rate("bucket", 2, per_s=60, burst=4), Rate("bucket", 2, per_s=60, burst=4, cost=4)
"""A unit comes every 30 s, and four can be saved up."""
UNIT_MS = 30_000


def ids(ledger: Ledger, slots: int = 10, **more: Passed) -> list[str]:
    return [granted.id for granted in ledger.claim(slots, **more)]


def end(ledger: Ledger, request_id: str, verb: str = "failed", **more: Passed) -> None:
    fence = ledger.row(request_id)["fence"]
    assert ledger.settle(ended(request_id, fence, verb, **more)) == ["settled"]


def alive(ledger: Ledger, ms: int) -> None:
    """Time passes, and the session is renewed."""
    for _ in range(ms // 10_000):
        ledger.now_ms += 10_000
        ledger.renew()


# ── concurrency keys ─────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("at_most", [1, 3])
@pytest.mark.parametrize("slots", [1, 20])
def test_no_more_are_held_of_a_key_than_may_be(ledger: Ledger, at_most: int, slots: int) -> None:
    limits = (Concurrency("customer", at_most),)
    for at in range(8):
        ledger.submit(READ, f"r{at}", limits=limits, tenant=f"t{at % 3}", priority=list(Priority)[at % 5])
    held: list[str] = []
    order: list[str] = []
    while len(order) < 8:
        for _ in range(20 // slots):
            held += ids(ledger, slots)
        assert len(held) == min(at_most, 8 - len(order))
        assert faults(ledger.dump()) == []
        end(ledger, held[0])
        order.append(held.pop(0))
    assert sorted(order) == [f"r{at}" for at in range(8)]


def test_a_key_is_held_until_the_attempt_has_ended_however_it_ends(ledger: Ledger) -> None:
    ledger.submit(IDEM, "r1", limits=(ONE,))
    for verb in ("released", "retry", "timed_out", "not_done", "died"):
        assert ids(ledger) == ["r1"]
        ledger.submit(IDEM, verb, limits=(ONE,))
        assert ids(ledger) == []
        end(ledger, "r1", verb)
        assert ids(ledger) == [verb]
        assert ids(ledger) == []
        end(ledger, verb)
    assert faults(ledger.dump()) == []


def test_a_key_is_free_when_its_holder_is_lost(ledger: Ledger) -> None:
    ledger.submit(AUTO, "r1", "r2", limits=(ONE,))
    ledger.open("s2")
    (first,) = ledger.claim(10)
    ledger.mark("r1", first.fence)
    assert ids(ledger, session="s2") == []
    ledger.now_ms += 10_000
    ledger.renew("s2")
    ledger.now_ms += 10_000
    assert ledger.expire("s1") == "expired"
    # What is unknown holds nothing: whoever still sends is no longer counted.
    assert ids(ledger, session="s2") == ["r2"]


def test_jobs_with_several_keys_neither_lock_each_other_nor_wait_for_ever(ledger: Ledger) -> None:
    """No sweep runs: every wake-up comes from the ends of others."""
    rng = random.Random(7)
    keys = [Concurrency("a", 1), Concurrency("b", 2), Concurrency("c", 1), Concurrency("d", 3)]
    left = {f"r{at:02}" for at in range(60)}
    for request_id in sorted(left):
        limits = rng.sample(keys, rng.randint(1, 3))
        ledger.submit(READ, request_id, limits=limits, tenant=rng.choice("xyz"), priority=rng.choice(list(Priority)))
    held: list[str] = []
    for _ in range(600):
        held += ids(ledger, rng.randint(1, 6))
        rng.shuffle(held)
        for request_id in held[: rng.randint(0, len(held))] or held[:1]:
            end(ledger, request_id)
            held.remove(request_id)
            left.discard(request_id)
        if not left:
            break
    assert left == set()
    assert faults(ledger.dump()) == []


def test_a_place_is_the_next_ones_when_the_one_that_was_woken_is_cancelled(ledger: Ledger) -> None:
    ledger.submit(READ, "r1", "r2", "r3", limits=(ONE,))
    assert ids(ledger) == ["r1"]
    end(ledger, "r1")
    assert "gate" not in ledger.row("r2")
    assert cancel(ledger, "r2") == "cancelled"
    assert ids(ledger) == ["r3"]


def test_a_place_is_the_next_ones_when_the_one_that_was_woken_is_past_its_time(ledger: Ledger) -> None:
    ledger.submit(READ, "r1", limits=(ONE,))
    ledger.submit(READ, "r2", limits=(ONE,), deadline_s=5)
    ledger.submit(READ, "r3", limits=(ONE,))
    assert ids(ledger) == ["r1"]
    end(ledger, "r1")
    ledger.now_ms += 5_000
    assert ids(ledger) == []
    assert ids(ledger) == ["r3"]
    assert ledger.state("r2") == "cancelled"


def test_a_place_is_the_next_ones_when_the_one_that_was_woken_waits_for_another_key(ledger: Ledger) -> None:
    ledger.submit(READ, "b", limits=(TWO,))
    ledger.submit(READ, "c", limits=(TWO,))
    ledger.submit(READ, "r1", limits=(ONE,))
    ledger.submit(READ, "r2", limits=(ONE, TWO))
    ledger.submit(READ, "r3", limits=(ONE,))
    assert ids(ledger) == ["b", "c", "r1"]
    end(ledger, "r1")
    # r2 is woken for the place of r1, and finds that its other key is full.
    assert ids(ledger) == []
    assert ledger.row("r2")["gate"] == "c:two"
    assert ids(ledger) == ["r3"]


def test_who_waits_longer_comes_before_who_has_just_come(ledger: Ledger) -> None:
    """One tenant always has something fresh; the other one's job waits under the same key."""
    ledger.submit(READ, "a0", limits=(ONE,), tenant="a")
    assert ids(ledger, 1) == ["a0"]
    ledger.submit(READ, "a1", limits=(ONE,), tenant="a")
    ledger.submit(READ, "z", limits=(ONE,), tenant="z")
    assert ids(ledger, 2) == []
    order = ["a0"]
    for fresh in range(2, 4):
        ledger.submit(READ, f"a{fresh}", limits=(ONE,), tenant="a")
        end(ledger, order[-1])
        order += ids(ledger, 1) or ids(ledger, 1)
    assert order == ["a0", "a1", "z"]


def test_a_higher_level_goes_first_also_under_a_key(ledger: Ledger) -> None:
    ledger.submit(READ, "r1", "r2", "r3", limits=(ONE,), priority=Priority.BACKGROUND)
    assert ids(ledger) == ["r1"]
    ledger.submit(READ, "r4", limits=(ONE,), priority=Priority.CRITICAL)
    assert ids(ledger) == []
    end(ledger, "r1")
    assert ids(ledger) == ["r4"]
    end(ledger, "r4")
    assert ids(ledger) == ["r2"]


def test_a_key_that_counts_who_is_gone_is_made_sure_of(ledger: Ledger) -> None:
    """Somebody removed the holder's row by hand, so that nobody wakes who waits; the sweep does."""
    ledger.submit(READ, "r1", "r2", limits=(ONE,))
    assert ids(ledger) == ["r1"]
    ledger.edit("DEL", ledger.keys.row("r1"), ledger.keys.args("r1"))
    assert ids(ledger) == []
    ledger.now_ms += 14_000
    ledger.renew()
    ledger.now_ms += 14_000
    ledger.renew()
    ledger.now_ms += 2_000
    assert sweep(ledger) == [0, 0, 1]
    assert ids(ledger) == ["r2"]


def test_a_call_in_process_leaves_limited_jobs_to_those_who_take_them_in_turn(ledger: Ledger) -> None:
    ledger.submit(READ, "r1", limits=(ONE,))
    assert claimed(ledger, READ, boundary=NC, expect=version(ledger), auth="reclaim").word == "known"
    assert ids(ledger) == ["r1"]


# ── rates ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_what_is_saved_up_is_spent_at_once_and_then_a_unit_as_it_comes(ledger: Ledger) -> None:
    ledger.submit(READ, *[f"r{at}" for at in range(8)], limits=(CHEAP,))
    assert ids(ledger) == ["r0", "r1", "r2", "r3"]
    for at in range(4, 8):
        alive(ledger, UNIT_MS - 10_000)
        assert ids(ledger) == []
        alive(ledger, 10_000)
        assert ids(ledger) == [f"r{at}"]
    assert faults(ledger.dump()) == []


def test_a_worker_is_told_when_there_is_something_to_spend_again(ledger: Ledger) -> None:
    ledger.submit(READ, *[f"r{at}" for at in range(5)], limits=(CHEAP,))
    assert len(ids(ledger)) == 4
    reply = ledger.run(ledger.turning(1))
    assert (int(reply[2]), reply[3]) == (UNIT_MS, 2)


def test_a_dear_job_saves_up_and_cheap_ones_wait_for_it(ledger: Ledger) -> None:
    ledger.submit(READ, "c0", limits=(CHEAP,))
    assert ids(ledger) == ["c0"]
    ledger.submit(READ, "dear", limits=(DEAR,), tenant="z")
    assert ids(ledger) == []
    for at in range(1, 4):
        ledger.submit(READ, f"c{at}", limits=(CHEAP,), tenant="a")
        assert ids(ledger) == []
        alive(ledger, 10_000)
    assert ids(ledger) == ["dear"]
    alive(ledger, UNIT_MS)
    assert ids(ledger) == ["c1"]


def test_what_is_given_back_unstarted_has_spent_nothing(ledger: Ledger) -> None:
    ledger.submit(READ, *[f"r{at}" for at in range(6)], limits=(CHEAP,))
    assert len(ids(ledger)) == 4
    end(ledger, "r3", "released")
    # What it gave back is the next one's, and there is no more.
    assert ids(ledger) == ["r4"]
    assert ids(ledger) == []


@pytest.mark.parametrize("verb, delay_ms", [("failed", 0), ("retry", 0), ("died", 0), ("released", 1)])
def test_what_may_have_asked_its_provider_has_spent(ledger: Ledger, verb: str, delay_ms: int) -> None:
    ledger.submit(READ, *[f"r{at}" for at in range(6)], limits=(CHEAP,))
    assert len(ids(ledger)) == 4
    end(ledger, "r3", verb, delay_ms=delay_ms)
    ledger.now_ms += 10
    assert ids(ledger) == []


def test_what_was_refilled_since_is_not_given_back(ledger: Ledger) -> None:
    ledger.submit(READ, *[f"r{at}" for at in range(8)], limits=(CHEAP,))
    assert len(ids(ledger, 1)) == 1
    alive(ledger, UNIT_MS)
    assert len(ids(ledger)) == 4
    end(ledger, "r0", "released")
    assert ids(ledger) == []


def test_a_retry_and_a_second_attempt_spend_again(ledger: Ledger) -> None:
    ledger.submit(READ, "r0", limits=(CHEAP,), binding=KINDS[READ])
    for _ in range(2):
        assert ids(ledger) == ["r0"]
        end(ledger, "r0", "retry")
    ledger.submit(READ, "r1", "r2", "r3", limits=(CHEAP,))
    assert ids(ledger) == ["r0", "r1"]


def test_a_turn_that_is_sent_again_spends_once(ledger: Ledger) -> None:
    ledger.submit(READ, *[f"r{at}" for at in range(6)], limits=(CHEAP,))
    command = ledger.turning(2)
    assert ledger.run(command) == ledger.run(command)
    assert len(ids(ledger)) == 2


def test_keys_are_filled_with_arguments(ledger: Ledger) -> None:
    limits = (Concurrency("customer:{value}", 1),)
    ledger.submit(READ, "r1", "r2", limits=limits, value=1)
    ledger.submit(READ, "r3", limits=limits, value=2)
    assert ids(ledger) == ["r1", "r3"]
    assert ledger.mark("r1", ledger.row("r1")["fence"], MC) == "marked"
    assert faults(ledger.dump()) == []
