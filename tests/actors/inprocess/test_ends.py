"""Whatever ends a body, its row is settled by what is known, and stays held by nobody."""

from __future__ import annotations

import asyncio
import gc
import threading
from collections.abc import Callable
from typing import Any

import pytest

from kit.inprocess import CLASSES, Boom, Runs, World, async_tool, tool
from mycelium import (
    Binding,
    EffectClass,
    LedgerHardBlockError,
    NotExecuted,
    PredicateVerdict,
    register_decision_predicate,
)
from mycelium.actors.effect import side_effect

ENDS: list[type[BaseException]] = [
    Boom,
    NotExecuted,
    KeyboardInterrupt,
    SystemExit,
    GeneratorExit,
    asyncio.CancelledError,
]
ALLOWED = {"allowed": True, "verdicts": [], "denied_reasons": []}


def expected(effect_class: str, *, explicit: bool, where: str, end: type[BaseException]) -> str:
    """The state that such an end leaves."""
    if end is NotExecuted:
        return "failed"
    marked = effect_class != "read" and not (explicit and where == "before")
    if not marked:
        return "failed" if issubclass(end, Exception) else "ready"
    return "ready" if effect_class == "idempotent_mutate" else "unknown"


def raising(end: type[BaseException], where: str, effect_class: str) -> Callable[[str], None]:
    def body(order: str) -> None:
        if where == "before" or effect_class == "read":
            raise end(order)
        with side_effect():
            if where == "inside":
                raise end(order)
        raise end(order)

    return body


def raising_async(end: type[BaseException], where: str, effect_class: str) -> Callable[[str], Any]:
    async def body(order: str) -> None:
        if where == "before" or effect_class == "read":
            raise end(order)
        async with side_effect():
            if where == "inside":
                raise end(order)
        raise end(order)

    return body


@pytest.mark.parametrize("explicit", [False, True])
@pytest.mark.parametrize("where", ["before", "inside", "after"])
@pytest.mark.parametrize("end", ENDS)
def test_what_ends_a_plain_body_is_raised_and_settles_its_row(
    here: World, end: type[BaseException], where: str, *, explicit: bool
) -> None:
    kept = here.ledger()
    for effect_class in CLASSES:
        act = tool(kept, raising(end, where, effect_class), effect_class, explicit=explicit)
        with pytest.raises(end):
            act("A", request_id=effect_class)
        # The caller hears of it when it is on record, not before.
        assert here.state(effect_class) == expected(effect_class, explicit=explicit, where=where, end=end)
    here.idle()


@pytest.mark.parametrize("explicit", [False, True])
@pytest.mark.parametrize("where", ["before", "inside", "after"])
@pytest.mark.parametrize("end", [Boom, NotExecuted, asyncio.CancelledError, GeneratorExit])
async def test_what_ends_an_async_body_is_raised_and_settles_its_row(
    here: World, end: type[BaseException], where: str, *, explicit: bool
) -> None:
    kept = here.ledger()
    for effect_class in CLASSES:
        act = async_tool(kept, raising_async(end, where, effect_class), effect_class, explicit=explicit)
        with pytest.raises(end):
            await act("A", request_id=effect_class)
        here.idle()
        assert here.state(effect_class) == expected(effect_class, explicit=explicit, where=where, end=end)


# ── coroutines that are thrown away ──────────────────────────────────────────────────────────────────────────────────


async def step_until(coroutine: Any, done: Callable[[], bool]) -> None:  # noqa: ANN401 - what an async tool returns
    """Drive a coroutine by hand, as its task would."""
    while not done():
        waits_for = coroutine.send(None)
        if not done() and waits_for is not None:
            await asyncio.wait([waits_for])


async def test_a_coroutine_that_is_closed_in_its_body_is_settled(here: World) -> None:
    began, never = asyncio.Event(), asyncio.get_running_loop().create_future()

    async def body(order: str) -> str:
        began.set()
        await never
        return order

    coroutine = async_tool(here.ledger(), body)("A", request_id="r1")
    await step_until(coroutine, began.is_set)
    here.idle(running={"r1"})
    coroutine.close()
    here.idle()
    assert here.state("r1") == "unknown"


async def test_a_coroutine_that_is_closed_while_it_claims_holds_nothing(here: World) -> None:
    runs, kept = Runs(), here.ledger()

    async def body(order: str) -> str:
        runs.note()
        return order

    act = async_tool(kept, body)
    await act("warm", request_id="r0")
    for at in range(20):
        coroutine = act("A", request_id=f"c{at}")
        coroutine.send(None)
        coroutine.close()
    here.idle()
    assert runs.count == 1


def test_a_loop_that_is_closed_over_a_running_call_leaves_nothing_held(here: World) -> None:
    began = threading.Event()

    async def body(order: str) -> str:
        began.set()
        await asyncio.Event().wait()
        return order

    loop = asyncio.new_event_loop()
    task = loop.create_task(async_tool(here.ledger(), body)("A", request_id="r1"))
    while not began.is_set():
        loop.run_until_complete(asyncio.sleep(0))
    loop.close()
    del task
    gc.collect()
    here.idle()
    assert here.state("r1") == "unknown"


def test_a_program_whose_loop_ends_with_a_call_in_flight_settles_it(here: World) -> None:
    kept = here.ledger()

    async def main() -> None:
        began = asyncio.Event()

        async def body(order: str) -> str:
            began.set()
            await asyncio.Event().wait()
            return order

        task = asyncio.create_task(async_tool(kept, body)("A", request_id="r1"))
        await began.wait()
        del task

    asyncio.run(main())
    here.idle()
    assert here.state("r1") == "unknown"


# ── what a host claimed and forgot ───────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("decided,state", [(False, "ready"), (True, "unknown")])
def test_an_entry_that_nobody_has_any_more_holds_nothing(here: World, *, decided: bool, state: str) -> None:
    kept = here.ledger()
    entry = kept.claim("act", ("A",), {}, Binding(effect_class=EffectClass.NON_IDEMPOTENT_MUTATE), request_id="r1")
    if decided:
        kept.record_decision(entry, ALLOWED)
    here.idle(running={"r1"})
    del entry
    gc.collect()
    here.idle()
    assert here.state("r1") == state


def test_an_entry_that_was_settled_and_dropped_writes_nothing_more(here: World) -> None:
    kept = here.ledger()
    entry = kept.claim("act", ("A",), {}, Binding(effect_class=EffectClass.NON_IDEMPOTENT_MUTATE), request_id="r1")
    kept.record_decision(entry, ALLOWED)
    kept.complete(entry, "done")
    before = here.row("r1")
    del entry
    gc.collect()
    # What would have been written would be there before this call ends.
    with pytest.raises(Boom):
        tool(kept, raising(Boom, "before", "read"), "read")("B", request_id="r2")
    assert here.row("r1") == before


# ── what is no fault of the tool's ───────────────────────────────────────────────────────────────────────────────────


def test_a_denied_call_is_settled_by_its_denial(here: World) -> None:
    take_back = register_decision_predicate("no", lambda _intent, _now: PredicateVerdict(allowed=False, reason="no"))
    runs = Runs()
    try:
        with pytest.raises(LedgerHardBlockError, match="denied"):
            tool(here.ledger(), runs.note)("A", request_id="r1")
    finally:
        take_back()
    gc.collect()
    here.idle()
    assert (runs.count, here.state("r1")) == (0, "failed")
    assert here.history("r1")[-1] == ("failed", "denied")


@pytest.mark.parametrize("end", [Boom, KeyboardInterrupt])
def test_a_predicate_that_raises_ends_the_call_with_its_own_error(here: World, end: type[BaseException]) -> None:
    def broken(_intent: object, _now: object) -> PredicateVerdict:
        raise end

    take_back = register_decision_predicate("broken", broken)
    runs = Runs()
    try:
        with pytest.raises(end):
            tool(here.ledger(), runs.note)("A", request_id="r1")
    finally:
        take_back()
    here.idle()
    assert (runs.count, here.state("r1")) == (0, "ready")


class _SurlyError(Exception):
    """It cannot even be printed."""

    def __str__(self) -> str:
        raise Boom

    __repr__ = __str__


def test_an_error_that_cannot_be_printed_is_raised_as_it_is(here: World) -> None:
    with pytest.raises(_SurlyError):
        tool(here.ledger(), raising(_SurlyError, "inside", "irreversible"))("A", request_id="r1")
    assert here.state("r1") == "unknown"
