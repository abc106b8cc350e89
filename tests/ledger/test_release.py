"""What a person may settle by hand: once, on what was shown to them, and only where nothing can contradict it later."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from kit.desk import (
    BY,
    OVERRIDDEN,
    REASON,
    Desk,
    make_completed,
    make_delayed,
    make_failed,
    make_held,
    make_nothing,
    make_ready,
    open_desk,
)
from kit.ledger import CR, MC, NOON_MS, TTL_MS, Ledger, ended
from kit.operator_cases import PRESUMED_MS, aliased, burying, doubtful, graced, releasing
from kit.script_cases import AUTO, IDEM, OWN
from mycelium.leases.errors import (
    LedgerAlreadyResolvedError,
    LedgerError,
    LedgerReleaseRefusedError,
    LedgerWorkerAliveError,
    ScriptError,
)
from mycelium.ledger.authorize import StaticTokenOperatorAuthorizer
from mycelium.ledger.listing import look_at
from mycelium.ledger.past import PastWord, read_past
from mycelium.ledger.record import Record, read_body
from mycelium.ledger.release import MAX_RESULT_BYTES, NOT_GIVEN, version_of
from mycelium.ledger.states import Liveness, State

AUTHORIZER = StaticTokenOperatorAuthorizer({BY: "token"})


@pytest.fixture
async def desk(url: str, ledger: Ledger) -> AsyncIterator[Desk]:
    """An operator before the ledger."""
    async with open_desk(url, ledger) as desk:
        yield desk


# ── what a release does ──────────────────────────────────────────────────────────────────────────────────────────────


async def test_a_release_as_completed_gives_the_result_and_nothing_runs(ledger: Ledger, desk: Desk) -> None:
    fence = ledger.unknown(body=b'{"error":"TimeoutError","detail":"d"}')
    record = await desk.release(result={"id": "pi_1", "é": [1, None]})
    assert (record.state, record.boundary, record.fence, record.error) == (State.COMPLETED, CR, fence, "")
    assert json.loads(await read_body(desk.store, "r1") or b"") == {"id": "pi_1", "é": [1, None]}
    assert ledger.claim(10) == []
    assert ledger.due() == []


async def test_a_result_may_be_null_and_may_not_be_left_out(ledger: Ledger, desk: Desk) -> None:
    ledger.unknown()
    await desk.refuses(LedgerReleaseRefusedError, desk.release(result=NOT_GIVEN), "what the tool returns")
    await desk.release(result=None)
    assert await read_body(desk.store, "r1") == b"null"


async def test_a_release_as_not_executed_runs_exactly_once_more(ledger: Ledger, desk: Desk) -> None:
    first = ledger.unknown()
    record = await desk.release("not_executed")
    assert (record.state, record.boundary) == (State.READY, "not_crossed")
    assert int(record.fence) > int(first)
    [grant] = ledger.claim(10)
    assert ledger.claim(10) == []
    assert ledger.mark("r1", grant.fence) == "marked"
    assert ledger.settle(ended("r1", grant.fence, "completed", boundary=CR)) == ["settled"]
    assert ledger.state("r1") == "completed"


async def test_who_when_why_and_what_from_are_kept(ledger: Ledger, desk: Desk) -> None:
    ledger.unknown()
    ledger.now_ms += 1234
    record = await desk.release("not_executed", reason="  no charge\n for ORD-1 ")
    told = (record.resolution, record.resolved_by, record.resolution_reason, record.resolved_ms, record.released_from)
    assert told == ("not_executed", BY, "no charge for ORD-1", NOON_MS + 1234, "unknown")
    assert [(entry.what, entry.why) for entry in record.history][-1] == ("ready", "operator")


async def test_no_verification_is_lost_when_a_later_attempt_is_released_in_its_turn(ledger: Ledger, desk: Desk) -> None:
    doubtful(ledger)
    await desk.mark_dead(override=True)
    await desk.release("not_executed")
    [grant] = ledger.claim()
    ledger.mark("r1", grant.fence)
    ledger.settle(ended("r1", grant.fence, "unknown", boundary=MC, over=0))
    ledger.now_ms += 5
    await desk.mark_dead(by="second", reason="saw it die", override=True)
    record = await desk.release(by="second", reason="it is there")
    assert (record.resolution, record.resolved_by, record.resolution_reason) == ("completed", "second", "it is there")
    assert await read_past(desk.store, "r1") == [
        PastWord("dead", BY, OVERRIDDEN, NOON_MS),
        PastWord("not_executed", BY, REASON, NOON_MS),
    ]


async def test_another_id_of_the_same_row_will_do_in_every_verb(ledger: Ledger, desk: Desk) -> None:
    doubtful(ledger)
    aliased(ledger, "r2")
    assert (await desk.mark_dead("r2", override=True)).request_id == "r1"
    record = await desk.release("not_executed", "r2")
    assert (record.request_id, record.state) == ("r1", State.READY)
    assert ledger.run(releasing(ledger, request_id="r2")) == ["already", "ready"]


# ── one-shot ─────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("first", ["completed", "not_executed"])
@pytest.mark.parametrize("second", ["completed", "not_executed"])
async def test_a_second_release_is_refused(ledger: Ledger, desk: Desk, first: str, second: str) -> None:
    ledger.unknown()
    await desk.release(first)
    error = await desk.refuses(LedgerAlreadyResolvedError, desk.release(second, by="another"))
    assert first in str(error)
    assert BY in str(error)


async def test_of_two_racing_releases_exactly_one_wins(ledger: Ledger, desk: Desk) -> None:
    ledger.unknown()
    words = ["completed", "not_executed"] * 4
    ends = await asyncio.gather(
        *[desk.release(word, by=f"by{at}") for at, word in enumerate(words)], return_exceptions=True
    )
    won = [end for end in ends if isinstance(end, Record)]
    lost = [end for end in ends if isinstance(end, LedgerAlreadyResolvedError)]
    assert (len(won), len(lost)) == (1, 7)
    assert ledger.row("r1")["resolved_by"] == won[0].resolved_by
    assert ledger.dump()["counters"].value["released_by_operator"] == "1"


async def test_a_release_is_of_the_version_that_was_shown(ledger: Ledger, desk: Desk) -> None:
    doubtful(ledger)
    shown = ledger.row("r1")["n"]
    record = await desk.mark_dead(override=True)
    error = await desk.refuses(LedgerReleaseRefusedError, desk.release(expect=shown), "was shown in version")
    assert f"version {version_of(record)} (note, declared-dead)" in str(error)
    assert (await desk.release(expect=version_of(record))).state is State.COMPLETED


async def test_what_happened_between_the_reading_and_the_release_is_noticed(ledger: Ledger) -> None:
    doubtful(ledger)
    command = releasing(ledger)
    ledger.run(burying(ledger, override=1))
    assert ledger.run(command) == ["changed", "unknown"]
    assert ledger.state("r1") == "unknown"


# ── what is refused ──────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("verified", ["completed", "not_executed"])
@pytest.mark.parametrize(
    "make,said",
    [
        (make_nothing, "No job 'r1' is on record"),
        (make_ready, "will run by itself"),
        (make_delayed, "will run by itself"),
        (make_held, "session is alive"),
        (make_completed, "has ended"),
        (make_failed, "has ended"),
    ],
    ids=lambda part: getattr(part, "__name__", None),
)
async def test_what_is_not_in_doubt_cannot_be_released(
    ledger: Ledger, desk: Desk, make: Callable[[Ledger], None], said: str, verified: str
) -> None:
    make(ledger)
    await desk.refuses(LedgerReleaseRefusedError, desk.release(verified), said)


@pytest.mark.parametrize(
    "more",
    [
        {"by": ""},
        {"by": " \n"},
        {"by": None},
        {"by": "x" * 201},
        {"reason": ""},
        {"reason": "\t"},
        {"reason": "a\x1bb"},
        {"verified": "maybe"},
        {"verified": "not_executed", "result": 1},
        {"result": {1, 2}},
        {"result": float("nan")},
        {"result": "\ud800"},
        {"result": "x" * MAX_RESULT_BYTES},
        {"presumed_dead_s": -1.0},
        {"presumed_dead_s": float("nan")},
    ],
    ids=lambda more: ascii(more)[:40],
)
async def test_a_call_that_is_not_as_it_must_be_is_refused(ledger: Ledger, desk: Desk, more: dict[str, Any]) -> None:
    ledger.unknown()
    await desk.refuses(LedgerReleaseRefusedError, desk.release(**more), "Nothing was recorded")


async def test_a_damaged_row_is_not_released(ledger: Ledger, desk: Desk) -> None:
    ledger.unknown()
    ledger.edit("HDEL", ledger.keys.row("r1"), "mode")
    await desk.refuses(ScriptError, desk.release())


@pytest.mark.parametrize("credential", [None, "", "wrong"])
async def test_without_the_right_credential_the_store_is_not_even_asked(
    ledger: Ledger, desk: Desk, credential: str | None
) -> None:
    doubtful(ledger)
    sent = desk.store.calls.sent
    for verb in (desk.release, desk.mark_dead):
        work = verb(authorizer=AUTHORIZER, credential=credential, override=True)
        await desk.refuses(LedgerReleaseRefusedError, work, "not authorized")
    assert desk.store.calls.sent == sent
    assert (await desk.release(authorizer=AUTHORIZER, credential="token")).state is State.COMPLETED


# ── the old attempt ──────────────────────────────────────────────────────────────────────────────────────────────────


async def test_not_executed_waits_until_the_old_attempt_can_send_nothing_more(ledger: Ledger, desk: Desk) -> None:
    doubtful(ledger)
    error = await desk.refuses(LedgerWorkerAliveError, desk.release("not_executed"), "may still send for 30 s")
    assert "Wait 30 s; or, if you know that it can send nothing more, say so with --override-heartbeat" in str(error)
    ledger.now_ms += PRESUMED_MS - 1
    await desk.refuses(LedgerWorkerAliveError, desk.release("not_executed"), "may still send for 1 s")
    ledger.now_ms += 1
    assert (await desk.release("not_executed")).state is State.READY


async def test_that_it_happened_can_be_said_at_once(ledger: Ledger, desk: Desk) -> None:
    doubtful(ledger)
    assert (await desk.release("completed")).state is State.COMPLETED


async def test_an_override_is_recorded_and_only_where_it_was_needed(ledger: Ledger, desk: Desk) -> None:
    doubtful(ledger)
    ledger.unknown(request_id="r2")
    assert (await desk.release("not_executed", override=True)).resolution_reason == OVERRIDDEN
    assert (await desk.release("not_executed", "r2", override=True)).resolution_reason == REASON


async def test_an_attempt_before_the_last_one_may_still_send_too(ledger: Ledger, desk: Desk) -> None:
    ledger.submit(IDEM, "r1")
    [first] = ledger.claim()
    ledger.mark("r1", first.fence)
    ledger.now_ms += TTL_MS
    ledger.expire()
    ledger.open("s2")
    [second] = ledger.claim(session="s2")
    ledger.mark("r1", second.fence, session="s2")
    ledger.settle(ended("r1", second.fence, "unknown", boundary=MC, over=1), session="s2")
    await desk.refuses(LedgerWorkerAliveError, desk.release("not_executed"))
    assert (await look_at(desk.store, "r1")).liveness is Liveness.GRACE
    ledger.now_ms += PRESUMED_MS
    assert (await desk.release("not_executed")).state is State.READY


async def test_after_a_release_as_not_executed_the_old_attempt_changes_nothing_more(ledger: Ledger, desk: Desk) -> None:
    old = ledger.unknown()
    await desk.release("not_executed")
    assert ledger.settle(ended("r1", old, "completed", boundary=CR)) == ["stale"]
    assert ledger.mark("r1", old) == "stale"
    assert ledger.state("r1") == "ready"
    assert f"refused-completed-{old}" in "".join(ledger.row("r1").values())


async def test_after_a_release_as_completed_a_late_outcome_overwrites_nothing(ledger: Ledger, desk: Desk) -> None:
    old = ledger.unknown()
    await desk.release(result="the operator's")
    ledger.settle(ended("r1", old, "completed", boundary=CR, body=b'"the attempt\'s"'))
    assert ledger.settle(ended("r1", old, "failed")) == ["stale"]
    assert ledger.settle(ended("r1", old, "unknown", boundary=MC)) == ["stale"]
    assert ledger.state("r1") == "completed"
    assert await read_body(desk.store, "r1") == b'"the operator\'s"'


async def test_a_late_completion_that_comes_first_wins(ledger: Ledger, desk: Desk) -> None:
    ledger.settle(ended("r1", ledger.unknown(), "completed", boundary=CR))
    await desk.refuses(LedgerReleaseRefusedError, desk.release("not_executed"), "has ended")


@pytest.mark.parametrize("late_first", [True, False])
async def test_a_release_that_was_sent_before_a_late_completion_loses_or_wins_whole(
    ledger: Ledger, *, late_first: bool
) -> None:
    old = ledger.unknown()
    command, late = releasing(ledger, "not_executed"), ended("r1", old, "completed", boundary=CR)
    if late_first:
        assert ledger.settle(late) == ["late"]
        assert ledger.run(command)[0] == "terminal"
    else:
        assert ledger.run(command)[0] == "released"
        assert ledger.settle(late) == ["stale"]
    assert ledger.state("r1") == ("completed" if late_first else "ready")


# ── lapsed and dead holders ──────────────────────────────────────────────────────────────────────────────────────────


async def test_what_a_dead_holder_has_is_taken_first_and_then_released(ledger: Ledger, desk: Desk) -> None:
    ledger.marked(AUTO)
    ledger.now_ms += TTL_MS
    assert (await desk.release("completed", expect=ledger.row("r1")["n"])).state is State.COMPLETED


async def test_of_what_was_just_taken_nobody_knows_yet_that_it_can_send_no_more(ledger: Ledger, desk: Desk) -> None:
    ledger.marked(AUTO)
    ledger.now_ms += TTL_MS
    shown = await look_at(desk.store, "r1")
    assert (shown.record.state, shown.liveness) == (State.ATTEMPTING, Liveness.HELD)
    desk.store.calls.now_ms = ledger.now_ms
    shown = await look_at(desk.store, "r1")
    assert (shown.record.state, shown.liveness) == (State.ATTEMPTING, Liveness.DEAD)
    assert "Then it is unknown, and what was sent may still arrive" in shown.advice.text
    with pytest.raises(LedgerWorkerAliveError, match="may still send for 30 s"):
        await desk.release("not_executed")
    assert ledger.state("r1") == "unknown"
    shown = await look_at(desk.store, "r1")
    assert shown.liveness is Liveness.GRACE
    assert "may still send for 30 s" in shown.advice.text


async def test_what_a_dead_holder_had_not_marked_runs_by_itself(ledger: Ledger, desk: Desk) -> None:
    ledger.granted(OWN)
    ledger.now_ms += TTL_MS
    with pytest.raises(LedgerReleaseRefusedError, match="will run by itself"):
        await desk.release("not_executed")
    assert ledger.state("r1") == "ready"


@pytest.mark.parametrize("verified", ["completed", "not_executed"])
async def test_what_is_held_in_grace_cannot_be_released(ledger: Ledger, desk: Desk, verified: str) -> None:
    graced(ledger)
    error = await desk.refuses(LedgerWorkerAliveError, desk.release(verified, override=True), "alive for 60 s more")
    assert "`mycelium transitions mark-dead … --override-heartbeat`" in str(error)
    assert "The override of a release does not." in str(error)


async def test_a_reply_that_was_lost_changes_nothing_when_it_is_asked_for_again(ledger: Ledger) -> None:
    for make, verb in ((Ledger.unknown, releasing), (doubtful, burying)):
        request_id = f"{verb.__name__}-1"
        make(ledger, request_id=request_id)
        command = verb(ledger, request_id=request_id, override=1)
        first, once = ledger.run(command), ledger.dump()
        assert ledger.run(command) == first
        assert ledger.dump() == once


async def test_every_refusal_says_what_to_do_next(ledger: Ledger, desk: Desk) -> None:
    ledger.marked(AUTO)
    with pytest.raises(LedgerError) as caught:
        await desk.release()
    assert (caught.value.state, caught.value.what) == ("attempting", "'r1' is held: its worker's session is alive.")
    assert "say so with `mycelium transitions mark-dead … --override-heartbeat`" in caught.value.next_step
    assert "an override here does not" in caught.value.next_step
