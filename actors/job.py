"""A submitted job: its state, its record, and the wait for its result."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any, Literal

from ..leases.errors import ResultTimeoutError, ServerError
from ..leases.store import Store
from ..ledger.record import Record, read_record
from ..ledger.states import State
from .outcome import Outcome, read_outcome
from .waiting import Waiters

OnUnknown = Literal["auto", "wait", "raise"]

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

    async def result(self, timeout_s: float | None = None, *, on_unknown: OnUnknown = "auto") -> Any:  # noqa: ANN401
        """Wait for the result. A wait writes nothing, and its end leaves the job as it is.

        Args:
            timeout_s: seconds to wait; None: for ever; 0: only look.
            on_unknown: `wait` on while the outcome is unknown; or `raise` at once; or `auto`: wait where its provider
                is asked, and raise where nobody can be.

        Returns:
            What the tool returned, as a JSON value.

        Raises:
            JobFailedError: no effect exists.
            JobDeadError: its attempts are used up, and no effect exists.
            JobCancelledError: it never ran.
            JobUnknownError: the effect may exist: at the end of the wait, or at once where `on_unknown` says so.
            OutcomeError: it completed, and its result was not kept, or not for so long.
            ResultTimeoutError: the wait is over before the job is.
            JobNotFoundError: it is not on record (any more).
            ServerError: the server refuses this client; a server that is away is waited for.
        """
        try:
            async with asyncio.timeout(timeout_s):
                outcome = await self._outcome(on_unknown)
        except TimeoutError:
            outcome = await self._last_look(timeout_s or 0.0)
        return outcome.result()

    async def _outcome(self, on_unknown: OnUnknown) -> Outcome:
        with self._submitter.waiters.watching(self.request_id, unknown=on_unknown != "wait") as watch:
            while True:
                # For ever: a server that is away comes back, and until then the end of the wait is the caller's.
                outcome = await read_outcome(self._submitter.store, self.request_id, patience_s=None)
                if outcome.ended or (outcome.state is State.UNKNOWN and _given_up(outcome, on_unknown)):
                    return outcome
                await watch.changed()

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
