"""Which ready job is next: levels with aging, tenants in turn, tools evenly, first come first served in a line."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import pairwise

import pytest

from kit.asking import cancel, sweep
from kit.claims import repairing
from kit.ledger import Ledger, Passed, ended
from kit.ledger_checks import faults
from mycelium.ledger.limits import Concurrency
from mycelium.ledger.line import Priority
from mycelium.ledger.turn import QueueItem

READ, IDEM, KEYED = "read-none", "idempotent_mutate-automatic", "keyed_mutate-automatic"
LEVELS = tuple(Priority)
LONGEST_WAIT = 38
"""Of so many jobs that are taken one after another, one at the least is of the lowest level, whatever the others hold:
passed over 33 times it comes before all, but for each of the four others that may be as late, once."""


def names(prefix: str, count: int) -> list[str]:
    return [f"{prefix}{number:04}" for number in range(count)]


def taken(ledger: Ledger, claims: int, slots: int = 1, **more: Passed) -> list[str]:
    """The ids of so many claims, in the order in which they were granted."""
    return [one.id for _ in range(claims) for one in ledger.claim(slots, **more)]


def gaps(order: Sequence[str], prefix: str) -> list[int]:
    """How many jobs were taken up to and with each one of a kind, since the one before."""
    places = [-1, *[place for place, request_id in enumerate(order) if request_id.startswith(prefix)]]
    return [after - before for before, after in pairwise(places)]


@pytest.mark.parametrize("slots", [1, 7, 100])
def test_a_line_is_first_come_first_served_also_within_one_submit(ledger: Ledger, slots: int) -> None:
    first, second = names("a", 100), names("b", 100)
    ledger.submit(READ, *first)
    ledger.submit(READ, *second)
    assert taken(ledger, 1 + 200 // slots, slots) == [*first, *second]


def test_what_was_put_aside_comes_back_to_where_it_stood(ledger: Ledger) -> None:
    one = (Concurrency("key", 1),)
    ledger.submit(READ, "a", "b", limits=one)
    ledger.submit(READ, "c")
    ledger.submit(READ, "d", limits=one)
    ledger.submit(READ, "e")
    first = ledger.claim(2)
    assert [granted.id for granted in first] == ["a", "c"]
    # Of those that are left, b was put aside, and comes back before d, which it was before.
    assert [granted.id for granted in ledger.claim(1, known=[IDEM])] == []
    ledger.settle(ended("a", first[0].fence, "failed"))
    assert [granted.id for granted in ledger.claim(3)] == ["b", "e"]
    assert faults(ledger.dump()) == []


# ── levels ───────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("slots", [1, 7, 70])
def test_the_lowest_of_five_levels_waits_a_bounded_number_of_jobs(ledger: Ledger, slots: int) -> None:
    for priority in LEVELS:
        ledger.submit(READ, *names(priority[0:2], 210), priority=priority)
    order = taken(ledger, 210 // slots, slots)
    assert max(gaps(order, "ba")) <= LONGEST_WAIT + slots - 1
    assert Counter(request_id[:2] for request_id in order).most_common()[0][0] == "cr"


def test_the_bound_is_exact_for_claims_of_one(ledger: Ledger) -> None:
    for priority in LEVELS:
        ledger.submit(READ, *names(priority[0:2], 210), priority=priority)
    order = taken(ledger, 210)
    assert [max(gaps(order, priority[0:2])) for priority in LEVELS] == [4, 11, 19, 28, 35]


def test_of_two_levels_the_first_goes_first(ledger: Ledger) -> None:
    ledger.submit(READ, *names("low", 3), priority=Priority.LOW)
    ledger.submit(READ, *names("high", 3), priority=Priority.HIGH)
    assert taken(ledger, 6) == [*names("high", 3), *names("low", 3)]


def test_a_level_full_of_what_may_not_run_keeps_no_lower_one_waiting(ledger: Ledger) -> None:
    ledger.submit(READ, "holder", limits=(Concurrency("key", 1),))
    ledger.claim()
    for at in range(0, 1000, 100):
        ledger.submit(
            READ, *names(f"c{at}-", 100), priority=Priority.CRITICAL, limits=(Concurrency("key", 1),), tenant=str(at)
        )
    ledger.submit(READ, "last", priority=Priority.BACKGROUND)
    # The lowest level has its turn, also while the others are only looked at and put aside.
    claims = next(number for number in range(40) if "last" in taken(ledger, 1))
    assert claims < LONGEST_WAIT
    assert faults(ledger.dump()) == []


# ── tenants ──────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("slots", [1, 2, 10])
@pytest.mark.parametrize("other", ["before", "zebra"])
def test_a_flood_of_one_tenant_starves_no_other(ledger: Ledger, slots: int, other: str) -> None:
    ledger.submit(READ, *names("flood", 300), tenant="flood")
    taken(ledger, 5, slots)
    ledger.submit(READ, *names("other", 5), tenant=other)
    order = taken(ledger, -(-12 // slots), slots)
    # A round is one job of each: five are started within six rounds.
    assert sum(request_id.startswith("other") for request_id in order[: 2 * 6]) == 5


def test_many_tenants_are_served_in_turn(ledger: Ledger) -> None:
    for number in range(50):
        ledger.submit(READ, *names(f"t{number:02}-", 4), tenant=f"tenant {number:02}")
    order = taken(ledger, 200)
    for rounds in range(1, 4):
        counts = Counter(request_id[:3] for request_id in order[: 50 * (rounds + 1)])
        assert len(counts) == 50
        assert min(counts.values()) >= rounds


@pytest.mark.parametrize("guest", ["a guest", "zoe"])
def test_a_tenant_that_comes_and_goes_gets_no_advantage(ledger: Ledger, guest: str) -> None:
    ledger.submit(READ, *names("flood", 200), tenant="flood")
    order: list[str] = []
    for number in range(60):
        if not order or order[-1].startswith("guest"):
            ledger.submit(READ, f"guest{number}", tenant=guest)
        order += taken(ledger, 1)
    guests = sum(request_id.startswith("guest") for request_id in order)
    assert 60 // 3 - 1 <= guests <= 60 // 2


def test_a_tenants_name_may_have_any_sign(ledger: Ledger) -> None:
    ledger.submit(READ, "r1", tenant="a:b:2:c")
    ledger.submit(READ, "r2", tenant="")
    assert sorted(taken(ledger, 1, 2)) == ["r1", "r2"]
    assert faults(ledger.dump()) == []


# ── tools and queues ─────────────────────────────────────────────────────────────────────────────────────────────────


def test_tools_share_a_claim_evenly_and_what_one_does_not_need_is_the_others(ledger: Ledger) -> None:
    ledger.submit(READ, *names("r", 50))
    ledger.submit(IDEM, *names("i", 50))
    ledger.submit(KEYED, "k")
    counts = Counter(granted.tool for granted in ledger.claim(21, known=[READ, IDEM, KEYED]))
    assert counts == {READ: 10, IDEM: 10, KEYED: 1}


def test_with_fewer_places_than_tools_the_callers_order_stands(ledger: Ledger) -> None:
    for tool in (READ, IDEM, KEYED):
        ledger.submit(tool, *names(tool, 9))
    order = [READ, IDEM, KEYED]
    for _ in range(3):
        order = [*order[1:], order[0]]
        assert [granted.tool for granted in ledger.claim(2, known=order)] == order[:2]


def test_each_queue_gets_its_share_first_and_then_what_is_left(ledger: Ledger) -> None:
    ledger.submit(READ, *names("m", 30), queue="mail")
    ledger.submit(READ, *names("d", 30))
    shares = [QueueItem("default", 3, 9), QueueItem("mail", 6, 9)]
    counts = Counter(granted.id[0] for granted in ledger.claim(9, queues=shares))
    assert counts == {"d": 3, "m": 6}
    assert len(ledger.claim(20, queues=[QueueItem("mail", 1, 4)])) == 4
    ledger.submit(READ, "alone", queue="empty")
    counts = Counter(granted.id[0] for granted in ledger.claim(9, queues=[QueueItem("nothing", 6, 9), *shares[:1]]))
    assert counts == {"d": 9}


def test_what_shares_a_host_and_what_runs_alone_is_claimed_apart(ledger: Ledger) -> None:
    ledger.submit(READ, *names("r", 9))
    ledger.submit(IDEM, *names("i", 9))
    counts = Counter(granted.tool for granted in ledger.claim(2, solo=3, alone=[IDEM]))
    assert counts == {READ: 2, IDEM: 3}
    assert [granted.tool for granted in ledger.claim(0, solo=1, alone=[IDEM])] == [IDEM]


def test_what_no_worker_knows_stays_ready_and_is_charged_nothing(ledger: Ledger) -> None:
    ledger.submit(KEYED, "r1")
    before = ledger.row("r1")
    ledger.submit(READ, *names("r", 40))
    for _ in range(10):
        ledger.claim(3, known=[READ, IDEM])
    assert ledger.row("r1") == before
    assert (before["state"], before["attempts"]) == ("ready", "0")
    assert [granted.id for granted in ledger.claim(1, known=[KEYED])] == ["r1"]


def test_what_waits_elsewhere_is_not_taken(ledger: Ledger) -> None:
    ledger.submit(READ, "r1", queue="mail")
    assert taken(ledger, 3) == []
    assert cancel(ledger) == "cancelled"
    assert faults(ledger.dump()) == []


@pytest.mark.parametrize("delay_s", [0.0, 1.0])
def test_what_was_come_upon_while_it_was_damaged_is_found_again_once_it_is_repaired(
    ledger: Ledger, delay_s: float
) -> None:
    ledger.submit(IDEM, "r1", delay_s=delay_s, deadline_s=9)
    ledger.edit("HDEL", ledger.keys.row("r1"), "boundary")
    ledger.now_ms += 1_000
    assert taken(ledger, 2) == []
    ledger.now_ms += 7_000
    sweep(ledger)
    assert ledger.run(repairing(IDEM))[0] == "repaired"
    assert faults(ledger.dump()) == []
    assert taken(ledger, 1) == ["r1"]
