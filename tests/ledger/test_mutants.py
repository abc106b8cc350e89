"""Broken designs, seeded into the product's own scripts: the checks that hold for the real ones must catch each."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from kit.ledger import MC, NC, Client, ended
from kit.ledger_world import WINDOW_MS, World, lapse
from kit.mutant import Design, Forgetful, Judged, Mutant, Scripted, caught, forgetting, script, worlds
from kit.operator_cases import releasing
from kit.script_cases import AUTO, IDEM, KEYED, OWN
from mycelium.ledger.sweep import expire_script


@pytest.fixture
def world_of(client: Client, namespace: str) -> Iterator[Callable[[Mutant | None], World]]:
    """Makes worlds, as they are or broken."""
    with worlds(client, namespace) as make:
        yield make


def sent_and_lost(world: World) -> None:
    """A worker dies after its effect; whoever claims next works as usual."""
    world.ledger.submit(AUTO, "r1")
    (attempt,) = world.claim(1)
    world.mark(attempt)
    world.send(attempt)
    lapse(world.ledger)
    world.ledger.expire("s1")
    for again in world.claim(1, "s2"):
        world.mark(again)
        world.send(again)


def a_zombie_marks(world: World) -> None:
    """A host that was taken for dead goes on, while the next attempt has its effect."""
    world.ledger.submit(OWN, "r1")
    (zombie,) = world.claim(1)
    world.ledger.settle(ended("r1", zombie.fence, "died"))
    (second,) = world.claim(1)
    for attempt in (second, zombie):
        world.mark(attempt)
        world.send(attempt)


def a_late_failure(world: World) -> None:
    """The first attempt, which sent nothing, fails late, while the second has its effect."""
    world.ledger.submit(AUTO, "r1")
    (first,) = world.claim(1)
    lapse(world.ledger)
    world.ledger.expire("s1")
    (second,) = world.claim(1, "s2")
    world.mark(second)
    world.settle(first, "failed")
    world.send(second)


def somebody_elses_settlement(world: World) -> None:
    """A session settles what another one holds."""
    world.ledger.submit(AUTO, "r1")
    (attempt,) = world.claim(1)
    world.mark(attempt)
    world.send(attempt)
    world.ledger.settle(ended("r1", attempt.fence, "completed"), session="s2")


def swept_from_an_old_read(world: World) -> None:
    """The sweeper writes by what was held before the settlement."""
    ledger = world.ledger
    ledger.submit(AUTO, "r1")
    (attempt,) = world.claim(1)
    world.mark(attempt)
    world.send(attempt)
    world.settle(attempt, "completed")
    ledger.edit("HSET", ledger.keys.held("s1"), "r1", attempt.fence)
    lapse(ledger)
    ledger.run(expire_script(session="s1", page=10))


def given_back_and_taken_again(world: World) -> None:
    """The settlement of an old attempt, sent again, meets the next attempt of the same session."""
    ledger = world.ledger
    ledger.submit(IDEM, "r1")
    (first,) = world.claim(1)
    world.settle(first, "released")
    world.claim(1)
    ledger.settle(ended("r1", first.fence, "released", boundary=NC))


def a_mark_is_lost_with_the_server(world: World) -> None:
    """The store forgot the mark; the worker that knows of it tells that its host died."""
    world.ledger.submit(AUTO, "r1")
    (attempt,) = world.claim(1)
    attempt.may_send = True
    world.send(attempt)
    world.settle(attempt, "died")
    for again in world.claim(1):
        world.mark(again)
        world.send(again)


def an_earlier_effect(world: World) -> None:
    """The first of two attempts of an idempotent tool had its effect; the second proves that it had none."""
    world.ledger.submit(IDEM, "r1")
    (first,) = world.claim(1)
    world.mark(first)
    world.send(first)
    world.settle(first, "retry")
    (second,) = world.claim(1)
    world.settle(second, "failed")


def absent_and_late(world: World) -> None:
    """The provider shows nothing, since the request is still on its way; it arrives when the next one is sent."""
    world.ledger.submit(OWN, "r1")
    (slow,) = world.claim(1)
    world.mark(slow)
    world.ledger.settle(ended("r1", slow.fence, "unknown", boundary=MC, over=0))
    world.reconcile("r1")
    for attempt in (*world.claim(1, "s2"), slow):
        if attempt is not slow:
            world.mark(attempt)
        world.send(attempt)


def absent_and_the_last_attempt(world: World) -> None:
    """As before; no attempt is left, so that "absent" would be the last word."""
    world.ledger.submit(OWN, "r1")
    (slow,) = world.claim(1)
    world.mark(slow)
    world.ledger.edit("HSET", world.ledger.keys.row("r1"), "max_attempts", "1")
    world.ledger.settle(ended("r1", slow.fence, "unknown", boundary=MC, over=0))
    world.reconcile("r1")
    world.send(slow)


def another_of_the_same_name(world: World) -> None:
    """A host of the same worker was taken for dead, and tells a failure while the next one has its effect."""
    world.ledger.submit(OWN, "r1")
    (first,) = world.claim(1)
    world.ledger.settle(ended("r1", first.fence, "died"))
    (second,) = world.claim(1)
    world.mark(second)
    world.settle(first, "failed")
    world.send(second)


def released_at_once(world: World) -> None:
    """A person says "not executed" of an attempt that may still send."""
    world.ledger.submit(OWN, "r1")
    (slow,) = world.claim(1)
    world.mark(slow)
    world.ledger.settle(ended("r1", slow.fence, "unknown", boundary=MC, over=0))
    world.ledger.run(releasing(world.ledger, "not_executed"))
    for attempt in world.claim(1, "s2"):
        world.mark(attempt)
        world.send(attempt)
    world.send(slow)


def released(world: World) -> None:
    """A person says "not executed" of an attempt that is over."""
    world.ledger.unknown(OWN)
    world.ledger.run(releasing(world.ledger, "not_executed"))


def released_twice(world: World) -> None:
    """A second person says the opposite of the first."""
    world.ledger.unknown(AUTO)
    world.effects["r1"] += 1
    world.ledger.run(releasing(world.ledger, "completed"))
    world.ledger.run(releasing(world.ledger, "not_executed", override=1))


def resent_too_late(world: World) -> None:
    """The provider has forgotten the key."""
    ledger = world.ledger
    ledger.submit(KEYED, "r1")
    (first,) = world.claim(1)
    world.mark(first)
    world.send(first)
    world.settle(first, "unknown")
    ledger.now_ms += WINDOW_MS
    ledger.judge("r1", first.fence, "resend", window_ms=WINDOW_MS)
    for attempt in world.claim(1, "s2"):
        world.mark(attempt)
        world.send(attempt)


def a_mark_is_forgotten(world: World) -> None:
    """The store acknowledges a mark and loses it; the holder sends, and dies."""
    world.ledger.submit(AUTO, "r1")
    (attempt,) = world.claim(1)
    forgetting(world, "r1", lambda: world.mark(attempt))
    world.send(attempt)
    lapse(world.ledger)
    world.ledger.expire("s1")
    for again in world.claim(1, "s2"):
        world.mark(again)
        world.send(again)


def a_result_is_forgotten(world: World) -> None:
    """The store acknowledges a result and loses it; the provider de-duplicates, and the row is settled anew."""
    world.ledger.submit(KEYED, "r1")
    (attempt,) = world.claim(1)
    world.mark(attempt)
    world.send(attempt)
    forgetting(world, "r1", lambda: world.settle(attempt, "completed"))
    lapse(world.ledger)
    world.ledger.expire("s1")


LOSE = "lose(r, 'session-lost', {ended = mine[3] == '1' and '1' or '0'}, history_lost, '')"
MINE = "r.fence == fence and r.session == session and (r.state == 'claimed' or r.state == 'attempting')"
CURRENT = "if r.fence ~= fence or not AGAIN[verb] then return 'stale', false end"
DESIGNS: dict[str, Design] = {
    "M1 expiry always requeues": (
        script("expire_if_lapsed", LOSE, "make_ready(r, 'session-lost')"),
        sent_and_lost,
        "E1",
    ),
    "M2 absent is proof, and runs again": (
        Judged("if wait_s > 0:", "if wait_s > 1e9:"),
        absent_and_late,
        "E1",
    ),
    "M3 absent is proof, and is recorded": (
        Judged("if wait_s > 0:", "if wait_s > 1e9:"),
        absent_and_the_last_attempt,
        "E4",
    ),
    "M4 the mark is not durable": (
        script("mark", "if word == 'marked' then mark(r, boundary, ref)", "if mine then"),
        sent_and_lost,
        "E1",
    ),
    "M5 the mark is not fenced": (script("mark", MINE, "true"), a_zombie_marks, "E1"),
    "M6 the result is not fenced": (
        script("turn", CURRENT, "if r.state == 'attempting' then return 'settled', true end"),
        a_late_failure,
        "E4",
    ),
    "M7 the owner is a name": (
        script("turn", CURRENT, "if not AGAIN[verb] then return 'stale', false end"),
        another_of_the_same_name,
        "E4",
    ),
    "a result of another session": (
        script("turn", "if r.session ~= session then return 'stale', false end", ""),
        somebody_elses_settlement,
        "Q1",
    ),
    "M8 the reaper writes from an old read": (
        script("expire_if_lapsed", f"if r and {MINE} then", "if r then"),
        swept_from_an_old_read,
        "E5",
    ),
    "M9 a release leaves the old attempt alive": (
        script("release", "if verified == 'not_executed' and not over then", "if false then"),
        released_at_once,
        "E1",
    ),
    "M9 a release does not fence": (
        script(
            "release",
            "changes.fence = digits(redis.call('HINCRBY', meta_key(), 'fence', 1))",
            "changes.fence = r.fence",
        ),
        released,
        "L4",
    ),
    "M10 the window of the key is not checked": (
        script("verdict", "age_ms >= 0 and age_ms < window_ms", "true"),
        resent_too_late,
        "E1",
    ),
    "M11 the store loses a mark": (Forgetful(), a_mark_is_forgotten, "E1"),
    "M12 the store loses a result, and the provider has keys": (Forgetful(), a_result_is_forgotten, "M3"),
    "a person is heard twice": (
        Scripted(
            "release",
            (
                ("if last[2] and last[3] == r.fence then return {'already', r.state} end", ""),
                ("if r.state ~= 'unknown' then", "if r.state == 'never' then"),
            ),
        ),
        released_twice,
        "E5",
    ),
    "what is held is forgotten": (
        script("turn", "word == 'stale' and r.session == session", "false"),
        given_back_and_taken_again,
        "Q1",
    ),
    "the holder's boundary does not count": (
        script("turn", "(changes.boundary or r.boundary) == 'not_crossed'", "r.state == 'claimed'"),
        a_mark_is_lost_with_the_server,
        "E1",
    ),
    "an earlier effect is forgotten": (
        script("turn", "r.doubt == '1' and to", "false and to"),
        an_earlier_effect,
        "E4",
    ),
}


@pytest.mark.parametrize("name", DESIGNS)
def test_a_broken_design_is_caught(world_of: Callable[[Mutant | None], World], name: str) -> None:
    caught(world_of, DESIGNS[name])
