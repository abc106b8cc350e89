"""The verbs of a ledger in process, on the portal's loop: one store, one session, and all that works on them."""

from __future__ import annotations

import asyncio
import uuid

from ...leases.errors import (
    LedgerOutcomeAlreadySetError,
    LedgerPollTimeoutError,
    ServerUnavailableError,
    SessionLostError,
)
from ...leases.store import Store, open_store
from ...ledger.claim import Holder
from ...ledger.decide import DecideReply, decide
from ...ledger.decision import Decision
from ...ledger.receipts import Follower
from ...ledger.record import Record, read_record
from ...ledger.states import HELD, Boundary, BoundaryMode, State
from ..waiting import Waiters
from .attempt import InlineAttempt
from .background import Background
from .claiming import Claimer
from .gatekeeper import Gatekeeper
from .keeper import Keeper
from .prepared import Begun, Prepared
from .settings import LedgerSettings
from .settling import Settler

_CLOSING_S = 2.0
"""So long a close waits for settlements that are on their way."""
_OPEN = HELD | {State.DELAYED, State.READY, State.PARKED}


class Service:
    """Made by `open`, on the loop that it works on.

    Attributes:
        store: the server.
        settler: records how attempts end.
    """

    def __init__(self, store: Store, settings: LedgerSettings, *, name: str) -> None:
        client_id = uuid.uuid4().hex
        follower = None if settings.receipts is None else Follower(store, settings.receipts(store))
        self.store = store
        self._background = Background()
        self._keeper = Keeper(store, settings.session, name=name, follower=follower)
        self._waiters = Waiters(store, client_id, poll_s=settings.poll_s)
        self.settler = Settler(store, self._background)
        claimer = Claimer(store, self._keeper, self.settler, self._background, client_id)
        self._gatekeeper = Gatekeeper(store, claimer, self._waiters, settings)
        self._beginning: set[asyncio.Task[object]] = set()
        self._closing = False
        self._keeper.start()

    @classmethod
    async def open(cls, url: str | None, *, namespace: str, settings: LedgerSettings, name: str) -> Service:
        """Connect.

        Raises:
            ServerError: as `open_store`.
            SettingsError: receipts are to go where they cannot.
        """
        store = await open_store(url, namespace=namespace, settings=settings.store)
        try:
            return cls(store, settings, name=name)
        except BaseException:
            await store.aclose()
            raise

    async def begin(self, call: Prepared) -> Begun:
        """As `Gatekeeper.begin`."""
        task = asyncio.current_task()
        if self._closing or task is None:
            raise _closed()
        self._beginning.add(task)
        try:
            return await self._gatekeeper.begin(call)
        except asyncio.CancelledError:
            if self._closing:
                raise _closed() from None
            raise
        finally:
            self._beginning.discard(task)

    async def decide(self, attempt: InlineAttempt, decision: Decision) -> None:
        """Record a decision; one that allows carries the mark with it where the runtime writes it.

        Raises:
            LedgerOutcomeAlreadySetError: the attempt is not the current one any more, or has a decision.
            ServerError: the store could not be asked; nothing may be dispatched.
        """
        automatic = attempt.intent.binding.boundary_mode is BoundaryMode.AUTOMATIC
        boundary = Boundary.MAYBE_CROSSED if automatic else Boundary.NOT_CROSSED
        word = await decide(
            self.store.calls,
            attempt.shown,
            Holder(attempt.session.id, attempt.session.epoch),
            op=uuid.uuid4().hex,
            allowed=decision.allowed,
            decision=decision.body(),
            boundary=boundary,
        )
        if word in {DecideReply.LOST, DecideReply.EPOCH}:
            what = "This process lost its session before the decision was recorded."
            raise SessionLostError(what, next_step="Nothing was dispatched, and the call was given back. Call again.")
        if word not in {DecideReply.DECIDED, DecideReply.DENIED}:
            what = f"The decision on {attempt.shown.request_id!r} was refused: {word}."
            next_step = (
                "Nothing may be dispatched. Another attempt has taken over, or the decision is recorded: read it."
            )
            raise LedgerOutcomeAlreadySetError(what, next_step=next_step)
        if decision.allowed:
            attempt.began = True
            attempt.forward(boundary)
        else:
            attempt.settled = True

    async def wait(self, request_id: str, timeout_s: float | None, pause_s: float) -> Record:
        """Wait until a transition is neither open nor in flight; nothing is written to it.

        Raises:
            JobNotFoundError: nothing is on record under this id.
            LedgerPollTimeoutError: the wait is over before it is.
            ServerError: the store could not be asked.
        """
        loop = asyncio.get_running_loop()
        deadline_s = None if timeout_s is None else loop.time() + timeout_s
        while True:
            record = await read_record(self.store, request_id)
            if record.state not in _OPEN:
                return record
            left_s = pause_s if deadline_s is None else deadline_s - loop.time()
            if left_s <= 0:
                what = f"{request_id!r} has not ended within {timeout_s:g} s."
                next_step = "Nothing was written to it: wait again, or look at it."
                raise LedgerPollTimeoutError(what, state=record.state, next_step=next_step)
            await self._gatekeeper.wait(record.request_id, min(left_s, pause_s))

    async def aclose(self) -> None:
        """End the session and close the connections.

        Calls that wait end with an error, and what they were granted is given back; settlements on their way get
        through.
        What still runs is left to run out.
        """
        self._closing = True
        for task in self._beginning:
            task.cancel()
        if self._beginning:
            await asyncio.wait(set(self._beginning), timeout=_CLOSING_S)
        await self._waiters.aclose()
        await self._background.aclose(within_s=_CLOSING_S)
        await self._keeper.aclose()
        await self.store.aclose()


def _closed() -> ServerUnavailableError:
    what = "The ledger was closed before the call could begin."
    return ServerUnavailableError(what, next_step="Nothing was dispatched. Open a ledger, and call again.")
