"""Broken designs of the verbs that need no queue: the checks that hold for the real ones must catch each."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from kit.claims import deciding, repairing, seen, version
from kit.ledger import NOON_MS, TTL_MS, Client, Passed, ended
from kit.ledger_world import WINDOW_MS, Attempt, World, lapse
from kit.mutant import Design, Mutant, caught, script, worlds
from kit.script_cases import AUTO, IDEM, KEYED


@pytest.fixture
def world_of(client: Client, namespace: str) -> Iterator[Callable[[Mutant | None], World]]:
    """Makes worlds, as they are or broken."""
    with worlds(client, namespace) as make:
        yield make


def sent(world: World, tool: str) -> Attempt:
    """An attempt that has had its effect."""
    world.take(tool)
    world.send(world.attempts[-1])
    return world.attempts[-1]


def again(world: World, tool: str, request_id: str = "r1", **more: Passed) -> None:
    """Another holder claims by the row as it stands, and does what it may."""
    known = len(world.attempts)
    more.setdefault("expect", version(world.ledger))
    world.take(tool, request_id, session="s2", **more)
    for attempt in world.attempts[known:]:
        world.send(attempt)


def two_rule_on_one_version(world: World) -> None:
    """Two holders saw the same failure; the second comes when the first one's attempt has failed, too."""
    world.take(KEYED)
    world.settle(world.attempts[-1], "failed")
    shown = version(world.ledger)
    world.take(KEYED, expect=shown, auth="retry")
    world.settle(world.attempts[-1], "failed")
    world.take(KEYED, session="s2", expect=shown, auth="retry")


def claimed_while_it_is_held(world: World) -> None:
    """A holder comes while another is at it."""
    sent(world, AUTO)
    again(world, AUTO)


def claimed_while_it_is_unknown(world: World) -> None:
    """Nobody knows whether it happened."""
    world.settle(sent(world, AUTO), "unknown")
    again(world, AUTO, auth="reclaim")


def claimed_by_an_old_key(world: World) -> None:
    """The provider has forgotten the key."""
    world.settle(sent(world, KEYED), "unknown")
    world.ledger.now_ms += WINDOW_MS
    again(world, KEYED, auth="key", window_ms=WINDOW_MS)


def waited_for(world: World) -> None:
    """Another one waits for what is held."""
    sent(world, AUTO)
    world.take(AUTO, session="s2", client="c2")


def taken_in_its_grace(world: World) -> None:
    """A session lapsed, and its holder may still be there."""
    world.ledger.open("s3", grace_ms=TTL_MS)
    world.take(AUTO, session="s3")
    lapse(world.ledger)
    world.lapse("r1")


def named_for_two_effects(world: World) -> None:
    """The same request id comes with other arguments."""
    sent(world, AUTO)
    world.take(AUTO, value=2, session="s2")


def queued_for_two_effects(world: World) -> None:
    """The same request id is queued with other arguments."""
    world.submit(AUTO, "r1")
    world.submit(AUTO, "r1", value=2)


def drifted(world: World) -> None:
    """The same dispatch comes with other arguments."""
    world.take(AUTO, None, dispatch_id="d1")
    world.take(AUTO, None, dispatch_id="d1", value=2, session="s2")


def a_zombie_decides(world: World) -> None:
    """A host that was taken for dead decides and sends, while the next attempt is refused and fails."""
    world.take(AUTO, decided=False)
    zombie = world.attempts[-1]
    world.ledger.settle(ended("r1", zombie.fence, "died"))
    world.take(AUTO, decided=False, expect=version(world.ledger), auth="reclaim")
    second = world.attempts[-1]
    world.decide(zombie)
    world.send(zombie)
    world.decide(second)
    world.settle(second, "failed")


def decided_twice(world: World) -> None:
    """What was denied is decided again."""
    world.take(AUTO, decided=False)
    (attempt,) = world.attempts
    world.ledger.run(deciding(world.ledger, "r1", attempt.fence, allowed=0))
    world.decide(attempt)
    world.send(attempt)


def healed_after_the_mark(world: World) -> None:
    """A marked row loses its boundary, is repaired, and its holder dies after its effect."""
    sent(world, AUTO)
    world.ledger.edit("HDEL", world.ledger.keys.row("r1"), "boundary")
    world.ledger.run(repairing(AUTO))
    lapse(world.ledger)
    world.ledger.expire("s1")
    again(world, AUTO, auth="reclaim")


def healed_in_its_history(world: World) -> None:
    """A row loses the number of its last entry, and is repaired."""
    world.ledger.mark("r1", sent(world, AUTO).fence, ref="op-7")
    world.ledger.edit("HDEL", world.ledger.keys.row("r1"), "n")
    world.ledger.run(repairing(AUTO))


def asked_twice_for_one_claim(world: World) -> None:
    """A claim's reply is lost, and the claim is sent again (L9)."""
    command = world.taking(AUTO, op="op-of-this-claim")
    first, second = seen(world.ledger.run(command)), seen(world.ledger.run(command))
    if first != second:
        world.wrong.append(f"L9 the same claim was answered {first}, and then {second}")


def another_session_decides(world: World) -> None:
    """A session decides what another one holds."""
    world.take(AUTO, decided=False)
    (attempt,) = world.attempts
    word = world.ledger.run(deciding(world.ledger, "r1", attempt.fence, session="s2"))[0]
    if word == "decided":
        world.wrong.append("L4 a session decided what another one holds")


def the_handle_of_an_old_attempt(world: World) -> None:
    """What is claimed again has no handle of the attempt before it."""
    attempt = sent(world, IDEM)
    world.ledger.mark("r1", attempt.fence, ref="op-7")
    world.settle(attempt, "unknown")
    again(world, IDEM, auth="reclaim")
    if world.ledger.row("r1").get("ref"):
        world.wrong.append("R1 the provider would be asked about an operation of another attempt")


ORDER = "if r.state ~= 'ready' and r.state ~= 'unknown' then return false end"
DESIGNS: dict[str, Design] = {
    "a claim ignores what it was ruled on": (
        script("claim", "if digits(r.n) ~= expect then return false end", ""),
        two_rule_on_one_version,
        "L3",
    ),
    "a claim takes what is held": (
        script("claim", ORDER, "if HELD[r.state] then return true end"),
        claimed_while_it_is_held,
        "E1",
    ),
    "a claim takes what is unknown": (
        script("claim", "return repeats(strict) or", "return true or"),
        claimed_while_it_is_unknown,
        "E1",
    ),
    "a claim knows no window": (
        script("claim", "age_ms >= 0 and age_ms < window_ms", "true"),
        claimed_by_an_old_key,
        "E1",
    ),
    "who waits writes": (
        script("claim", "  await(r, client)\n", "  if HELD[r.state] then make_unknown(r, 'waited', {}, '') end\n"),
        waited_for,
        "Q1",
    ),
    "a grace is no grace": (
        script("lapse", "> now_ms and 'grace' or 'dead'", "> now_ms and 'dead' or 'dead'"),
        taken_in_its_grace,
        "Q4",
    ),
    "a claim joins another effect": (
        script("claim", "if named ~= effect then return nil, 'conflict', r end", ""),
        named_for_two_effects,
        "K3",
    ),
    "a submit joins another effect": (
        script("submit", "if named ~= effect then return nil, 'conflict', r end", ""),
        queued_for_two_effects,
        "K3",
    ),
    "drift is not noticed": (
        script("claim", "if r then return nil, 'drift', r end", ""),
        drifted,
        "K3",
    ),
    "a decision is not fenced": (
        script("decide", "if r.fence ~= fence then return {'stale'} end", ""),
        a_zombie_decides,
        "E4",
    ),
    "a decision asks for no session": (
        script("decide", "if r.session ~= session then return {'stale'} end", ""),
        another_session_decides,
        "L4",
    ),
    "a denial is not final": (
        script(
            "decide", "if r.session ~= session then return {'stale'} end\nif r.state ~= 'claimed' then", "if false then"
        ),
        decided_twice,
        "L3",
    ),
    "a repair clears a boundary": (
        script("repair", "(HARMLESS[row.state] and 'not_crossed' or 'maybe_crossed')", "'not_crossed'"),
        healed_after_the_mark,
        "E1",
    ),
    "a repair begins a new history": (
        script("repair", "number('n', last_entry())", "number('n', '0')"),
        healed_in_its_history,
        "M3",
    ),
    "a claim that is sent again is another one": (
        script("claim", "redis.call('HGET', row_key(r.id), 'claim_op') == op", "false"),
        asked_twice_for_one_claim,
        "L9",
    ),
    "a handle outlives its attempt": (
        script("claim", "if auth ~= 'key' then redis.call('HDEL', row_key(r.id), 'ref') end", ""),
        the_handle_of_an_old_attempt,
        "R1",
    ),
}


@pytest.mark.parametrize("name", DESIGNS)
def test_a_broken_design_is_caught(world_of: Callable[[Mutant | None], World], name: str) -> None:
    caught(world_of, DESIGNS[name])


def test_a_restart_that_forgot_a_mark_runs_nothing_again(world_of: Callable[[Mutant | None], World]) -> None:
    world = world_of(None)
    ledger = world.ledger
    ledger.submit(AUTO, "r1")
    (attempt,) = world.claim(1)
    attempt.may_send = True
    world.send(attempt)
    ledger.edit("HSET", ledger.keys.meta(), "run_id", "another")
    ledger.found()
    ledger.now_ms = NOON_MS + TTL_MS
    assert ledger.expire("s1") == "expired"
    assert ledger.state("r1") == "unknown"
    assert world.faults() == []
