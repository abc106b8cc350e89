"""Claims a call; where it is on record already, the gate says: wait, ask the provider, run it again, or refuse."""

from __future__ import annotations

import asyncio
import random

from ...leases.errors import (
    LedgerHardBlockError,
    LedgerPollTimeoutError,
    LedgerSoftBlockError,
    MyceliumError,
    ScriptError,
)
from ...leases.store import Store
from ...ledger.claim import Claimed, ClaimReply, Shown, Stand
from ...ledger.doubt import doubt_if_unsendable
from ...ledger.gates import RowView, key_age, key_match, resolve
from ...ledger.refusals import conflicting, drifted
from ...ledger.repair import RepairReply, repair
from ...ledger.ruling import Ruling
from ...ledger.states import HELD, Gate, Liveness, State
from ...ledger.sweep import take_if_lapsed
from ..outcome import read_outcome
from ..waiting import Waiters
from .asking import Asking
from .claiming import Claimer
from .prepared import Begun, Prepared, Returned
from .settings import LedgerSettings

_FIRST_PAUSE_S = 0.02
_RUNS = frozenset({Gate.ALLOW, Gate.RECLAIM, Gate.SOFT_BLOCK})


class Gatekeeper:
    """Runs on the portal's loop. It gives leave to run, a stored result, or an error that says why neither."""

    def __init__(self, store: Store, claimer: Claimer, waiters: Waiters, settings: LedgerSettings) -> None:
        self.store = store
        self.claimer = claimer
        self.settings = settings
        self.asking = Asking(store, settings)
        self._waiters = waiters

    async def begin(self, call: Prepared) -> Begun:
        """Get leave for one call.

        Raises:
            LedgerHardBlockError: it is on record, and may not run again.
            LedgerSoftBlockError: a read whose outcome is unknown, and its caller wants it refused.
            LedgerPollTimeoutError: another holder had it for longer than the call waits.
            IdentityConflictError: its request id, or its dispatch, names something else.
            SessionLostError: this process may not dispatch now.
            ServerError: the store could not be asked. Nothing was dispatched.
        """
        return await _Round(self, call).run()

    async def wait(self, request_id: str, pause_s: float) -> None:
        """Wait until a row has moved, or the pause is over; nothing is written."""
        with self._waiters.watching(request_id, unknown=True) as watch:
            try:
                async with asyncio.timeout(pause_s):
                    await watch.changed()
            except TimeoutError:
                return


class _Round:
    """One call on its way to leave, or to an end without it."""

    def __init__(self, gatekeeper: Gatekeeper, call: Prepared) -> None:
        self._gatekeeper = gatekeeper
        self._call = call
        self._stand = Stand()
        self._pause_s = _FIRST_PAUSE_S
        self._asked_about = self._said = ""
        self._taken = ""
        self._repaired = False
        timeout_s = call.poll_timeout_s
        self._deadline_s = None if timeout_s is None else asyncio.get_running_loop().time() + timeout_s

    async def run(self) -> Begun:
        while True:
            claimed, session = await self._gatekeeper.claimer.claim(self._call, self._stand)
            self._stand = Stand()
            if claimed.shown is None:
                await self._refused(claimed)
            elif claimed.word is ClaimReply.GRANTED:
                return self._gatekeeper.claimer.attempt(self._call, claimed.shown, session)
            elif returned := await self._known(claimed.shown):
                return returned

    async def _refused(self, claimed: Claimed) -> None:
        intent = self._call.intent
        if claimed.word is ClaimReply.CONFLICT:
            raise conflicting(intent.identity.request_id, claimed.state)
        if claimed.word is ClaimReply.DRIFT:
            raise drifted(intent.tool, claimed.other, claimed.state, intent.drift)
        # A damaged row is healed once, and judged anew: healing runs nothing.
        if self._repaired or await repair(self._gatekeeper.store, intent) is not RepairReply.REPAIRED:
            what = (
                f"The record of {intent.identity.request_id!r} is damaged, and nothing says which effect it speaks of."
            )
            raise ScriptError(what, next_step="Nothing was dispatched. Look at the key by hand.")
        self._repaired = True

    async def _known(self, shown: Shown) -> Returned | None:
        store = self._gatekeeper.store
        if shown.state in HELD and shown.liveness is Liveness.DEAD:
            # First it becomes what its class and boundary say; only then is it judged.
            await take_if_lapsed(store, shown.request_id)
            return None
        ruling = self._rule(shown)
        if ruling.gate is Gate.RETURN:
            return Returned(await read_outcome(store, shown.request_id))
        if ruling.gate is Gate.POLL:
            # What its provider can tell need not be waited for, whoever may still be at it.
            if not await self._ask(shown):
                await self._wait(shown, ruling)
        elif ruling.gate in _RUNS and not (ruling.gate is Gate.SOFT_BLOCK and self._call.defer_unknown):
            await self._take(shown, ruling)
        elif not await self._ask(shown):
            if shown.state is State.READY:
                # Ready, and never to run: as an unknown one it is seen and looked after.
                await doubt_if_unsendable(store.calls, shown.request_id, version=shown.version, error="KeyWindowOver")
            raise self._block(shown, ruling)
        return None

    def _rule(self, shown: Shown) -> Ruling:
        binding = self._call.intent.binding
        return resolve(
            _view(shown),
            binding,
            self._liveness(shown),
            key_match(binding.key_param is not None, shown.key or None, self._call.intent.key or None, propagate=True),
            key_age(shown.first_ms or None, binding.key_window_s, shown.now_ms, binding.timeout_s),
        )

    def _liveness(self, shown: Shown) -> Liveness:
        if shown.state is not State.UNKNOWN:
            return shown.liveness
        if shown.ended:
            return Liveness.NOBODY
        session = self._gatekeeper.settings.session
        silent_ms = shown.now_ms - shown.unknown_ms
        return Liveness.DEAD if silent_ms >= (session.ttl_s + session.grace_s) * 1000 else Liveness.GRACE

    async def _take(self, shown: Shown, ruling: Ruling) -> None:
        """The gate lets it run: claim it as it was shown. A provider that can be asked comes before its key."""
        if self._taken == shown.version:
            # The store did not let it run as it was shown. Whatever the two differ in, no call turns round for ever.
            await self._wait(shown, ruling)
        self._taken = shown.version
        binding = self._call.intent.binding
        by_key = shown.state is State.UNKNOWN and not binding.repeatable
        if by_key and await self._ask(shown):
            return
        auth = "key" if by_key else "retry" if shown.state is State.FAILED else "reclaim"
        window_s = max(0.0, (binding.key_window_s or 0.0) - binding.timeout_s)
        self._stand = Stand(expect=shown.version, auth=auth, window_s=window_s)

    async def _ask(self, shown: Shown) -> bool:
        """Ask the provider about this very attempt, once; True: something was learnt, or somebody else was quicker."""
        asked = f"{shown.fence} {self._liveness(shown)}"
        if self._call.reconciler is None or shown.state is not State.UNKNOWN or self._asked_about == asked:
            return False
        self._asked_about = asked
        moved, self._said = await self._gatekeeper.asking.settle(self._call, shown)
        return moved

    async def _wait(self, shown: Shown, ruling: Ruling) -> None:
        loop_s = asyncio.get_running_loop().time()
        left_s = self._pause_s if self._deadline_s is None else self._deadline_s - loop_s
        if left_s <= 0:
            what = f"{shown.request_id!r} has not ended in time: {ruling.why.what}"
            next_step = "Nothing was written to it. Call again, or wait for it by its request id."
            raise LedgerPollTimeoutError(what, state=shown.state, next_step=next_step)
        jitter = random.uniform(0.5, 1.5)  # noqa: S311 - no secret
        await self._gatekeeper.wait(shown.request_id, min(left_s, self._pause_s * jitter))
        self._pause_s = min(self._gatekeeper.settings.poll_s, self._pause_s * 2)

    def _block(self, shown: Shown, ruling: Ruling) -> MyceliumError:
        ref = f" The provider's handle is {shown.ref!r}." if shown.ref else ""
        said = f" Its provider was asked just now: {self._said}." if self._said else ""
        what = f"{shown.request_id!r} may not run again: {ruling.why.what}{ref}{said}"
        see = f"{ruling.why.next_step} `mycelium transitions show {shown.request_id}` tells more."
        kind = LedgerSoftBlockError if ruling.gate is Gate.SOFT_BLOCK else LedgerHardBlockError
        return kind(what, state=shown.state, next_step=see, request_id=shown.request_id, why=ruling.why.value)


def _view(shown: Shown) -> RowView:
    return RowView(
        state=shown.state,
        boundary=shown.boundary,
        effect_class=shown.effect_class,
        boundary_mode=shown.boundary_mode,
        again=shown.again,
        doubt=shown.doubt,
        worn_out=shown.deaths >= shown.max_deaths,
        intact=True,
        cancelled=shown.cancelled,
    )
