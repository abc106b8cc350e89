"""How an attempt of this process ends, and how that is recorded: whatever ends the body, its row is settled."""

from __future__ import annotations

import asyncio
import logging
import uuid

from ...leases.errors import LedgerOutcomeAlreadySetError, NotExecuted, ServerError
from ...leases.store import Store
from ...ledger.record import Failure
from ...ledger.states import Boundary, Settle, Settled
from ...ledger.turn import Settlement, take_turn
from ..hosts.results import encode_result, name_of, words_of
from .attempt import InlineAttempt
from .background import Background

log = logging.getLogger(__name__)

STOOD = frozenset({Settled.SETTLED, Settled.LATE})
"""The words of a settlement that holds."""


def completed(attempt: InlineAttempt, value: object, *, max_bytes: int) -> Settlement:
    """The body returned: its effect was seen. A result that cannot be kept becomes a marker, never a failure."""
    body, fault = encode_result(value, max_bytes)
    return _settlement(attempt, Settle.COMPLETED, Boundary.CROSSED, body=body, error=fault)


def failed(attempt: InlineAttempt, error: BaseException, *, tracked: bool = True) -> Settlement:
    """The body raised (design, "Boundary modes"; E4).

    `NotExecuted` proves that there is no effect, if it is this body's own and not one that a call inside it raised; and
    so does an error before the mark. A mark that the store did not take is no failure of the tool's.

    Args:
        attempt: whose body it was.
        error: what it raised. What was cut short, by an interrupt or a cancellation, may leave a thread behind.
        tracked: False where tasks that the body began may outlive it and still send, as in async code.
    """
    boundary = attempt.came_to
    unsent = boundary is Boundary.NOT_CROSSED
    repeatable = attempt.intent.binding.repeatable
    cut_short = not isinstance(error, Exception)
    if cut_short or (unsent and attempt.mark_missed):
        verb = Settle.RELEASED if unsent or repeatable else Settle.UNKNOWN
    else:
        proved = unsent or _proves(attempt, error)
        verb = Settle.FAILED if proved else Settle.RETRY if repeatable else Settle.UNKNOWN
    over = verb is Settle.FAILED or unsent or (tracked and not cut_short)
    name = name_of(type(error)).rpartition(".")[2]
    return _settlement(attempt, verb, boundary, body=Failure(name, words_of(error)).body(), error=name, over=over)


def _proves(attempt: InlineAttempt, error: BaseException) -> bool:
    if not isinstance(error, NotExecuted):
        return False
    # It speaks of the attempt that it ended first; what goes on out of a call inside this one says nothing of this one.
    error.of_attempt = error.of_attempt or attempt.shown.fence
    return error.of_attempt == attempt.shown.fence


def told(attempt: InlineAttempt, error: BaseException, *, after_effect: bool) -> Settlement:
    """A host that runs the body itself tells how it failed: the effect may exist, or it is proved that none does."""
    verb = Settle.UNKNOWN if after_effect else Settle.FAILED
    boundary = Boundary.MAYBE_CROSSED if after_effect else attempt.came_to
    name = name_of(type(error)).rpartition(".")[2]
    return _settlement(attempt, verb, boundary, body=Failure(name, words_of(error)).body(), error=name)


def out_of_window(attempt: InlineAttempt) -> Settlement:
    """A call that may have been sent came too late for its first key: what that one did stays unknown (E6)."""
    body = Failure("KeyWindowOver", "The provider's key window ended before the call could be sent again.").body()
    return _settlement(attempt, Settle.UNKNOWN, Boundary.MAYBE_CROSSED, body=body, error="KeyWindowOver")


def abandoned(attempt: InlineAttempt) -> Settlement:
    """Nobody can tell any more how it ended: whoever held it has dropped it.

    What never began is given back; of the rest only its boundary speaks, and nothing says that it is over.
    """
    if not attempt.began:
        return unstarted(attempt)
    boundary = attempt.came_to
    given_back = boundary is Boundary.NOT_CROSSED or attempt.intent.binding.repeatable
    verb = Settle.RELEASED if given_back else Settle.UNKNOWN
    return _settlement(attempt, verb, boundary, error="Abandoned", over=False)


def unstarted(attempt: InlineAttempt) -> Settlement:
    """The body never began: ready again, and not charged; a mark that came with the claim is taken back."""
    return _settlement(attempt, Settle.RELEASED, Boundary.NOT_CROSSED)


def _settlement(  # noqa: PLR0913 - a settlement is told whole
    attempt: InlineAttempt, verb: Settle, boundary: Boundary, *, body: bytes = b"", error: str = "", over: bool = True
) -> Settlement:
    return Settlement(
        request_id=attempt.shown.request_id,
        fence=attempt.shown.fence,
        verb=verb,
        body=body,
        error=error,
        over=over,
        boundary=boundary,
        ref=attempt.ref,
    )


class Settler:
    """Records settlements on the portal's loop, also when the caller has gone or the server is away for a while."""

    def __init__(self, store: Store, background: Background) -> None:
        self._store = store
        self._background = background

    async def settle(self, attempt: InlineAttempt, settlement: Settlement) -> Settled:
        """Record one settlement. A caller that is cancelled meanwhile does not stop it.

        Raises:
            ServerError: the store could not be asked; it is told again until the store has answered.
        """
        attempt.settled = True
        task = self._background.start(self._send(attempt, settlement))
        try:
            return await asyncio.shield(task)
        except ServerError:
            self._background.add(self._until_told(attempt, settlement))
            raise
        except asyncio.CancelledError:
            self._background.add(self._unheard(task, attempt, settlement))
            raise

    async def settle_or_refuse(self, attempt: InlineAttempt, settlement: Settlement) -> None:
        """Record one settlement that has to stand.

        Raises:
            LedgerOutcomeAlreadySetError: the attempt is not the current one any more, or has its outcome.
            ServerError: as `settle`.
        """
        word = await self.settle(attempt, settlement)
        if word not in STOOD:
            attempt.settled = False
            what = f"The {settlement.verb} of {settlement.request_id!r} was refused: {word}."
            next_step = (
                "Nothing was changed. Another attempt has taken over, or no decision was recorded: read the record."
            )
            raise LedgerOutcomeAlreadySetError(what, next_step=next_step)

    async def give_back(self, attempt: InlineAttempt) -> None:
        """Give back an attempt whose body never began.

        Raises:
            ServerError: as `settle`.
        """
        attempt.end()
        await self.settle(attempt, unstarted(attempt))

    def pick_up(self, attempt: InlineAttempt) -> None:
        """Settle what nobody has any more, or ever took; to be called on the portal's loop."""
        attempt.end()
        attempt.settled = True
        settlement = abandoned(attempt)
        log.info("%r was dropped before it was settled: %s", settlement.request_id, settlement.verb)
        self._background.add(self._until_told(attempt, settlement))

    async def _send(self, attempt: InlineAttempt, settlement: Settlement) -> Settled:
        session = attempt.session
        report = await take_turn(
            self._store.calls,
            session_id=session.id,
            epoch=session.epoch,
            lane=0,
            op=uuid.uuid4().hex,
            slots=0,
            ended=[settlement],
            known={},
            patience_s=self._store.settings.patience_s,
        )
        (word,) = report.settled
        if word not in STOOD:
            log.warning("the %s of %r was refused: %s", settlement.verb, settlement.request_id, word)
        return word

    async def _until_told(self, attempt: InlineAttempt, settlement: Settlement) -> None:
        # Also after the session is lost: what its holder saw is evidence, and the store judges it by its fence (E9).
        while True:
            try:
                await self._send(attempt, settlement)
            except ServerError as away:
                log.warning("settlement of %r put off: %s", settlement.request_id, away)
                await asyncio.sleep(attempt.session.settings.renew_every_s)
            else:
                return

    async def _unheard(self, task: asyncio.Future[Settled], attempt: InlineAttempt, settlement: Settlement) -> None:
        try:
            await task
        except ServerError as away:
            log.warning("settlement of %r put off: %s", settlement.request_id, away)
            await self._until_told(attempt, settlement)
