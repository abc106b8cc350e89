"""Cancel at every moment: before the mark it is cancelled, after it the outcome is found out (case 34)."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable

import pytest

from kit.asking import cancel, cancelling, sweep
from kit.claims import claimed, version
from kit.ledger import KINDS, MC, TTL_MS, Ledger, ended
from kit.ledger_checks import faults
from kit.ledger_world import Attempt, World
from kit.operator_cases import releasing

READ, IDEM, AUTO, OWN = (
    "read-none",
    "idempotent_mutate-automatic",
    "non_idempotent_mutate-automatic",
    "non_idempotent_mutate-explicit",
)
KEYED = "keyed_mutate-automatic"


def asked(ledger: Ledger, session: str = "s1") -> list[str]:
    """What a turn tells its holder to stop: request id and fence, one after another."""
    reply = ledger.run(ledger.turning(0, session=session))
    start = 6 + int(reply[4])
    return [str(part) for part in reply[start : start + 2 * int(reply[5])]]


@pytest.mark.parametrize("tool", KINDS)
@pytest.mark.parametrize("delay_s", [0.0, 60.0])
def test_what_nobody_holds_never_runs(ledger: Ledger, tool: str, delay_s: float) -> None:
    ledger.submit(tool, "r1", delay_s=delay_s, deadline_s=900)
    assert cancel(ledger) == "cancelled"
    ledger.now_ms += 60_000
    ledger.open("s2")
    sweep(ledger)
    assert ledger.claim(9, session="s2") == []
    row = ledger.row("r1")
    assert (row["state"], row["attempts"], row["cancel"], row["cancel_reason"]) == (
        "cancelled",
        "0",
        "ops",
        "not wanted",
    )
    assert faults(ledger.dump()) == []


@pytest.mark.parametrize("tool", KINDS)
def test_a_holder_is_asked_with_each_turn_until_it_has_ended(ledger: Ledger, tool: str) -> None:
    fence = ledger.granted(tool)
    assert asked(ledger) == []
    assert cancel(ledger) == "asked"
    assert asked(ledger) == asked(ledger) == ["r1", fence]
    assert ledger.settle(ended("r1", fence, "cancelled")) == ["settled"]
    assert asked(ledger) == []
    assert ledger.state("r1") == "cancelled"
    assert faults(ledger.dump()) == []


@pytest.mark.parametrize("verb", ["cancelled", "released", "retry", "timed_out", "not_done", "died"])
@pytest.mark.parametrize("tool", KINDS)
def test_what_was_not_sent_ends_cancelled_however_its_attempt_ends(ledger: Ledger, tool: str, verb: str) -> None:
    fence = ledger.granted(tool)
    cancel(ledger)
    assert ledger.settle(ended("r1", fence, verb, delay_ms=50)) == ["settled"]
    assert ledger.state("r1") == "cancelled"
    assert ledger.claim(9) == []
    assert faults(ledger.dump()) == []


@pytest.mark.parametrize("verb", ["cancelled", "retry", "timed_out", "died", "unknown"])
@pytest.mark.parametrize("tool", [tool for tool in KINDS if tool != READ])
def test_what_may_have_been_sent_is_found_out(ledger: Ledger, tool: str, verb: str) -> None:
    fence = ledger.marked(tool)
    cancel(ledger)
    assert ledger.settle(ended("r1", fence, verb, boundary=MC)) == ["settled"]
    assert ledger.state("r1") == "unknown"
    assert ledger.claim(9) == []
    assert ledger.due() == ["r1"]
    assert faults(ledger.dump()) == []


def test_a_holder_that_has_its_result_completes_all_the_same(ledger: Ledger) -> None:
    fence = ledger.marked(AUTO)
    cancel(ledger)
    assert ledger.settle(ended("r1", fence, "completed", boundary=MC)) == ["settled"]
    assert ledger.state("r1") == "completed"
    assert cancel(ledger) == "ended"


@pytest.mark.parametrize("tool, state", [(OWN, "cancelled"), (READ, "cancelled"), (IDEM, "unknown")])
def test_a_holder_that_is_lost_runs_nothing_again(ledger: Ledger, tool: str, state: str) -> None:
    if tool == IDEM:
        ledger.marked(tool)
    else:
        ledger.granted(tool)
    cancel(ledger)
    ledger.now_ms += TTL_MS
    assert ledger.expire() == "expired"
    assert ledger.state("r1") == state
    assert int(ledger.row("r1")["deaths"]) == 1
    assert faults(ledger.dump()) == []


@pytest.mark.parametrize("said, state", [("completed", "completed"), ("not_executed", "cancelled")])
@pytest.mark.parametrize("tool", [AUTO, IDEM, KEYED])
def test_an_unknown_one_ends_as_is_found_out_and_is_not_run_again(
    ledger: Ledger, tool: str, said: str, state: str
) -> None:
    fence = ledger.marked(tool)
    ledger.settle(ended("r1", fence, "unknown", boundary=MC))
    assert cancel(ledger) == cancel(ledger) == "unknown"
    assert ledger.judge("r1", fence, "resend") == "window"
    assert ledger.judge("r1", fence, said) == "settled"
    assert ledger.state("r1") == state
    assert faults(ledger.dump()) == []


def test_what_was_in_doubt_twice_and_is_proved_not_executed_is_cancelled(ledger: Ledger) -> None:
    """The doubt of its first attempt ends with the proof, and not as a new doubt."""
    ledger.settle(ended("r1", ledger.marked(IDEM), "retry", boundary=MC))
    (second,) = ledger.claim()
    ledger.mark("r1", second.fence)
    ledger.settle(ended("r1", second.fence, "unknown", boundary=MC))
    cancel(ledger)
    assert ledger.judge("r1", second.fence, "not_executed") == "settled"
    assert ledger.state("r1") == "cancelled"
    assert faults(ledger.dump()) == []


def test_a_person_who_says_not_executed_cancels_it(ledger: Ledger) -> None:
    ledger.unknown()
    cancel(ledger)
    assert ledger.run(releasing(ledger, "not_executed")) == ["released", "cancelled"]
    assert faults(ledger.dump()) == []


def test_a_call_in_process_does_not_run_what_was_cancelled(ledger: Ledger) -> None:
    fence = claimed(ledger, IDEM, boundary=MC).fence
    assert cancel(ledger) == "asked"
    ledger.settle(ended("r1", fence, "unknown", boundary=MC))
    assert claimed(ledger, IDEM, expect=version(ledger), auth="reclaim", boundary=MC).word == "known"
    assert ledger.state("r1") == "unknown"


def test_the_first_who_cancels_stays_on_record(ledger: Ledger) -> None:
    ledger.granted(AUTO)
    command = cancelling(ledger)
    ledger.run(command)
    first = ledger.row("r1")
    assert cancel(ledger) == "asked"
    assert ledger.row("r1") == first


STEPS = ("submitted", "claimed", "marked", "sent", "settled")


def _run(world: World, request_id: str, cancel_after: str, rng: random.Random) -> None:
    """One job on a holder that obeys, cancelled at some moment; it hears of that where it looks."""
    ledger = world.ledger

    def moment(step: str) -> bool:
        if step == cancel_after:
            cancel(ledger, request_id)
        return "cancel" in ledger.row(request_id) and rng.random() < 0.7

    world.submit(rng.choice([AUTO, OWN, IDEM, KEYED]), request_id)
    moment("submitted")
    for attempt in world.claim(1):
        _work(world, attempt, moment)


def _work(world: World, attempt: Attempt, moment: Callable[[str], bool]) -> None:
    if moment("claimed"):
        world.settle(attempt, "released")
        return
    if world.mark(attempt) == "stopped":
        # The cancel came before the point of no return.
        world.settle(attempt, "released")
        return
    if moment("marked"):
        # A host may be ended right before, or right after, the request has left.
        if int(attempt.id[1:]) % 2:
            world.send(attempt)
        world.settle(attempt, "cancelled")
        return
    world.send(attempt)
    world.settle(attempt, "cancelled" if moment("sent") else "completed")
    moment("settled")


def test_a_thousand_jobs_cancelled_at_any_moment_tell_the_truth(ledger: Ledger) -> None:
    world, rng = World(ledger), random.Random(34)
    for number in range(1000):
        _run(world, f"r{number}", rng.choice(STEPS), rng)
    found = Counter(ledger.state(f"r{number}") for number in range(1000))
    assert found.keys() == {"cancelled", "unknown", "completed"}
    assert min(found.values()) > 50
    assert world.faults() == []
