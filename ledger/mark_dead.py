"""Takes a person's word that the holder of a transition is dead, so that what it held need not wait for the clock."""

from __future__ import annotations

from enum import StrEnum
from typing import NoReturn

from ..leases.errors import LedgerReleaseRefusedError, LedgerWorkerAliveError
from ..leases.scripts import scripted
from ..leases.store import Store
from .authorize import OperatorAction, OperatorAuthorizer, check_operator
from .record import Record
from .replies import integer, text, words
from .signature import NOTHING, PRESUMED_DEAD_S, corrupt, read_shown, sign, silence_ms


class DeadReply(StrEnum):
    """What the store says of one declaration of death."""

    DECLARED = "declared"
    """Recorded, now or by an earlier sending of the same declaration."""
    ALIVE = "alive"
    """Its holder was heard of too short a time ago."""
    OVER = "over"
    """Its last attempt is known to be over."""
    NOBODY = "nobody"
    """Nobody holds it."""
    TERMINAL = "terminal"
    """It has ended."""
    MISSING = "missing"
    """No such row."""
    CORRUPT = "corrupt"
    """The row is not what a script of ours writes."""


@scripted("mycelium.ledger", "mark_dead", DeadReply)
def mark_dead_script(  # noqa: PLR0913 - a declaration is recorded whole
    *, op: str, request_id: str, by: str, reason: str, presumed_ms: int, override: int
) -> None:
    """Stub of `mark_dead.lua`."""


async def mark_dead(  # noqa: PLR0913 - (the same)
    store: Store,
    request_id: str,
    *,
    by: str,
    reason: str,
    override: bool = False,
    presumed_dead_s: float = PRESUMED_DEAD_S,
    credential: str | None = None,
    authorizer: OperatorAuthorizer | None = None,
) -> Record:
    """Record that the holder of a transition is dead and can send nothing more; gives the record as it stands then.

    A holder that is alive after all is stopped: its session ends with all that it holds, and each transition of it gets
    what its class and boundary say.

    Args:
        store: the server.
        request_id: the transition, under its own id or one that joined it.
        by: who says so.
        reason: how they know.
        override: though the holder was heard of lately: somebody saw it die. The reason is told so.
        presumed_dead_s: how long a holder must have been silent.
        credential: what proves to the authorizer who asks.
        authorizer: asked before the store is; None: nobody is asked.

    Raises:
        LedgerWorkerAliveError: the holder was heard of lately, or its session has not lapsed.
        LedgerReleaseRefusedError: there is no such transition, nobody holds it, it has ended, or its attempt is known
            to be over; or the call is not as it must be, or not authorized.
        ScriptError: the row was not written by this product.
        ServerError: the store could not be asked; whether it is recorded, the record shows.
    """
    signed, presumed_ms = sign(by, reason), silence_ms(presumed_dead_s)
    await check_operator(authorizer, OperatorAction.MARK_DEAD, request_id, by=signed.by, credential=credential)
    command = mark_dead_script(
        op=signed.op,
        request_id=request_id,
        by=signed.by,
        reason=signed.reason,
        presumed_ms=presumed_ms,
        override=int(override),
    )
    word, _, silent = words(await store.calls.run(command))
    reply, record = DeadReply(text(word)), await read_shown(store, request_id)
    if reply is not DeadReply.DECLARED:
        _refuse(reply, record, integer(silent), presumed_ms)
    return record


_REFUSALS = {
    DeadReply.OVER: (
        "needs no word on its worker: its last attempt is known to be over.",
        "Look at the provider, and release it.",
    ),
    DeadReply.NOBODY: ("is held by nobody.", "There is no worker to declare dead."),
    DeadReply.TERMINAL: ("has ended, and what has ended stays as it is.", "There is no worker to declare dead."),
}


def _refuse(reply: DeadReply, record: Record, silent_ms: int, presumed_ms: int) -> NoReturn:
    name = repr(record.request_id)
    if reply is DeadReply.ALIVE:
        what = f"The worker of {name} may be alive: it was heard of {silent_ms / 1000:.1f} s ago."
        wait = f"Wait until it was silent for {presumed_ms / 1000:g} s and its session has lapsed"
        next_step = f"{NOTHING} {wait}; if you saw it die, override the heartbeat."
        raise LedgerWorkerAliveError(what, state=record.state, next_step=next_step)
    if reply in _REFUSALS:
        what, next_step = _REFUSALS[reply]
        raise LedgerReleaseRefusedError(f"{name} {what}", state=record.state, next_step=f"{NOTHING} {next_step}")
    raise corrupt(record.request_id)
