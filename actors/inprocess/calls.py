"""One call from its claim to its settlement, where its body runs: in this thread, or in this task."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from typing import TypeVar

from ...leases.errors import (
    LedgerDeniedError,
    LedgerHardBlockError,
    OutcomeUnrecordedError,
    ServerError,
    SessionLostError,
)
from ...ledger.decision import PREDICATES, Decision, DecisionIntent, DecisionSnapshot
from ...ledger.identity import Identity
from ...ledger.states import State
from ...ledger.turn import Settlement
from ..context import RUNNING
from ..effect import BODY_LOOP
from .attempt import InlineAttempt
from .engine import Engine
from .prepared import Prepared, Returned
from .settling import completed, failed, out_of_window, unstarted
from .unmarked import warn_if_unmarked

log = logging.getLogger(__name__)
_R = TypeVar("_R")

_INSIDE: ContextVar[tuple[InlineAttempt, ...]] = ContextVar("mycelium_inside", default=())
"""The calls that this one is made inside of."""


def run_here(engine: Engine, call: Prepared, body: Callable[[dict[str, object]], _R], *, max_bytes: int) -> _R | object:
    """Run one call of a plain function.

    Returns:
        What the body returned, or the stored result as the function declares it.

    Raises:
        OutcomeUnrecordedError: the body ran, and its outcome could not be recorded yet.
        MyceliumError: as `Gatekeeper.begin`; or the body's own exception, which nothing of the store's ever hides.
    """
    _check_inside(call)
    begun = engine.begin(call)
    if isinstance(begun, Returned):
        stored: object = call.stored(begun)
        return stored
    try:
        if (decision := _decide(call, begun)) is not None:
            engine.run(lambda: engine.service.decide(begun, decision))
            _check_allowed(begun, decision)
        _check_trust(begun)
    except BaseException as error:
        _record_here(engine, begun, _before(begun, error))
        raise
    begun.began = True
    try:
        with _inside(begun, None):
            value = body(_values(call, begun))
    except BaseException as error:
        begun.end()
        _record_here(engine, begun, failed(begun, error))
        raise
    begun.end()
    warn_if_unmarked(call.intent, begun.came_to)
    try:
        engine.settle(begun, completed(begun, value, max_bytes=max_bytes))
    except ServerError as away:
        raise _unrecorded(begun, value) from away
    return value


async def run_here_async(
    engine: Engine, call: Prepared, body: Callable[[dict[str, object]], Awaitable[_R]], *, max_bytes: int
) -> _R | object:
    """Run one call of an async function; as `run_here`."""
    _check_inside(call)
    begun = await engine.begin_async(call)
    if isinstance(begun, Returned):
        stored: object = call.stored(begun)
        return stored
    try:
        if (decision := _decide(call, begun)) is not None:
            await engine.await_(lambda: engine.service.decide(begun, decision))
            _check_allowed(begun, decision)
        _check_trust(begun)
    except BaseException as error:
        await _record_async(engine, begun, _before(begun, error), error)
        raise
    begun.began = True
    try:
        with _inside(begun, asyncio.get_running_loop()):
            value = await body(_values(call, begun))
    except BaseException as error:
        begun.end()
        await _record_async(engine, begun, failed(begun, error, tracked=False), error)
        raise
    begun.end()
    warn_if_unmarked(call.intent, begun.came_to)
    try:
        await engine.settle_async(begun, completed(begun, value, max_bytes=max_bytes))
    except ServerError as away:
        raise _unrecorded(begun, value) from away
    return value


def _unrecorded(attempt: InlineAttempt, value: object) -> OutcomeUnrecordedError:
    what = f"The body of {attempt.shown.request_id!r} ran and returned, and its outcome could not be recorded yet."
    next_step = (
        "It is told again while this process lives. Call again with the same request id when the server answers: you "
        "get the result, or hear that it is unknown; it does not run twice. What it returned is in `result`."
    )
    return OutcomeUnrecordedError(what, next_step=next_step, result=value)


def decide_on(call: Prepared, attempt: InlineAttempt) -> Decision:
    """Ask the registered predicates about one claimed call."""
    intent = call.intent
    return PREDICATES.decide(
        DecisionIntent(
            tool=intent.tool,
            effect_class=intent.binding.effect_class,
            request_id=attempt.shown.request_id,
            effect_id=attempt.shown.effect_id,
            arguments=call.values,
            about=intent.about,
        ),
        DecisionSnapshot(attempt.shown.now_ms, attempt.shown.attempts, attempt.shown.fence),
    )


def _decide(call: Prepared, attempt: InlineAttempt) -> Decision | None:
    # Claimed, and no more: the decision did not come with the claim.
    return decide_on(call, attempt) if attempt.shown.state is State.CLAIMED else None


def _check_inside(call: Prepared) -> None:
    # A task that a body left behind is in its context, and no part of it any more once it has ended.
    around = [attempt for attempt in _INSIDE.get() if not attempt.ended]
    identity = call.intent.identity
    if any(identity.effect_id == one.shown.effect_id or _same_dispatch(identity, one) for one in around):
        what = f"The call of {call.intent.tool!r} was made from inside itself, and would wait for itself."
        raise LedgerHardBlockError(
            what,
            next_step="Nothing was dispatched. Give the inner call another request id, or call the plain function.",
            request_id=call.intent.identity.request_id,
            why="inside_itself",
        )


def _same_dispatch(identity: Identity, attempt: InlineAttempt) -> bool:
    return identity.share != "" and identity.share == attempt.intent.identity.share


def _check_allowed(attempt: InlineAttempt, decision: Decision) -> None:
    if decision.allowed:
        return
    what = f"{attempt.shown.request_id!r} was denied: {'; '.join(decision.denied_reasons)}."
    raise LedgerDeniedError(
        what,
        next_step="Its body did not run, and the denial is recorded. Change what is wrong; where its class lets a "
        "failure run again, call again, else with a new request id.",
        state="failed",
        request_id=attempt.shown.request_id,
        why="denied",
    )


class _LateError(LedgerHardBlockError):
    """Too late for the provider's key."""


def _check_trust(attempt: InlineAttempt) -> None:
    """The last look before the body: whatever lies before it, an untrusted session starts nothing (L7)."""
    if not attempt.in_window():
        what = f"{attempt.shown.request_id!r} may have been sent before, and its provider's key window is over."
        next_step = "Its body did not run. Find out at the provider what happened, then release it."
        raise _LateError(what, next_step=next_step, request_id=attempt.shown.request_id, why="key_over")
    if not attempt.may_begin():
        what = "This process does not trust its session any more: its renewals were late."
        raise SessionLostError(what, next_step="Nothing was dispatched, and the call was given back. Call again.")


def _before(attempt: InlineAttempt, error: BaseException) -> Settlement | None:
    """How an attempt ends whose body never began."""
    attempt.end()
    if isinstance(error, LedgerDeniedError):
        return None
    if isinstance(error, _LateError):
        return out_of_window(attempt)
    # Whatever raised, a predicate's own fault included: nothing was sent and nothing was decided, so it is given back.
    return unstarted(attempt)


def _values(call: Prepared, attempt: InlineAttempt) -> dict[str, object]:
    param = call.intent.binding.key_param
    if param is None or not attempt.shown.key or param in call.values:
        return call.values
    return {**call.values, param: attempt.shown.key}


@contextmanager
def _inside(attempt: InlineAttempt, loop: asyncio.AbstractEventLoop | None) -> Generator[None, None, None]:
    running, inside, on = RUNNING.set(attempt), _INSIDE.set((*_INSIDE.get(), attempt)), BODY_LOOP.set(loop)
    try:
        yield
    finally:
        # A coroutine that is thrown away ends in whatever context that happens in, and there is nothing to reset.
        with suppress(ValueError):
            BODY_LOOP.reset(on)
            _INSIDE.reset(inside)
            RUNNING.reset(running)


def _record_here(engine: Engine, attempt: InlineAttempt, settlement: Settlement | None) -> None:
    if settlement is None:
        return
    try:
        engine.settle(attempt, settlement)
    except Exception as fault:  # noqa: BLE001 - see _hidden
        _hidden(attempt, fault)


async def _record_async(
    engine: Engine, attempt: InlineAttempt, settlement: Settlement | None, error: BaseException
) -> None:
    if settlement is None:
        return
    try:
        if isinstance(error, GeneratorExit):
            # The coroutine is being thrown away: nothing may be awaited in it any more.
            engine.leave(attempt, settlement)
        else:
            await engine.settle_async(attempt, settlement)
    except Exception as fault:  # noqa: BLE001 - see _hidden
        _hidden(attempt, fault)


def _hidden(attempt: InlineAttempt, fault: Exception) -> None:
    # The tool's own exception is what its caller must see, and no fault of ours or of a receipt's. What the store did
    # not hear is told to it again.
    log.error("how %r failed could not be recorded yet: %s", attempt.shown.request_id, fault)
