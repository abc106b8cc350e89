"""Broken designs, seeded into the product's own scripts: the checks that hold for the real ones must catch each."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pytest

from kit.ledger import NC, TTL_MS, Client, Ledger, ended
from kit.ledger_world import World, lapse
from mycelium.leases.scripts import REGISTRY
from mycelium.ledger.sweep import expire_script

AUTO, OWN, IDEM = "non_idempotent_mutate-automatic", "non_idempotent_mutate-explicit", "idempotent_mutate-automatic"


@dataclass(frozen=True, slots=True)
class Mutant:
    """One broken design: in the text of a script, `right` becomes `wrong`."""

    script: str
    right: str
    wrong: str

    def source(self) -> str:
        text = REGISTRY[f"mycelium.ledger/{self.script}"].source
        assert text.count(self.right) == 1, f"{self.script} has no {self.right!r} (any more)"
        return text.replace(self.right, self.wrong)


@pytest.fixture
def world_of(client: Client, namespace: str) -> Iterator[Callable[[Mutant | None], World]]:
    """A world on the real scripts, or with one of them broken; two workers have their sessions."""
    made: list[Ledger] = []

    def make(mutant: Mutant | None) -> World:
        sources = {mutant.script: mutant.source()} if mutant else {}
        ledger = Ledger(client, f"{namespace}.{len(made)}", sources)
        made.append(ledger)
        ledger.found()
        ledger.open("s1")
        ledger.open("s2", ttl_ms=10 * TTL_MS)
        return World(ledger)

    yield make
    for ledger in made:
        ledger.drop()


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


LOSE = "lose(r, 'session-lost', {ended = '0'}, history_lost, '')"
MINE = "r.fence == fence and r.session == session and (r.state == 'claimed' or r.state == 'attempting')"
MUTANTS = {
    "M1 expiry always requeues": (
        Mutant("expire_if_lapsed", LOSE, "make_ready(r, 'session-lost')"),
        sent_and_lost,
        "E1",
    ),
    "M4 the mark is not durable": (
        Mutant("mark", "if mine then mark(r, boundary, ref)", "if mine then"),
        sent_and_lost,
        "E1",
    ),
    "M5 the mark is not fenced": (Mutant("mark", MINE, "true"), a_zombie_marks, "E1"),
    "M6 the result is not fenced": (
        Mutant(
            "turn",
            "if r.fence ~= fence or not AGAIN[verb] then return 'stale', false end",
            "if r.state == 'attempting' then return 'settled', true end",
        ),
        a_late_failure,
        "E4",
    ),
    "a result of another session": (
        Mutant("turn", "if r.session ~= session then return 'stale', false end", ""),
        somebody_elses_settlement,
        "Q1",
    ),
    "M8 the reaper writes from an old read": (
        Mutant("expire_if_lapsed", f"if r and {MINE} then", "if r then"),
        swept_from_an_old_read,
        "E5",
    ),
    "what is held is forgotten": (
        Mutant("turn", "word == 'stale' and r.session == session", "false"),
        given_back_and_taken_again,
        "Q1",
    ),
    "the holder's boundary does not count": (
        Mutant("turn", "(changes.boundary or r.boundary) == 'not_crossed'", "r.state == 'claimed'"),
        a_mark_is_lost_with_the_server,
        "E1",
    ),
    "an earlier effect is forgotten": (
        Mutant("turn", "r.doubt == '1' and to", "false and to"),
        an_earlier_effect,
        "E4",
    ),
}


@pytest.mark.parametrize("name", MUTANTS)
def test_a_broken_design_is_caught(world_of: Callable[[Mutant | None], World], name: str) -> None:
    mutant, schedule, fault = MUTANTS[name]
    right, broken = world_of(None), world_of(mutant)
    schedule(right)
    assert right.faults() == []
    schedule(broken)
    assert any(found.startswith(fault) for found in broken.faults()), broken.faults()
