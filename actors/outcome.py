"""How a transition ended, as its waiters are told: a result, or an error that says why there is none."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass, field, replace
from typing import Any, cast

from ..leases.channel import Patience
from ..leases.errors import (
    JobCancelledError,
    JobDeadError,
    JobFailedError,
    JobNotFoundError,
    JobUnknownError,
    OutcomeError,
    ScriptError,
)
from ..leases.store import Store
from ..ledger.advice import requeue_command
from ..ledger.cause import Cause
from ..ledger.progress import Progress, read_told
from ..ledger.record import Failure, read_record
from ..ledger.replies import items, raw, text
from ..ledger.states import TERMINAL, State

_NOT_KEPT = {"$too_large": "it was above the size limit", "$unencodable": "it has no JSON form"}


@dataclass(frozen=True, slots=True)
class Outcome:
    """Where a transition stands.

    Attributes:
        request_id: the transition.
        state: its state.
        error: class name or reason word; empty when there is none.
        asked: whether there is a way to learn what became of it if it is unknown.
        body: the result, or the failure told as JSON; None: there is none (any more).
        session: who holds it; empty when nobody does.
        progress: how far an attempt said it had come; None: none did.
        cause: what ended it, where it is dead or cancelled and the record says.
        by: who asked for its cancel, where somebody did and said who.
        reason: why they did.
    """

    request_id: str
    state: State
    error: str
    asked: bool
    # Results may be secrets of the caller's, and a repr ends up in logs.
    body: bytes | None = field(repr=False)
    session: str = ""
    progress: Progress | None = None
    cause: Cause | None = None
    by: str = ""
    reason: str = ""

    @property
    def ended(self) -> bool:
        """Whether nothing moves it any more."""
        return self.state in TERMINAL

    def result(self) -> Any:  # noqa: ANN401 - what the tool returned, as a JSON value
        """Give the result of what completed.

        Raises:
            OutcomeError: there is no result; the subclass says why.
        """
        if self.state is State.COMPLETED:
            return self._value()
        told = Failure.read(self.body or b"", self.error)
        cause = f" ({told.error})" if told.error else ""
        raise _WITHOUT_RESULT[self.state](
            f"Job {self.request_id!r} {self._end()}{cause}.",
            next_step=self._next_step(),
            state=self.state,
            request_id=self.request_id,
            cause=told.error,
            detail=told.detail or self.reason,
            why=self.cause or "",
        )

    def _end(self) -> str:
        if self.cause is Cause.CANCELLED and self.by:
            return f"was cancelled by {self.by!r}"
        return _ENDS[self.cause] if self.cause is not None else _ENDS[self.state]

    def _next_step(self) -> str:
        if self.state is State.UNKNOWN:
            if self.asked:
                return "It is not run again by guess. Wait on: its provider is asked."
            return (
                "It is not run again by guess, and its tool has no reconciler: look it up at the provider, and say "
                f"what you saw with `mycelium transitions release {self.request_id} --verified …`."
            )
        mend = "" if self.state is State.CANCELLED else "mend the cause, and "
        command = requeue_command(self.request_id)
        return f"No effect exists. If it is wanted after all, {mend}run `{command}`, or submit a new request id."

    def _value(self) -> Any:  # noqa: ANN401 - (the same)
        if self.body is None:
            raise self._gone("result_gone", "the retention of its result is over")
        try:
            value: object = json.loads(self.body)
        except ValueError as broken:
            what = f"The result of {self.request_id!r} was not written by this product."
            raise ScriptError(what, next_step="Look at the key by hand.", state=self.state) from broken
        for marker, why in _NOT_KEPT.items():
            if isinstance(value, dict) and list(cast("dict[str, object]", value)) == [marker]:
                raise self._gone("result_not_kept", why)
        return cast("Any", value)

    def _gone(self, cause: str, why: str) -> OutcomeError:
        return OutcomeError(
            f"Job {self.request_id!r} has no result to give: {why}.",
            next_step="Its effect took place. Look it up at the provider, or have the tool return a reference.",
            state=self.state,
            request_id=self.request_id,
            cause=cause,
        )


_WITHOUT_RESULT: dict[State, type[OutcomeError]] = {
    State.FAILED: JobFailedError,
    State.DEAD: JobDeadError,
    State.CANCELLED: JobCancelledError,
    State.UNKNOWN: JobUnknownError,
}
_ENDS: dict[State | Cause, str] = {
    State.FAILED: "failed",
    State.DEAD: "used up its attempts",
    State.CANCELLED: "was cancelled",
    State.UNKNOWN: "may have had its effect",
    Cause.ATTEMPTS: "failed as often as it may",
    Cause.DEATHS: "lost as many hosts or workers as it may",
    Cause.TIMEOUTS: "was past its time as often as it may",
    Cause.EXPIRED: "was cancelled: it had not started by the time at which it had to",
    Cause.DEADLINE: "was cancelled: its deadline passed",
    Cause.CANCELLED: "was cancelled",
}


async def read_outcome(
    store: Store, request_id: str, *, patience_s: float | Patience | None = Patience.CHANNEL
) -> Outcome:
    """Read where one transition stands, and its result if it has one.

    Args:
        store: the server.
        request_id: the transition.
        patience_s: how long a server that is away is asked again; None: for ever.

    Raises:
        JobNotFoundError: nothing is on record (any more).
        ScriptError: the row was not written by this product.
        ServerError: the server could not be asked.
    """
    calls, row, result = store.calls, store.keys.row(request_id), store.keys.result(request_id)
    fields, body = await asyncio.gather(
        calls.read("HMGET", row, "state", "error", "asked", "session", "progress", patience_s=patience_s),
        calls.read("GET", result, patience_s=patience_s),
    )
    state, *said = items(fields)
    if state is None:
        what = f"Job {request_id!r} is not on record in namespace {store.keys.namespace!r}."
        next_step = (
            "Its retention is over, or the data set was lost: that does not prove that the effect never happened."
        )
        raise JobNotFoundError(what, next_step=next_step)
    word = _state(request_id, text(state))
    if word is State.COMPLETED and body is None:
        # The two reads are no unit: the result may have come between them.
        body = await calls.read("GET", result, patience_s=patience_s)
    error, asked, session, progress = [text(value or b"") for value in said]
    kept = None if body is None else raw(body)
    outcome = Outcome(request_id, word, error, asked == "1", kept, session, read_told(progress))
    return await _with_cause(store, outcome) if word in {State.DEAD, State.CANCELLED} else outcome


async def _with_cause(store: Store, outcome: Outcome) -> Outcome:
    """What ended it stands in its history: seldom wanted, so it is read apart."""
    record = await read_record(store, outcome.request_id)
    return replace(outcome, cause=record.cause, by=record.cancel_by, reason=record.cancel_reason)


def _state(request_id: str, word: str) -> State:
    try:
        return State(word)
    except ValueError:
        what = f"The record of {request_id!r} was not written by this product."
        raise ScriptError(what, next_step="Look at the key by hand.") from None
