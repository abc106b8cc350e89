"""None of the faults D0 to D9 of the first seed can happen here; D3, D6 and D7 have files of their own."""

from __future__ import annotations

import asyncio
import functools
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from kit.inprocess import (
    CLASSES,
    GRACE,
    REPEAT,
    Boom,
    Runs,
    Ticks,
    World,
    again,
    async_tool,
    lost,
    tool,
)
from mycelium import (
    LedgerHardBlockError,
    LedgerPollTimeoutError,
    LedgerWorkerAliveError,
    PredicateVerdict,
    mark_dead,
    register_decision_predicate,
    release,
)
from mycelium.actors.effect import side_effect

BY: Any = {"by": "ops@example.com", "reason": "looked at the dashboard"}


def fails_first(runs: Runs) -> Callable[[str], int]:
    def act(order: str) -> int:
        if runs.note(order) == 1:
            raise Boom(order)
        return runs.count

    return act


# ── D0: a retry after a recorded failure waits for nothing, and a wait yields and ends ───────────────────────────────


@pytest.mark.parametrize("effect_class", ["read", "idempotent_mutate", "keyed_mutate"])
def test_d0_a_retry_after_a_recorded_failure_is_immediate(here: World, effect_class: str) -> None:
    # A wait of any length would be over at once and raise, and evidence of death is a minute away.
    kept, runs = here.ledger(session=GRACE, poll_timeout_s=0.000_001), Runs()
    act = tool(kept, fails_first(runs), effect_class, explicit=True)
    with pytest.raises(Boom):
        act("A", request_id="r1")
    assert act("A", request_id="r1") == 2


def test_d0_an_idempotent_tool_that_always_fails_is_never_waited_for(here: World) -> None:
    kept, runs = here.ledger(session=GRACE, poll_timeout_s=0.000_001), Runs()

    def body(order: str) -> None:
        runs.note()
        raise Boom(order)

    act = tool(kept, body, "idempotent_mutate")
    for _ in range(8):
        with pytest.raises(Boom):
            act("A", request_id="r1")
    assert runs.count == 8


async def test_d0_a_wait_lets_the_loop_turn_and_ends_with_the_holder(here: World) -> None:
    began, go = threading.Event(), threading.Event()

    def body(order: str) -> str:
        began.set()
        assert go.wait(20)
        return order

    owner = asyncio.create_task(asyncio.to_thread(tool(here.ledger(), body), "A", request_id="r1"))
    await asyncio.to_thread(began.wait)
    waiter = asyncio.create_task(async_tool(here.ledger(), never)("A", request_id="r1"))
    async with Ticks() as ticks:
        await ticks.more(2000)
    assert not waiter.done()
    go.set()
    assert [await waiter, await owner] == ["A", "A"]


@pytest.mark.parametrize("poll_timeout_s", [0.000_001, 0.05])
async def test_d0_and_d4_a_waiter_whose_deadline_passes_leaves_the_owner_alone(
    here: World, poll_timeout_s: float
) -> None:
    began, go = threading.Event(), threading.Event()

    def body(order: str) -> str:
        began.set()
        assert go.wait(20)
        return order

    owner = asyncio.create_task(asyncio.to_thread(tool(here.ledger(), body), "A", request_id="r1"))
    await asyncio.to_thread(began.wait)
    before = here.row("r1")
    waiting = here.ledger(poll_timeout_s=poll_timeout_s)
    with pytest.raises(LedgerPollTimeoutError):
        await async_tool(waiting, never)("A", request_id="r1")
    with pytest.raises(LedgerPollTimeoutError):
        await waiting.wait_for_transition_async("r1", poll_timeout_s)
    assert {**here.row("r1"), "waiters": ""} == {**before, "waiters": ""}
    go.set()
    assert await owner == "A"
    assert here.row("r1")["state"] == "completed"
    assert await async_tool(waiting, never)("A", request_id="r1") == "A"


async def never(order: str) -> str:
    raise AssertionError(order)


# ── D1, D2, D8: what a call costs ────────────────────────────────────────────────────────────────────────────────────


async def _cost(world: World, call: Callable[[], Any]) -> dict[str, int]:
    before = world.commands()
    await call()
    return dict(world.commands() - before)


async def test_d1_and_d8_a_call_costs_the_same_with_ten_rows_and_with_five_thousand(alone: World) -> None:
    kept = alone.ledger()

    async def body(order: int) -> int:
        async with side_effect():
            return order

    act = async_tool(kept, body, explicit=True)
    costs: list[dict[str, int]] = []
    for first, last in ((0, 10), (10, 5000)):
        for at in range(first, last, 500):
            await asyncio.gather(*[act(n, request_id=f"r{n}") for n in range(at, min(at + 500, last))])
        # Other processes that have the ledger open make it no dearer either.
        others = [alone.ledger() for _ in range(2 if last == 10 else 6)]
        for other in others:
            await async_tool(other, body, explicit=True)(last, request_id=f"other{last}-{id(other)}")
        # A first call, and its repetition.
        costs += [await _cost(alone, functools.partial(act, last, request_id=f"new{last}")) for _ in range(2)]
    assert costs[0] == costs[2]
    assert costs[1] == costs[3]
    assert not {name for name in costs[0] if "scan" in name or name in {"keys", "sort"}}


@pytest.fixture
def predicate() -> Iterator[None]:
    take_back = register_decision_predicate("allows", lambda _intent, _now: PredicateVerdict(allowed=True))
    yield
    take_back()


def marking(order: str) -> str:
    with side_effect():
        return order


@pytest.mark.parametrize("explicit,scripts", [(False, 2), (True, 3)])
def test_d2_a_call_is_two_scripts_and_a_mark_of_its_own_one_more(alone: World, *, explicit: bool, scripts: int) -> None:
    act = tool(alone.ledger(), marking, explicit=explicit)
    act("warm", request_id="r0")
    before = alone.commands()
    act("A", request_id="r1")
    assert (alone.commands() - before)["evalsha"] == scripts


@pytest.mark.usefixtures("predicate")
@pytest.mark.parametrize("explicit,scripts", [(False, 3), (True, 4)])
def test_d2_a_decision_of_its_own_is_one_more(alone: World, *, explicit: bool, scripts: int) -> None:
    act = tool(alone.ledger(), marking, explicit=explicit)
    act("warm", request_id="r0")
    before = alone.commands()
    act("A", request_id="r1")
    assert (alone.commands() - before)["evalsha"] == scripts


# ── D5: evidence of death guards every lapsed row ────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("explicit", [False, True])
@pytest.mark.parametrize("effect_class", CLASSES)
def test_d5_a_lapse_alone_lets_nobody_run_release_or_bury_it(here: World, effect_class: str, *, explicit: bool) -> None:
    runs = Runs()
    lost(here, effect_class, explicit=explicit)
    with pytest.raises(LedgerPollTimeoutError):
        again(here, runs, effect_class, explicit=explicit, poll_timeout_s=0.02)
    with pytest.raises(LedgerWorkerAliveError):
        here.on_store(lambda store: release(store, "r1", verified="not_executed", **BY))
    with pytest.raises(LedgerWorkerAliveError):
        here.on_store(lambda store: mark_dead(store, "r1", presumed_dead_s=120.0, **BY))
    assert (runs.count, here.state("r1")) == (0, "attempting")


@pytest.mark.parametrize("explicit", [False, True])
@pytest.mark.parametrize("effect_class", CLASSES)
def test_d5_after_the_grace_the_class_and_the_mark_decide(here: World, effect_class: str, *, explicit: bool) -> None:
    runs = Runs()
    lost(here, effect_class, explicit=explicit, ago_s=61)
    if effect_class in REPEAT or explicit:
        again(here, runs, effect_class, explicit=explicit)
        assert (runs.count, here.state("r1")) == (1, "completed")
    else:
        with pytest.raises(LedgerHardBlockError):
            again(here, runs, effect_class, explicit=explicit)
        assert (runs.count, here.state("r1")) == (0, "unknown")


@pytest.mark.parametrize("explicit", [False, True])
def test_d5_a_worker_that_a_person_declares_dead_is_judged_at_once(here: World, *, explicit: bool) -> None:
    lost(here, "non_idempotent_mutate", explicit=explicit)
    here.on_store(lambda store: mark_dead(store, "r1", presumed_dead_s=120.0, override=True, **BY))
    assert here.state("r1") == ("ready" if explicit else "unknown")


# ── D9: who authorised each run ──────────────────────────────────────────────────────────────────────────────────────


def claims(world: World, request_id: str = "r1") -> list[str]:
    """Why each grant was given."""
    ours = {"claim", "retry", "reclaim", "key", "verdict", "operator"}
    return [why for what, why in world.history(request_id) if what in {"claimed", "attempting"} and why in ours]


def test_d9_a_first_run_and_the_retry_of_a_failed_one(here: World) -> None:
    act = tool(here.ledger(), fails_first(Runs()), "idempotent_mutate", explicit=True)
    with pytest.raises(Boom):
        act("A", request_id="r1")
    act("A", request_id="r1")
    assert claims(here) == ["claim", "retry"]


def test_d9_what_was_lost_is_reclaimed(here: World) -> None:
    lost(here, "read", explicit=False, ago_s=61)
    again(here, Runs(), "read", explicit=False)
    assert claims(here) == ["claim", "reclaim"]


def test_d9_a_second_sending_with_its_key(here: World) -> None:
    facts = {"key_param": "key", "key_window_s": 3600.0, "timeout_s": 10.0}
    runs = Runs()

    def body(order: str, key: str) -> str:
        if runs.note(key) == 1:
            raise Boom(order)
        return order

    act = tool(here.ledger(), body, "keyed_mutate", **facts)
    with pytest.raises(Boom):
        act("A", request_id="r1")
    act("A", request_id="r1")
    assert claims(here) == ["claim", "key"]
    assert len(set(runs.given)) == 1


def test_d9_a_release_is_used_up_by_one_claim_and_told_with_it(here: World) -> None:
    runs = Runs()

    def body(order: str) -> str:
        if runs.note() < 3:
            raise Boom(order)
        return order

    act = tool(here.ledger(), body)
    for _ in range(2):
        with pytest.raises(Boom):
            act("A", request_id="r1")
        here.on_store(lambda store: release(store, "r1", verified="not_executed", override=True, **BY))
    assert act("A", request_id="r1") == "A"
    assert claims(here) == ["claim", "operator", "operator"]
    assert here.row("r1")["auth"] == ""
