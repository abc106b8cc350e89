"""One attempt in this process: what `side_effect()` finds while its body runs."""

from __future__ import annotations

import asyncio
import os
import sys
import time
from collections.abc import Callable
from contextlib import suppress

from ...leases.errors import BoundaryError, ServerError, ServerUnavailableError
from ...leases.session import Session
from ...leases.store import Store
from ...ledger.claim import Shown
from ...ledger.mark import Mark, MarkReply, mark
from ...ledger.states import Boundary, BoundaryMode, EffectClass
from ...ledger.submit import Intent
from ..context import CallContext

_MARK_S = 5.0
"""So long a mark is sent again at most."""
_ORDER = (Boundary.NOT_CROSSED, Boundary.MAYBE_CROSSED, Boundary.CROSSED)


class InlineAttempt:
    """A granted attempt whose body runs where the call was made.

    Attributes:
        intent: the intended effect.
        shown: the row as the claim gave it.
        session: under which it was granted; its writes go under it, whatever session is current by then.
        boundary: how far the effect may have come.
        ref: the provider's handle, once noted.
        key: what the provider gets as its key.
        began: whether its body may have begun.
        settled: whether its end was told to the store, or is about to be.
        mark_missed: a mark that its tool asked for got no answer from the store: the tool could not start its effect.
    """

    def __init__(  # noqa: PLR0913, PLR0917 - a grant is told whole
        self,
        store: Store,
        intent: Intent,
        shown: Shown,
        session: Session,
        key: str,
        dropped: Callable[[InlineAttempt], None],
    ) -> None:
        self.intent = intent
        self.shown = shown
        self.session = session
        self.boundary = shown.boundary
        self.ref = ""
        self.key = key
        self.began = False
        self.settled = False
        self.mark_missed = False
        self._dropped = dropped
        self._store = store
        self._loop = asyncio.get_running_loop()
        self._began_s = time.monotonic()
        self._pid = os.getpid()
        self._ended = False
        self._in_doubt = False
        self._marking = asyncio.Lock()

    def __del__(self) -> None:
        """Nobody has it any more, so nobody can settle it: the portal does, and no row stays held for nothing.

        So ends what an interrupt hit between two steps, and what a host claimed and forgot.
        """
        if self.settled or self.forked or sys.is_finalizing() or self._loop.is_closed():
            return
        with suppress(RuntimeError):  # the loop was closed in this very moment
            self._loop.call_soon_threadsafe(self._dropped, self)

    @property
    def forked(self) -> bool:
        """Whether this is a child of the process that it was granted to."""
        return os.getpid() != self._pid

    @property
    def ended(self) -> bool:
        """Whether its body has ended."""
        return self._ended

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        """The portal's loop, which marks are sent from."""
        return self._loop

    @property
    def effect_class(self) -> EffectClass:
        """What kind of effect its tool is declared with."""
        return self.intent.binding.effect_class

    @property
    def came_to(self) -> Boundary:
        """How far the effect may have come, a mark without an answer included."""
        if (self._in_doubt or self.ref) and self.boundary is Boundary.NOT_CROSSED:
            return Boundary.MAYBE_CROSSED
        return self.boundary

    def mark_within_s(self) -> float:
        """How long a mark is waited for: no longer than a session without news is trusted."""
        return self.session.settings.ttl_s

    def describe(self) -> CallContext:
        """The call as its tool may see it."""
        shown, intent = self.shown, self.intent
        left_s = max(0.0, intent.binding.timeout_s - (time.monotonic() - self._began_s))
        return CallContext(
            shown.request_id, shown.effect_id, shown.attempts, shown.fence, intent.tool, self.key, left_s
        )

    def needs_mark(self) -> bool:
        """Whether an effect that starts now needs a mark first.

        Raises:
            BoundaryError: no effect may start: the attempt is over, the tool is declared as a read, or this is a fork.
        """
        self._check()
        return self.boundary is Boundary.NOT_CROSSED

    async def mark(self, ref: str | None) -> None:
        """Write `maybe_crossed` (and a provider's reference) durably.

        Raises:
            BoundaryError: refused, unreachable, or no effect may start.
        """
        async with self._marking:
            self._check()
            if ref is None and self.boundary is not Boundary.NOT_CROSSED:
                return
            self._in_doubt = True
            word = await self._send(ref)
            self._in_doubt = False
            if word is not MarkReply.MARKED:
                raise self._refused(f"The mark was refused: {word}.")
            self.forward(Boundary.MAYBE_CROSSED)
            self._check_trust()
            self._check()

    def note(self, ref: str) -> None:
        """Keep a provider's reference, to travel with the settlement as well."""
        self.ref = ref

    def crossed(self) -> None:
        """Note that the external call returned."""
        self.boundary = Boundary.CROSSED

    def progress(self, done: float, total: float | None, note: str) -> None:
        """Nothing: whoever made the call waits in this process."""

    def forward(self, boundary: Boundary) -> None:
        """Note that the effect may have come so far."""
        self.boundary = max(self.boundary, boundary, key=_ORDER.index)

    def end(self) -> None:
        """The body has ended: no mark passes any more."""
        self._ended = True

    def in_window(self) -> bool:
        """Whether a call that may have been sent before may still be sent with its first key, right now (E6)."""
        window_s, shown = self.intent.binding.key_window_s, self.shown
        if not shown.doubt or window_s is None or self.effect_class is not EffectClass.KEYED_MUTATE:
            return True
        age_s = (shown.now_ms - shown.first_ms) / 1000 + (time.monotonic() - self._began_s)
        return age_s + self.intent.binding.timeout_s < window_s

    def may_begin(self) -> bool:
        """Whether this process still trusts its session, and so may start a dispatch now (L7)."""
        return self.session.trusted()

    async def _send(self, ref: str | None) -> MarkReply:
        item = Mark(self.shown.request_id, self.shown.fence, Boundary.MAYBE_CROSSED, ref or "")
        store, session = self._store, self.session
        patience_s = min(store.settings.patience_s or _MARK_S, _MARK_S)
        try:
            (word,) = await mark(store.calls, [item], session_id=session.id, epoch=session.epoch, patience_s=patience_s)
        except ServerError as error:
            # One that is proved not to have run leaves no doubt, and is no failure of the tool's.
            self.mark_missed = True
            self._in_doubt = not isinstance(error, ServerUnavailableError)
            raise self._refused(f"The mark was not acknowledged: {error.what}") from error
        return word

    def _check_trust(self) -> None:
        if not self.session.trusted():
            raise self._refused("The mark was acknowledged too late: this process does not trust its session any more.")

    def _check(self) -> None:
        if self.forked:
            raise self._refused("This process was forked by the tool, and no effect can be marked in it.")
        if self._ended:
            raise self._refused("The attempt is over.")
        if self.intent.binding.boundary_mode is BoundaryMode.NONE:
            raise self._refused(f"The tool {self.intent.tool!r} is declared as a read and may run again at any time.")

    def _refused(self, what: str) -> BoundaryError:
        return BoundaryError(what, next_step="The effect must not start; let this error end the tool.")
