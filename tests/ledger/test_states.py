"""The state machine by table: where each row goes from each state, by settlement, loss and sweep."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from kit.ledger import CR, KINDS, MC, NC, TTL_MS, Ledger, ended
from kit.ledger_checks import faults
from mycelium.ledger.states import REPEATABLE, BoundaryMode, Settle, State

AUTO, OWN, READ = "non_idempotent_mutate-automatic", "non_idempotent_mutate-explicit", "read-none"
KEYED, IDEM = "keyed_mutate-automatic", "idempotent_mutate-automatic"
WRITES = [tool for tool in KINDS if tool != READ]
ONCE = [tool for tool in WRITES if KINDS[tool].effect_class not in REPEATABLE]


# ── claim and loss ───────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("tool", KINDS)
def test_a_claim_takes_the_decision_along_unless_the_runtime_marks(ledger: Ledger, tool: str) -> None:
    ledger.granted(tool)
    automatic = KINDS[tool].boundary_mode is BoundaryMode.AUTOMATIC
    row = ledger.row("r1")
    assert (row["state"], row["boundary"]) == ("claimed" if automatic else "attempting", "not_crossed")


@pytest.mark.parametrize("tool", KINDS)
def test_what_is_lost_before_its_mark_is_ready_again_and_a_death_is_counted(ledger: Ledger, tool: str) -> None:
    ledger.granted(tool)
    ledger.now_ms += TTL_MS
    assert ledger.expire() == "expired"
    row = ledger.row("r1")
    assert (row["state"], row["deaths"], row["session"], row["attempts"]) == ("ready", "1", "", "1")
    assert faults(ledger.dump()) == []


@pytest.mark.parametrize("tool", WRITES)
@pytest.mark.parametrize("boundary", [MC, CR])
def test_what_is_lost_after_its_mark_is_unknown_unless_it_may_repeat(ledger: Ledger, tool: str, boundary: str) -> None:
    fence = ledger.marked(tool)
    if boundary == CR:
        ledger.mark("r1", fence, CR)
    ledger.now_ms += TTL_MS
    ledger.expire()
    row = ledger.row("r1")
    repeatable = KINDS[tool].effect_class in REPEATABLE
    assert row["state"] == ("ready" if repeatable else "unknown")
    assert (row["boundary"], row["ended"], row["deaths"]) == (boundary, "0", "1")
    assert ledger.due() == ([] if repeatable else ["r1"])
    assert faults(ledger.dump()) == []


@pytest.mark.parametrize("tool", KINDS)
def test_where_history_may_be_lost_an_unmarked_write_proves_nothing(ledger: Ledger, tool: str) -> None:
    ledger.granted(tool)
    ledger.edit("HSET", ledger.keys.meta(), "epoch", "2")
    ledger.now_ms += TTL_MS
    ledger.expire()
    repeatable = KINDS[tool].effect_class in REPEATABLE
    assert ledger.state("r1") == ("ready" if repeatable else "unknown")


@pytest.mark.parametrize("tool", KINDS)
@pytest.mark.parametrize("marked", [False, True])
def test_every_worker_dies_and_the_row_comes_to_an_end(ledger: Ledger, tool: str, *, marked: bool) -> None:
    ledger.submit(tool, "r1")
    for life in range(KINDS[tool].max_deaths):
        session = f"life{life}"
        ledger.open(session)
        granted = ledger.claim(session=session)
        for grant in granted:
            if marked and tool != READ:
                ledger.mark("r1", grant.fence, session=session)
        ledger.now_ms += TTL_MS
        ledger.expire(session)
    assert ledger.state("r1") == ("unknown" if marked and tool != READ else "dead")
    assert ledger.claim(session="s1") == []
    assert faults(ledger.dump()) == []


def test_a_long_list_of_the_dead_is_taken_in_pages(ledger: Ledger) -> None:
    ledger.submit(READ, *[f"r{number}" for number in range(7)])
    ledger.claim(7)
    ledger.now_ms += TTL_MS
    assert [ledger.expire(page=3) for _ in range(4)] == ["more", "more", "expired", "gone"]
    assert ledger.promote() == 0
    assert faults(ledger.dump()) == []


def test_a_session_that_is_being_taken_cannot_come_back_nor_claim_nor_mark(ledger: Ledger) -> None:
    ledger.submit(AUTO, "r1", "r2")
    one, two = ledger.claim(2)
    ledger.now_ms += TTL_MS
    assert ledger.expire(page=1) == "more"
    ledger.now_ms -= TTL_MS  # the server's clock steps back
    assert ledger.renew() == "lost"
    assert ledger.run(ledger.turning(1))[0] == "lost"
    assert {ledger.run(ledger.marking())[0], ledger.mark("r1", one.fence), ledger.mark("r2", two.fence)} == {"lost"}
    assert ledger.expire() == "expired"


# ── settlements ──────────────────────────────────────────────────────────────────────────────────────────────────────

SENT: dict[str, tuple[str, str]] = {
    # what the holder tells, of one that marked: state of a class that runs once, of one that may repeat
    "completed": ("completed", "completed"),
    "failed": ("failed", "failed"),
    "unknown": ("unknown", "unknown"),
    "retry": ("unknown", "ready"),
    "died": ("unknown", "ready"),
    "released": ("unknown", "ready"),
}
UNSENT = {"failed": "failed", "unknown": "unknown", "retry": "ready", "died": "ready", "released": "ready"}


@pytest.mark.parametrize("tool", WRITES)
@pytest.mark.parametrize("verb", SENT)
def test_how_a_marked_attempt_ends(ledger: Ledger, tool: str, verb: str) -> None:
    fence = ledger.marked(tool)
    item = ended("r1", fence, verb, boundary=MC, error="Boom", ref="op-1", body=b'{"x":1}')
    assert ledger.settle(item) == ["settled"]
    row, dump = ledger.row("r1"), ledger.dump()
    assert row["state"] == SENT[verb][KINDS[tool].effect_class in REPEATABLE]
    assert (row["ended"], row["error"]) == ("1", "Boom")
    if row["state"] != "ready":
        # What the holder told is kept, whatever it was told with.
        assert row["ref"] == "op-1"
        assert dump["result:r1"].value == '{"x":1}'
    assert row["boundary"] == ("crossed" if verb == "completed" else "maybe_crossed")
    assert faults(dump) == []


@pytest.mark.parametrize("tool", KINDS)
@pytest.mark.parametrize("verb", UNSENT)
def test_how_an_attempt_ends_that_sent_nothing(ledger: Ledger, tool: str, verb: str) -> None:
    fence = ledger.granted(tool)
    assert ledger.settle(ended("r1", fence, verb)) == ["settled"]
    row = ledger.row("r1")
    assert row["state"] == UNSENT[verb]
    assert row["attempts"] == ("0" if verb == "released" else "1")
    assert faults(ledger.dump()) == []


def test_whoever_gives_back_unstarted_work_is_believed_mark_or_no_mark(ledger: Ledger) -> None:
    fence = ledger.marked(AUTO)
    assert ledger.settle(ended("r1", fence, "released", boundary=NC)) == ["settled"]
    assert ledger.state("r1") == "ready"


def test_any_other_settlement_cannot_take_a_mark_back(ledger: Ledger) -> None:
    fence = ledger.marked(AUTO)
    ledger.mark("r1", fence, CR)
    assert ledger.settle(ended("r1", fence, "died", boundary=NC)) == ["settled"]
    assert (ledger.state("r1"), ledger.row("r1")["boundary"]) == ("unknown", "crossed")


def test_a_retry_waits_and_attempts_are_used_up(ledger: Ledger) -> None:
    ledger.submit(READ, "r1")
    for failure in range(3):
        (grant,) = ledger.claim()
        assert grant.attempt == failure + 1
        ledger.settle(ended("r1", grant.fence, "retry", delay_ms=1000, body=b'{"error":"Boom"}'))
        assert ledger.claim() == []
        ledger.now_ms += 1000
        assert ledger.promote() == (failure < 2)
        ledger.renew()
    assert ledger.state("r1") == "dead"
    assert ledger.dump()["result:r1"].value == '{"error":"Boom"}'


def test_an_idempotent_write_that_used_up_its_attempts_may_have_had_its_effect(ledger: Ledger) -> None:
    ledger.submit(IDEM, "r1")
    for _ in range(3):
        (grant,) = ledger.claim()
        ledger.mark("r1", grant.fence)
        ledger.settle(ended("r1", grant.fence, "retry", boundary=MC))
    assert ledger.state("r1") == "unknown"


@pytest.mark.parametrize("last", ["failed", "retry", "died"])
def test_an_earlier_attempt_in_doubt_is_not_settled_by_a_later_one(ledger: Ledger, last: str) -> None:
    first = ledger.marked(IDEM)
    ledger.settle(ended("r1", first, "retry", boundary=MC))
    ledger.edit("HSET", ledger.keys.row("r1"), "max_attempts", "2", "max_deaths", "1")
    (second,) = ledger.claim()
    item = ended("r1", second.fence, last)
    assert ledger.settle(item) == ["settled"]
    assert ledger.state("r1") == "unknown"
    assert ledger.settle(item) == ["settled"]
    assert ledger.row("r1")["state"] == "unknown"
    assert faults(ledger.dump()) == []


def test_one_turn_settles_many_and_claims_what_became_ready(ledger: Ledger) -> None:
    ledger.submit(AUTO, "a", "b")
    ledger.submit(READ, "c")
    fences = {grant.id: grant.fence for grant in ledger.claim(3)}
    ledger.mark("a", fences["a"])
    turn = ledger.turning(
        5, ended("a", fences["a"], "completed"), ended("b", fences["b"], "released"), ended("c", fences["c"], "retry")
    )
    reply = ledger.run(turn)
    assert {request_id: ledger.state(request_id) for request_id in "abc"} == {
        "a": "completed",
        "b": "claimed",
        "c": "attempting",
    }
    assert ledger.run(turn) == reply
    ledger.now_ms += TTL_MS
    ledger.expire()
    assert [ledger.state("b"), ledger.state("c")] == ["ready", "ready"]
    assert faults(ledger.dump()) == []


def test_slots_of_other_tools_are_not_taken_and_order_is_first_come(ledger: Ledger) -> None:
    ledger.submit(AUTO, "a1", "a2")
    ledger.submit(READ, "c1")
    assert ledger.claim(5, known=["other"]) == []
    # What one tool does not need goes to the others, and none stands behind the backlog of another.
    assert {grant.id for grant in ledger.claim(2, known=[AUTO, READ])} == {"a1", "c1"}
    assert [grant.id for grant in ledger.claim(2, known=[AUTO, READ])] == ["a2"]


# ── what is over stays as it is ──────────────────────────────────────────────────────────────────────────────────────


def _ready(ledger: Ledger) -> str:
    fence = ledger.granted(AUTO)
    ledger.settle(ended("r1", fence, "released"))
    return fence


def _delayed(ledger: Ledger) -> str:
    fence = ledger.granted(READ)
    ledger.settle(ended("r1", fence, "retry", delay_ms=60_000))
    return fence


def _completed(ledger: Ledger) -> str:
    fence = ledger.marked(AUTO)
    ledger.settle(ended("r1", fence, "completed"))
    return fence


def _failed(ledger: Ledger) -> str:
    fence = ledger.marked(AUTO)
    ledger.settle(ended("r1", fence, "failed"))
    return fence


def _dead(ledger: Ledger) -> str:
    fence = ledger.granted(READ)
    ledger.edit("HSET", ledger.keys.row("r1"), "max_deaths", "1")
    ledger.settle(ended("r1", fence, "died"))
    return fence


def _unknown(ledger: Ledger) -> str:
    return ledger.unknown()


STANDING = {"ready": _ready, "delayed": _delayed, "completed": _completed, "failed": _failed, "dead": _dead}


@pytest.mark.parametrize("state", STANDING)
@pytest.mark.parametrize("verb", Settle)
@pytest.mark.parametrize("age", ["same fence", "older fence"])
def test_no_settlement_moves_what_is_not_held(ledger: Ledger, state: str, verb: Settle, age: str) -> None:
    fence = STANDING[state](ledger)
    assert ledger.state("r1") == state
    told = fence if age == "same fence" else str(int(fence) - 1)
    before = ledger.row("r1")
    ledger.settle(ended("r1", told, verb, boundary=MC, body=b"other"))
    after = ledger.row("r1")
    added = set(after) - set(before)
    assert {k: v for k, v in after.items() if k not in added and k != "n"} == {
        k: v for k, v in before.items() if k != "n"
    }
    assert all(" note " in after[name] for name in added)
    assert faults(ledger.dump()) == []


@pytest.mark.parametrize("state", [*STANDING, "unknown"])
def test_nothing_else_moves_what_is_not_held(ledger: Ledger, state: str) -> None:
    fence = (STANDING | {"unknown": _unknown})[state](ledger)
    before = ledger.row("r1")
    assert ledger.mark("r1", fence) == "stale"
    ledger.now_ms += TTL_MS
    assert ledger.expire() == "expired"
    assert ledger.promote() == 0
    if state != "unknown":
        for said in ("completed", "not_executed", "unknown", "resend"):
            assert ledger.judge("r1", fence, said) == "refused"
    assert ledger.row("r1") == before


@pytest.mark.parametrize(
    "verb, word, state",
    [
        ("completed", "late", "completed"),
        ("failed", "late", "failed"),
        ("unknown", "settled", "unknown"),
        ("released", "settled", "unknown"),
        ("retry", "settled", "unknown"),
        ("died", "settled", "unknown"),
    ],
)
def test_a_late_result_of_the_attempt_in_doubt_is_evidence(ledger: Ledger, verb: str, word: str, state: str) -> None:
    fence = ledger.marked(AUTO)
    ledger.now_ms += TTL_MS
    ledger.expire()
    assert ledger.row("r1")["ended"] == "0"
    assert ledger.settle(ended("r1", str(int(fence) - 1), verb)) == ["stale"]
    assert (ledger.state("r1"), ledger.row("r1")["ended"]) == ("unknown", "0")
    assert ledger.settle(ended("r1", fence, verb, boundary=MC)) == [word]
    assert (ledger.state("r1"), ledger.row("r1")["ended"]) == (state, "1")
    assert faults(ledger.dump()) == []


def test_a_contradiction_of_a_final_state_is_noted_once(ledger: Ledger) -> None:
    fence = _failed(ledger)
    for _ in range(2):
        assert ledger.settle(ended("r1", fence, "completed")) == ["stale"]
    notes = [value for value in ledger.row("r1").values() if " note " in value]
    assert [note.split(" ")[-1] for note in notes] == [f"refused-completed-{fence}"]


def test_notes_do_not_grow_without_end(ledger: Ledger) -> None:
    fence = _failed(ledger)
    for number in range(70):
        ledger.settle(ended("r1", str(int(fence) - number % 2), "completed"))
    assert sum(name[0] == "h" for name in ledger.row("r1")) == 64
    assert faults(ledger.dump()) == []


# ── places ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_states_that_nothing_here_reaches_yet() -> None:
    reached = {"claimed", "attempting", "unknown", *STANDING}
    assert set(State) - reached == {State.PARKED, State.CANCELLED}


@pytest.mark.parametrize("build", [_completed, _failed, _dead])
def test_what_ended_has_a_ttl_and_what_is_open_has_none(ledger: Ledger, build: Callable[[Ledger], str]) -> None:
    build(ledger)
    dump = ledger.dump()
    assert dump["row:r1"].mortal
    assert faults(dump) == []
