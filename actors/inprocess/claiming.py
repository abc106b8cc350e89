"""Claims calls under a session that is trusted, and loses no grant: what nobody hears of is given back."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Awaitable, Callable

from ...leases.errors import ServerError, SessionLostError
from ...leases.session import Session
from ...leases.store import Store
from ...ledger.claim import Claimed, ClaimReply, Holder, Shown, Stand, claim
from ...ledger.decision import PREDICATES
from ...ledger.states import Boundary, BoundaryMode
from .attempt import InlineAttempt
from .background import Background
from .keeper import Keeper
from .prepared import Prepared
from .settling import Settler

_SESSIONS = 3
"""So many sessions in a row may be lost before a call is refused for it."""

_Ask = Callable[[], Awaitable[Claimed]]


class Claimer:
    """Runs on the portal's loop.

    Attributes:
        settler: records how what was claimed ends.
    """

    def __init__(self, store: Store, keeper: Keeper, settler: Settler, background: Background, client_id: str) -> None:
        self._store = store
        self._keeper = keeper
        self.settler = settler
        self._background = background
        self._client_id = client_id

    async def claim(self, call: Prepared, stand: Stand) -> tuple[Claimed, Session]:
        """Claim one call; a lost session is replaced.

        Raises:
            SessionLostError: this process may not dispatch now.
            ServerError: the store could not be asked. Nothing was dispatched.
        """
        for _ in range(_SESSIONS):
            session = await self._keeper.trusted()
            claimed = await self._whole(call, session, stand)
            if claimed.word not in {ClaimReply.LOST, ClaimReply.EPOCH}:
                return claimed, session
            session.lost.set()
        what = "Each session of this process was lost before it could claim."
        raise SessionLostError(what, next_step="Nothing was dispatched. Look at the server and at this machine's load.")

    def attempt(self, call: Prepared, shown: Shown, session: Session) -> InlineAttempt:
        """The attempt that a claim granted."""
        # As on a worker: where the caller chose no key, the effect id is the one that a body may send by itself.
        key = shown.key or shown.effect_id
        return InlineAttempt(self._store, call.intent, shown, session, key, self.settler.pick_up)

    async def _whole(self, call: Prepared, session: Session, stand: Stand) -> Claimed:
        holder = Holder(session.id, session.epoch, self._client_id)
        op, boundary = uuid.uuid4().hex, _boundary_of(call)

        async def ask() -> Claimed:
            calls = self._store.calls
            return await claim(calls, call.intent, holder, op=op, boundary=boundary, stand=stand)

        asked = asyncio.ensure_future(ask())
        try:
            return await asyncio.shield(asked)
        except BaseException:
            # Cancelled, or without an answer: the claim may have been granted, and its row must not stay held.
            self._background.add(self._give_back(call, session, ask, asked))
            raise

    async def _give_back(self, call: Prepared, session: Session, ask: _Ask, asked: Awaitable[Claimed]) -> None:
        while not session.lost.is_set():
            try:
                claimed = await asked
            except ServerError:
                await asyncio.sleep(session.settings.renew_every_s / 4)
                asked = ask()
                continue
            if claimed.word is ClaimReply.GRANTED and claimed.shown is not None:
                await self.settler.give_back(self.attempt(call, claimed.shown, session))
            return


def _boundary_of(call: Prepared) -> Boundary | None:
    # Asked for only now: a predicate may have been registered while the call waited.
    if call.by_hand or len(PREDICATES):
        return None
    automatic = call.intent.binding.boundary_mode is BoundaryMode.AUTOMATIC
    return Boundary.MAYBE_CROSSED if automatic else Boundary.NOT_CROSSED
