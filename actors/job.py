"""A submitted job: its state, its record, how far it has come, its cancel, and the wait for its result."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Literal

from ..leases.errors import OwnerLostError, ResultTimeoutError, ServerError
from ..leases.store import Store
from ..ledger.cancel import Cancelled, cancel
from ..ledger.progress import Progress, read_progress
from ..ledger.record import Record, read_record
from ..ledger.states import HELD, State
from .outcome import Outcome, read_outcome
from .waiting import Waiters, Watch

OnUnknown = Literal["auto", "wait", "raise"]
OnProgress = Callable[[Progress], Awaitable[None] | None]

_LAST_LOOK_S = 1.0
"""How long the look at the end of a wait may take."""


@dataclass(frozen=True, slots=True)
class Submitter:
    """What the jobs of one client share."""

    store: Store
    waiters: Waiters


class Job:
    """One transition, as the client that asked for it sees it. Made by a client, never directly.

    Attributes:
        request_id: its storage identity: any client can ask by it.
        created: True if this very call put it on record; False if it joined; None if it was only looked up.
    """

    def __init__(self, submitter: Submitter, request_id: str, *, created: bool | None) -> None:
        self._submitter = submitter
        self.request_id = request_id
        self.created = created

    def __repr__(self) -> str:
        return f"<job {self.request_id!r}>"

    async def state(self) -> State:
        """Read where it stands.

        Raises:
            JobNotFoundError: it is not on record (any more).
            ServerError: the server could not be asked.
        """
        return (await read_outcome(self._submitter.store, self.request_id)).state

    async def record(self) -> Record:
        """Read all that is on record of it, its history included.

        Raises:
            JobNotFoundError: it is not on record (any more).
            ServerError: the server could not be asked.
        """
        return await read_record(self._submitter.store, self.request_id)

    async def cancel(self, *, by: str = "", reason: str = "") -> Cancelled:
        """Ask that it does not run, or does not run on. Who submitted the same effect is cancelled with it.

        Only what nobody holds is cancelled at once. What somebody holds is asked to stop: where nothing was sent, it
        ends as cancelled; where something may have been, it is found out what became of it. Either way it does not run
        again. Nothing that was sent is undone.

        Args:
            by: who asks, for the record.
            reason: why, for the record.

        Returns:
            What was done: `cancelled`, `asked`, `unknown` (nobody knows yet whether it had its effect), or `ended`
            (there was nothing left to cancel).

        Raises:
            BadCallError: `by` or `reason` is no text on one line, or too long.
            JobNotFoundError: it is not on record (any more).
            ServerError: the server could not be asked. Asking again is safe.
        """
        return await cancel(self._submitter.store, self.request_id, by=by, reason=reason)

    async def progress(self) -> Progress | None:
        """Read how far an attempt said it had come, last; None: none has said anything.

        Raises:
            ServerError: the server could not be asked.
        """
        return await read_progress(self._submitter.store, self.request_id)

    async def follow(self) -> AsyncGenerator[Progress, None]:
        """Give each new progress, as often as the client polls, until the job has ended or its outcome is unknown.

        Raises:
            OwnerLostError: whoever held it is lost, and nobody takes it up.
            JobNotFoundError: it is not on record (any more).
            ServerError: the server refuses this client; a server that is away is waited for.
        """
        last: Progress | None = None
        with self._submitter.waiters.watching(self.request_id, unknown=True) as watch:
            while True:
                outcome = await self._look()
                if outcome.progress is not None and outcome.progress != last:
                    last = outcome.progress
                    yield last
                if outcome.ended or outcome.state is State.UNKNOWN:
                    return
                self._check_owner(outcome, watch)
                await watch.changed(self._submitter.waiters.poll_s)

    async def result(
        self,
        timeout_s: float | None = None,
        *,
        on_unknown: OnUnknown = "auto",
        on_progress: OnProgress | None = None,
    ) -> Any:  # noqa: ANN401 - what the tool returned, as a JSON value
        """Wait for the result. A wait writes nothing, and its end leaves the job as it is.

        Args:
            timeout_s: seconds to wait; None: for ever; 0: only look.
            on_unknown: `wait` on while the outcome is unknown, or whoever held it is lost; or `raise` at once; or
                `auto`: wait where its provider is asked, and raise where nobody can be.
            on_progress: is called, and awaited if it is a coroutine function, with each new progress.

        Returns:
            What the tool returned, as a JSON value.

        Raises:
            JobFailedError: no effect exists.
            JobDeadError: its attempts are used up, and no effect exists.
            JobCancelledError: it has no effect, and does not run any more.
            JobUnknownError: the effect may exist: at the end of the wait, or at once where `on_unknown` says so.
            OutcomeError: it completed, and its result was not kept, or not for so long.
            OwnerLostError: whoever held it is lost, and nobody has taken it up for a whole TTL.
            ResultTimeoutError: the wait is over before the job is.
            JobNotFoundError: it is not on record (any more).
            ServerError: the server refuses this client; a server that is away is waited for.
        """
        wait = asyncio.timeout(timeout_s)
        try:
            async with wait:
                outcome = await self._outcome(on_unknown, on_progress)
        except TimeoutError:
            if not wait.expired():
                raise  # out of the caller's own on_progress
            outcome = await self._last_look(timeout_s or 0.0)
        return outcome.result()

    async def _outcome(self, on_unknown: OnUnknown, on_progress: OnProgress | None) -> Outcome:
        every_s = None if on_progress is None else self._submitter.waiters.poll_s
        last: Progress | None = None
        with self._submitter.waiters.watching(self.request_id, unknown=on_unknown != "wait") as watch:
            while True:
                outcome = await self._look()
                if on_progress is not None and outcome.progress is not None and outcome.progress != last:
                    last = outcome.progress
                    await _tell(on_progress, last)
                if outcome.ended or (outcome.state is State.UNKNOWN and _given_up(outcome, on_unknown)):
                    return outcome
                if on_unknown != "wait":
                    self._check_owner(outcome, watch)
                await watch.changed(every_s)

    async def _look(self) -> Outcome:
        # For ever: a server that is away comes back, and until then the end of the wait is the caller's.
        return await read_outcome(self._submitter.store, self.request_id, patience_s=None)

    def _check_owner(self, outcome: Outcome, watch: Watch) -> None:
        if outcome.state not in HELD or outcome.session != watch.lost_owner:
            return
        what = f"Whoever held {self.request_id!r} is lost, and nobody has taken it up since."
        next_step = "It was not run again, and it will be looked after when a worker runs: start one, then wait again."
        raise OwnerLostError(what, state=outcome.state, next_step=next_step)

    async def _last_look(self, timeout_s: float) -> Outcome:
        state: State | None = None
        try:
            async with asyncio.timeout(_LAST_LOOK_S):
                outcome = await read_outcome(self._submitter.store, self.request_id)
        except (TimeoutError, ServerError):
            why = "the server does not answer"
        else:
            if outcome.ended or outcome.state is State.UNKNOWN:
                return outcome
            why, state = "it has not ended", outcome.state
        what = f"No result of {self.request_id!r} within {timeout_s:g} s: {why}."
        raise ResultTimeoutError(
            what, state=state, next_step="The job goes on: wait again, or ask later by its request id."
        )


def _given_up(outcome: Outcome, on_unknown: OnUnknown) -> bool:
    return on_unknown == "raise" or (on_unknown == "auto" and not outcome.asked)


async def _tell(on_progress: OnProgress, progress: Progress) -> None:
    told = on_progress(progress)
    if told is not None:
        await told
