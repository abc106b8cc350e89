"""Broken queues, limits and cancels, seeded into the product's own scripts: the checks must catch each."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from kit.asking import cancel, pause, requeue, strike, sweep
from kit.ledger import MC, Client, ended
from kit.ledger_world import World
from kit.mutant import Design, Mutant, caught, script, worlds
from kit.script_cases import AUTO, IDEM, OWN, READ
from mycelium.ledger.facets import facet, facets_of
from mycelium.ledger.limits import Concurrency, Rate
from mycelium.ledger.line import Priority

ONE, TWO = Concurrency("one", 1), Concurrency("two", 1)
BUCKET = Rate("bucket", 2, per_s=60, burst=2)
UNIT_MS = 30_000


@pytest.fixture
def world_of(client: Client, namespace: str) -> Iterator[Callable[[Mutant | None], World]]:
    """Makes worlds, as they are or broken."""
    with worlds(client, namespace) as make:
        yield make


def promise(world: World, words: str, kept: bool) -> None:  # noqa: FBT001
    """What a schedule must lead to."""
    if not kept:
        world.wrong.append(words)


def claimed(world: World, slots: int = 1, claims: int = 1, session: str = "s2") -> list[str]:
    return [attempt.id for _ in range(claims) for attempt in world.claim(slots, session)]


def fail(world: World, request_id: str) -> None:
    """Its holder tells that nothing was done."""
    attempt = next(attempt for attempt in reversed(world.attempts) if attempt.id == request_id)
    world.settle(attempt, "failed")


def flooded(world: World) -> None:
    """One tenant has many jobs, another one a few."""
    world.ledger.submit(READ, *(f"a{at}" for at in range(30)), tenant="a")
    world.ledger.submit(READ, "z1", "z2", tenant="z")
    promise(world, "Q2 a flood starves another tenant", {"z1", "z2"} <= set(claimed(world, claims=6)))


def flooded_from_above(world: World) -> None:
    """There is always something of a higher level."""
    world.ledger.submit(READ, "low", priority=Priority.BACKGROUND)
    world.ledger.submit(READ, *(f"h{at}" for at in range(60)), priority=Priority.CRITICAL)
    promise(world, "Q2 the lowest level starves", "low" in claimed(world, claims=38))


def all_of_one_key(world: World) -> None:
    """Three jobs of a key that one may hold, one after another."""
    world.ledger.submit(READ, "r1", "r2", "r3", limits=(ONE,))
    for request_id in ("r1", "r2", "r3"):
        promise(world, f"Q2 {request_id} is not claimed, or not alone", claimed(world, 5) == [request_id])
        if world.ledger.state(request_id) in {"claimed", "attempting"}:
            fail(world, request_id)


def woken_and_cancelled(world: World) -> None:
    """The one that was woken for a place is cancelled."""
    world.ledger.submit(READ, "r1", "r2", "r3", limits=(ONE,))
    claimed(world, 5)
    fail(world, "r1")
    cancel(world.ledger, "r2")
    promise(world, "Q2 a wake-up is lost with the one that was woken", claimed(world, 5) == ["r3"])


def woken_and_in_want_of_another_key(world: World) -> None:
    """The one that was woken for a place waits for another key of its own."""
    world.ledger.submit(READ, "r0", limits=(TWO,))
    world.ledger.submit(READ, "r1", limits=(ONE,))
    world.ledger.submit(READ, "r2", limits=(ONE, TWO))
    world.ledger.submit(READ, "r3", limits=(ONE,))
    claimed(world, 2)
    claimed(world, 2)
    fail(world, "r1")
    claimed(world)
    promise(
        world, "Q2 a wake-up is lost in another gate", world.ledger.state("r3") != "ready" or claimed(world) == ["r3"]
    )


def woken_behind_what_is_fresh(world: World) -> None:
    """One tenant has something fresh whenever a place is free."""
    world.ledger.submit(READ, "a0", limits=(ONE,), tenant="a")
    claimed(world)
    world.ledger.submit(READ, "z", limits=(ONE,), tenant="z")
    claimed(world)
    running = "a0"
    for fresh in range(1, 4):
        world.ledger.submit(READ, f"a{fresh}", limits=(ONE,), tenant="a")
        fail(world, running)
        running = claimed(world, claims=2)[0]
    promise(world, "Q2 who waits for a place is passed over for ever", world.ledger.state("z") != "ready")


def woken_in_order(world: World) -> None:
    """What was put aside stood before what was not."""
    world.ledger.submit(READ, "r1", "r2", limits=(ONE,))
    world.ledger.submit(READ, "r3", "r4")
    claimed(world, 2)
    fail(world, "r1")
    order = claimed(world, claims=2)
    promise(world, f"Q2 they were claimed in the order {order}", order == ["r2", "r4"])


def spent(world: World) -> None:
    """More jobs than a bucket has units."""
    world.ledger.submit(READ, *(f"r{at}" for at in range(4)), limits=(BUCKET,))
    promise(world, "Q2 what was saved up is not spent", len(claimed(world, 9)) >= 2)
    world.ledger.now_ms += UNIT_MS
    promise(world, "Q2 what has come is not spent", len(claimed(world, 9)) >= 1)


def given_back(world: World) -> None:
    """One of two is given back unstarted."""
    world.ledger.submit(READ, *(f"r{at}" for at in range(6)), limits=(BUCKET,))
    attempts = world.claim(9, "s2")
    world.settle(attempts[0], "released")
    world.permission.give_back(attempts[0].fence)
    promise(world, "Q2 what was given back is not spent", len(claimed(world, 9)) >= 1)


def given_back_late(world: World) -> None:
    """One is given back after its unit had come again, and all were spent."""
    world.ledger.submit(READ, *(f"r{at}" for at in range(6)), limits=(BUCKET,))
    (first,) = world.claim(1, "s2")
    world.ledger.now_ms += UNIT_MS
    claimed(world, 9)
    world.settle(first, "released")
    world.permission.give_back(first.fence)
    claimed(world, 9)


def cancelled_while_it_sends(world: World) -> None:
    """A caller cancels, and the request is on its way."""
    world.ledger.submit(AUTO, "r1")
    (attempt,) = world.claim(1)
    world.mark(attempt)
    cancel(world.ledger)
    world.send(attempt)


def cancelled_after_it_was_sent(world: World) -> None:
    """The holder hears of a cancel after its request has left."""
    world.ledger.submit(AUTO, "r1")
    (attempt,) = world.claim(1)
    world.mark(attempt)
    world.send(attempt)
    cancel(world.ledger)
    world.settle(attempt, "cancelled")


def cancelled_between_two_attempts(world: World) -> None:
    """The first of two attempts had its effect, and nobody waits for the second."""
    world.ledger.submit(IDEM, "r1")
    (attempt,) = world.claim(1)
    world.mark(attempt)
    world.send(attempt)
    world.settle(attempt, "retry")
    cancel(world.ledger)


def cancelled_and_failed(world: World) -> None:
    """A cancelled attempt fails, and its class would be retried."""
    world.ledger.submit(READ, "r1")
    (attempt,) = world.claim(1)
    cancel(world.ledger)
    world.permission.cancelled.add("r1")
    world.settle(attempt, "retry")
    world.claim(1)


def failed_after_its_deadline(world: World) -> None:
    """The same, and it is time that has passed."""
    world.ledger.submit(READ, "r1", deadline_s=5)
    (attempt,) = world.claim(1)
    world.ledger.now_ms += 5_000
    world.settle(attempt, "retry")
    world.claim(1)


def given_back_too_late_to_start(world: World) -> None:
    """It should have started by now, and was given back unstarted."""
    world.ledger.submit(READ, "r1", start_by_s=5)
    (attempt,) = world.claim(1)
    world.ledger.now_ms += 5_000
    world.settle(attempt, "released")
    world.claim(1)


def asked_by_its_deadline(world: World) -> None:
    """A holder is asked to stop, and does."""
    world.ledger.submit(OWN, "r1", deadline_s=5)
    (attempt,) = world.claim(1)
    world.ledger.now_ms += 5_000
    sweep(world.ledger)
    world.settle(attempt, "cancelled")


def ordered(world: World) -> None:
    """A tool is paused, and a value struck."""
    world.ledger.submit(READ, "r1")
    world.ledger.submit(OWN, "r2", facets=facets_of({"value": 1}))
    pause(world.ledger, f"tool:{READ}")
    strike(world.ledger, OWN, "value", 1)
    world.permission.paused.add(f"tool:{READ}")
    world.permission.struck.add(f"{OWN}:{facet('value', 1)}")
    world.claim(9)


def requeued(world: World) -> None:
    """A dead one runs again."""
    world.ledger.submit(AUTO, "r1")
    (attempt,) = world.claim(1)
    world.ledger.settle(ended("r1", attempt.fence, "failed", boundary=MC))
    requeue(world.ledger)


WORD = "tonumber(r.deadline) <= now_ms then return 'deadline' end"
DESIGNS: dict[str, Design] = {
    "a tenant's turn does not pass": (
        script("turn", "digits(tonumber(pass) + 1), tenant", "digits(tonumber(pass)), tenant"),
        flooded,
        "Q2 a flood",
    ),
    "levels do not age": (
        script("turn", "passed[level] = passed[level] + 1", "passed[level] = 0"),
        flooded_from_above,
        "Q2 the lowest",
    ),
    "nobody is woken": (
        script("turn", "for _, gate in ipairs(gates) do wake(gate, places[gate]) end", ""),
        all_of_one_key,
        "Q2 r2",
    ),
    "a place is never left": (
        script("turn", "redis.call('SREM', running_key(limit.key), r.id) == 1", "true"),
        all_of_one_key,
        "Q1 the keys",
    ),
    "a claim does not see what it takes itself": (
        script("turn", "occupying[one] or ", ""),
        all_of_one_key,
        "Q2 r1",
    ),
    "a wake-up goes with the one that was woken": (
        script("cancel", "if not HELD[to] then pass_on(r) end", ""),
        woken_and_cancelled,
        "Q2 a wake-up",
    ),
    "a wake-up ends in another gate": (
        script("turn", "pass_on(r, limits, gate)", ""),
        woken_and_in_want_of_another_key,
        "Q2 a wake-up",
    ),
    "who was woken stands last in the round": (
        script("turn", "if first and late < #entering[line] then", "if false then"),
        woken_behind_what_is_fresh,
        "Q2 who waits",
    ),
    "who was woken goes to the end of its line": (
        script("turn", "places[#places + 1] = place[2] or digits(order)", "places[#places + 1] = digits(order + 99)"),
        woken_in_order,
        "Q2 they",
    ),
    "nothing is spent": (script("turn", "spend(limit.key, limit.cost_ms)", ""), spent, "Q8 of bucket"),
    "all is spent twice": (
        script("turn", "spend(limit.key, limit.cost_ms)", "spend(limit.key, 2 * limit.cost_ms)"),
        spent,
        "Q2 what was saved up",
    ),
    "a bucket's gate is not opened": (script("turn", "open_gates(slots + solo)", ""), spent, "Q2 what has come"),
    "twice as much is given back": (
        script("turn", "fill(key, full - ms, since)", "fill(key, full - 2 * ms, since)"),
        given_back,
        "Q8 of bucket",
    ),
    "nothing is given back": (
        script("turn", "fill(key, full - ms, since)", ""),
        given_back,
        "Q2 what was given back",
    ),
    "what has come again is given back": (
        script("turn", "if spent_ms < since then return end", ""),
        given_back_late,
        "Q8 of bucket",
    ),
    "a cancel of what is marked says cancelled": (
        script("cancel", "if HELD[r.state] or r.state == 'unknown' then", "if r.state == 'unknown' then"),
        cancelled_while_it_sends,
        "E4",
    ),
    "a holder's cancel is taken for proof": (
        script("turn", "if sent_by(r, changes) then return make_unknown(r, 'cancelled-late', changes, body) end", ""),
        cancelled_after_it_was_sent,
        "E4",
    ),
    "a cancel forgets the attempt before": (
        script("cancel", "if r.doubt == '1' then return make_unknown(r, why, changes, '') end\n", "r.doubt = nil\n"),
        cancelled_between_two_attempts,
        "E4",
    ),
    "a cancelled one is retried": (
        script("turn", "if r.cancel then return 'cancelled' end", ""),
        cancelled_and_failed,
        "E4",
    ),
    "a deadline counts for the first attempt only": (
        script("turn", WORD, WORD.replace("<= now_ms", "<= now_ms and r.attempts == 0")),
        failed_after_its_deadline,
        "Q2 r1",
    ),
    "what should have started starts": (
        script("turn", "if r.start_by and r.attempts == 0 and", "if false and"),
        given_back_too_late_to_start,
        "Q2 r1",
    ),
    "a holder is asked for ever": (
        script("turn", "if r.cancel or r.deadline then", "if r.cancel then"),
        asked_by_its_deadline,
        "Q1 s1",
    ),
    "a pause is not kept": (
        script("turn", "if rows and pause_of(queue .. ':0:' .. tool.name .. ':') then", "if false then"),
        ordered,
        "Q2 r1",
    ),
    "a strike is not kept": (script("turn", "if strike then return strike end", ""), ordered, "Q2 r2"),
    "a requeue does not fence": (
        script("requeue", "r.fence = digits(redis.call('HINCRBY', meta_key(), 'fence', 1))", ""),
        requeued,
        "L4",
    ),
}


@pytest.mark.parametrize("name", DESIGNS)
def test_a_broken_queue_is_caught(world_of: Callable[[Mutant | None], World], name: str) -> None:
    caught(world_of, DESIGNS[name])
