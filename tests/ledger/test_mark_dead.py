"""A person's word that a worker is dead: not while it is heard of, and then for all that it holds."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable

import pytest

from kit.desk import (
    BY,
    OVERRIDDEN,
    REASON,
    Desk,
    make_completed,
    make_delayed,
    make_failed,
    make_nothing,
    make_ready,
    open_desk,
)
from kit.ledger import CR, TTL_MS, Ledger, ended
from kit.operator_cases import doubtful, graced
from kit.script_cases import AUTO, OWN
from mycelium.leases.errors import (
    LedgerReleaseRefusedError,
    LedgerWorkerAliveError,
)
from mycelium.ledger.states import State


@pytest.fixture
async def desk(url: str, ledger: Ledger) -> AsyncIterator[Desk]:
    """An operator before the ledger."""
    async with open_desk(url, ledger) as desk:
        yield desk


async def test_a_worker_is_declared_dead_and_what_it_had_is_released(ledger: Ledger, desk: Desk) -> None:
    graced(ledger)
    ledger.now_ms += TTL_MS
    record = await desk.mark_dead()
    assert (record.state, record.ended, record.dead_by, record.dead_reason) == (State.UNKNOWN, True, BY, REASON)
    assert (await desk.release("not_executed")).state is State.READY


async def test_a_worker_that_was_heard_of_lately_is_not_declared_dead(ledger: Ledger, desk: Desk) -> None:
    ledger.marked(AUTO)
    ledger.now_ms += 4000
    error = await desk.refuses(LedgerWorkerAliveError, desk.mark_dead(), "heard of 4.0 s ago")
    assert "in 26 s, if it is not heard of again" in str(error)
    assert "say so with --override-heartbeat" in str(error)


async def test_a_worker_whose_session_has_not_lapsed_is_not_declared_dead_for_its_silence(
    ledger: Ledger, desk: Desk
) -> None:
    ledger.open("s2", ttl_ms=120_000)
    ledger.marked(AUTO, session="s2")
    ledger.now_ms += 60_000
    await desk.refuses(LedgerWorkerAliveError, desk.mark_dead(), "its session has lapsed: in 60 s")


async def test_an_override_declares_it_dead_and_its_session_ends_with_all_that_it_holds(
    ledger: Ledger, desk: Desk
) -> None:
    old = ledger.marked(AUTO)
    ledger.granted(OWN, "r2")
    record = await desk.mark_dead(override=True)
    assert (record.state, record.dead_reason) == (State.UNKNOWN, OVERRIDDEN)
    assert ledger.renew() == "lost"
    assert ledger.run(ledger.turning(1))[0] == "lost"
    assert ledger.mark("r2", ledger.row("r2")["fence"]) == "lost"
    ledger.now_ms += TTL_MS
    assert ledger.expire() == "expired"
    assert ledger.state("r2") == "ready"
    assert ledger.settle(ended("r1", old, "completed", boundary=CR)) == ["late"]


async def test_an_unmarked_attempt_of_a_dead_worker_runs_again_and_its_own_mark_comes_too_late(
    ledger: Ledger, desk: Desk
) -> None:
    old = ledger.granted(OWN)
    assert (await desk.mark_dead(override=True)).state is State.READY
    assert ledger.mark("r1", old) == "lost"


async def test_a_death_that_was_declared_lets_an_unknown_one_run_again_at_once(ledger: Ledger, desk: Desk) -> None:
    doubtful(ledger)
    await desk.refuses(LedgerWorkerAliveError, desk.mark_dead())
    record = await desk.mark_dead(override=True)
    assert (record.state, ledger.due()) == (State.UNKNOWN, ["r1"])
    assert (await desk.release("not_executed")).resolution_reason == REASON


@pytest.mark.parametrize(
    "make,said",
    [
        (make_nothing, "No job 'r1' is on record"),
        (make_ready, "held by nobody"),
        (make_delayed, "held by nobody"),
        (make_completed, "has ended"),
        (make_failed, "has ended"),
        (Ledger.unknown, "known to be over"),
    ],
    ids=lambda part: getattr(part, "__name__", None),
)
async def test_where_nobody_can_be_dead_nobody_is_declared_so(
    ledger: Ledger, desk: Desk, make: Callable[[Ledger], None], said: str
) -> None:
    make(ledger)
    await desk.refuses(LedgerReleaseRefusedError, desk.mark_dead(override=True), said)
