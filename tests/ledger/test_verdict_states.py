"""The state machine by table, its second half: what a verdict does, and what a stricter declaration does."""

from __future__ import annotations

import json

import pytest

from kit.ledger import KINDS, MC, TTL_MS, Ledger, ended
from kit.ledger_checks import faults
from mycelium.ledger.states import REPEATABLE, BoundaryMode, EffectClass, Settle, State
from mycelium.ledger.turn import KnownItem, QueueItem, turn_script

AUTO, OWN, READ = "non_idempotent_mutate-automatic", "non_idempotent_mutate-explicit", "read-none"
KEYED, IDEM = "keyed_mutate-automatic", "idempotent_mutate-automatic"
WRITES = [tool for tool in KINDS if tool != READ]
ONCE = [tool for tool in WRITES if KINDS[tool].effect_class not in REPEATABLE]


# ── verdicts ─────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("tool", ONCE)
@pytest.mark.parametrize("said, state", [("completed", "completed"), ("not_executed", "ready"), ("unknown", "unknown")])
def test_what_a_verdict_does(ledger: Ledger, tool: str, said: str, state: str) -> None:
    fence = ledger.unknown(tool)
    assert ledger.judge("r1", fence, said, body=b"7") == "settled"
    row = ledger.row("r1")
    assert row["state"] == state
    assert (int(row["fence"]) > int(fence)) == (said == "not_executed")
    # The old attempt is out for ever (R6).
    if said == "not_executed":
        assert [ledger.mark("r1", fence), *ledger.settle(ended("r1", fence, "completed"))] == ["stale", "stale"]
    assert faults(ledger.dump()) == []


@pytest.mark.parametrize("tool", ONCE)
def test_only_a_keyed_write_is_sent_again_by_key_inside_its_window(ledger: Ledger, tool: str) -> None:
    fence = ledger.unknown(tool)
    keyed = KINDS[tool].effect_class is EffectClass.KEYED_MUTATE
    ledger.now_ms += 10_000
    assert ledger.judge("r1", fence, "resend", window_ms=10_000) == "window"
    assert ledger.judge("r1", fence, "resend", window_ms=10_001) == ("settled" if keyed else "window")
    assert ledger.state("r1") == ("ready" if keyed else "unknown")


def test_the_window_runs_from_the_first_dispatch_of_all(ledger: Ledger) -> None:
    fence = ledger.unknown(KEYED)
    first = ledger.row("r1")["first"]
    ledger.now_ms += 1000
    ledger.judge("r1", fence, "resend")
    (grant,) = ledger.claim()
    ledger.mark("r1", grant.fence)
    assert ledger.row("r1")["first"] == first
    ledger.settle(ended("r1", grant.fence, "unknown", boundary=MC))
    ledger.judge("r1", grant.fence, "not_executed")
    assert "first" not in ledger.row("r1")


def test_what_was_sent_again_by_key_does_not_fail_by_what_the_second_sending_did_not_do(ledger: Ledger) -> None:
    ledger.judge("r1", ledger.unknown(KEYED), "resend")
    (grant,) = ledger.claim()
    ledger.settle(ended("r1", grant.fence, "failed"))
    assert ledger.state("r1") == "unknown"
    assert ledger.judge("r1", grant.fence, "not_executed") == "settled"
    (last,) = ledger.claim()
    ledger.settle(ended("r1", last.fence, "failed"))
    assert ledger.state("r1") == "failed"


def test_not_executed_runs_again_while_attempts_last_and_then_has_failed(ledger: Ledger) -> None:
    ledger.submit(AUTO, "r1")
    for _ in range(3):
        (grant,) = ledger.claim()
        ledger.mark("r1", grant.fence)
        ledger.settle(ended("r1", grant.fence, "unknown", boundary=MC))
        assert ledger.judge("r1", grant.fence, "not_executed", body=b'{"error":"NotExecuted"}') == "settled"
    assert ledger.state("r1") == "failed"
    assert faults(ledger.dump()) == []


def test_an_unknown_verdict_counts_once_whoever_sends_it_again(ledger: Ledger) -> None:
    fence = ledger.unknown()
    for _ in range(3):
        assert ledger.judge("r1", fence, "unknown", asks=0) == "settled"
    assert ledger.row("r1")["asks"] == "1"
    assert ledger.due() == []
    ledger.now_ms += 500
    assert ledger.due() == ["r1"]


def test_the_handle_of_an_old_attempt_is_not_asked_about_for_the_next(ledger: Ledger) -> None:
    fence = ledger.marked(AUTO)
    ledger.mark("r1", fence, MC, "op-1")
    ledger.settle(ended("r1", fence, "unknown", boundary=MC))
    assert ledger.row("r1")["ref"] == "op-1"
    ledger.judge("r1", fence, "not_executed")
    assert ledger.row("r1")["ref"] == ""


def test_the_error_of_an_unknown_is_not_the_result_of_the_known(ledger: Ledger) -> None:
    fence = ledger.unknown(body=json.dumps({"error": "TimeoutError"}).encode())
    assert ledger.judge("r1", fence, "completed") == "settled"
    assert "result:r1" not in ledger.dump()


# ── a tool that was declared anew ────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("here", KINDS)
@pytest.mark.parametrize("submitted", KINDS)
def test_where_row_and_worker_differ_the_stricter_declaration_holds(ledger: Ledger, submitted: str, here: str) -> None:
    ledger.submit(submitted, "r1")
    facts = KINDS[here]
    known = [KnownItem(submitted, facts.effect_class, str(facts.boundary_mode), int(facts.again), 0)]
    reply = ledger.run(
        turn_script(
            session="s1",
            epoch=1,
            lane=0,
            op="1",
            slots=1,
            solo=0,
            ended=[],
            known=known,
            queue=[QueueItem("default", 9, 9)],
        )
    )
    row, both = ledger.row("r1"), (KINDS[submitted], facts)
    classes, modes = list(EffectClass), [BoundaryMode.NONE, BoundaryMode.EXPLICIT, BoundaryMode.AUTOMATIC]
    assert row["class"] == max((one.effect_class for one in both), key=classes.index)
    assert row["mode"] == max((BoundaryMode(str(one.boundary_mode)) for one in both), key=modes.index)
    assert row["state"] == ("claimed" if row["mode"] == BoundaryMode.AUTOMATIC else "attempting")
    # What the holder is told is what is on record.
    assert reply[-8:-6] == [row["class"], row["mode"]]


def test_a_read_that_became_a_write_is_not_run_twice_after_a_death(ledger: Ledger) -> None:
    ledger.submit(READ, "r1")
    known = [KnownItem(READ, "non_idempotent_mutate", "automatic", 1, 0)]
    ledger.run(
        turn_script(
            session="s1",
            epoch=1,
            lane=0,
            op="1",
            slots=1,
            solo=0,
            ended=[],
            known=known,
            queue=[QueueItem("default", 9, 9)],
        )
    )
    assert ledger.mark("r1", ledger.row("r1")["fence"]) == "marked"
    ledger.now_ms += TTL_MS
    assert ledger.expire() == "expired"
    assert ledger.row("r1")["state"] == State.UNKNOWN


def test_what_is_given_back_for_later_waits_and_is_not_charged(ledger: Ledger) -> None:
    fence = ledger.granted(AUTO)
    assert ledger.settle(ended("r1", fence, Settle.RELEASED, delay_ms=5000)) == ["settled"]
    assert (ledger.row("r1")["state"], ledger.row("r1")["attempts"]) == (State.DELAYED, "0")
    assert ledger.settle(ended("r1", fence, Settle.RELEASED, delay_ms=5000)) == ["settled"]
    assert faults(ledger.dump()) == []
    ledger.now_ms += 5000
    assert ledger.promote() == 1


@pytest.mark.parametrize("field, word", [("class", "reed"), ("mode", "auto"), ("boundary", "crost")])
def test_a_word_that_is_none_of_ours_is_corrupt_and_never_granted(ledger: Ledger, field: str, word: str) -> None:
    ledger.submit(READ, "r1")
    ledger.client.hset(ledger.keys.row("r1"), field, word)
    assert ledger.claim() == []


def test_what_may_have_happened_and_may_not_repeat_any_more_is_not_granted_again(ledger: Ledger) -> None:
    fence = ledger.marked(IDEM)
    assert ledger.settle(ended("r1", fence, Settle.RETRY, boundary=MC)) == ["settled"]
    assert ledger.row("r1")["doubt"] == "1"
    known = [KnownItem(IDEM, "non_idempotent_mutate", "automatic", 1, 0)]
    reply = ledger.run(
        turn_script(
            session="s1",
            epoch=1,
            lane=0,
            op="9",
            slots=1,
            solo=0,
            ended=[],
            known=known,
            queue=[QueueItem("default", 9, 9)],
        )
    )
    assert len(reply) == 6
    assert (ledger.row("r1")["state"], ledger.row("r1")["class"]) == (State.UNKNOWN, "non_idempotent_mutate")
    assert faults(ledger.dump()) == []


@pytest.mark.parametrize("over, known_ended", [(0, "0"), (1, "1")])
def test_a_late_word_of_an_end_counts_only_if_it_is_one(ledger: Ledger, over: int, known_ended: str) -> None:
    fence = ledger.marked(AUTO)
    ledger.now_ms += TTL_MS
    assert ledger.expire() == "expired"
    assert ledger.settle(ended("r1", fence, Settle.UNKNOWN, boundary=MC, over=over)) == ["settled"]
    assert ledger.row("r1")["ended"] == known_ended
