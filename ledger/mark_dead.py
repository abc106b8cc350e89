"""Takes a person's word that the holder of a transition is dead, so that what it held need not wait for the clock."""

from __future__ import annotations

import math
from enum import StrEnum
from typing import NoReturn

from ..leases.errors import LedgerReleaseRefusedError, LedgerWorkerAliveError
from ..leases.scripts import scripted
from ..leases.store import Store
from .authorize import OperatorAction, OperatorAuthorizer, check_operator
from .record import Record
from .replies import integer, text, words
from .signature import NOTHING, PRESUMED_DEAD_S, corrupt, read_shown, sign, silence_ms
from .standing import Standing, read_standings
from .states import HELD, Liveness


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
    if reply is DeadReply.ALIVE:
        raise _alive(record, (await read_standings(store, [record], presumed_dead_s))[0], integer(silent), presumed_ms)
    if reply is not DeadReply.DECLARED:
        _refuse(reply, record)
    return record


_REFUSALS = {
    DeadReply.OVER: (
        "needs no word on its worker: its last attempt is known to be over.",
        "Look at the provider, and release it.",
    ),
    DeadReply.NOBODY: ("is held by nobody.", "There is no worker to declare dead."),
    DeadReply.TERMINAL: ("has ended, and what has ended stays as it is.", "There is no worker to declare dead."),
}


def _alive(record: Record, standing: Standing, silent_ms: int, presumed_ms: int) -> LedgerWorkerAliveError:
    left_ms = presumed_ms - silent_ms
    until = f"it was silent for {presumed_ms / 1000:g} s"
    if record.state in HELD and standing.liveness is Liveness.HELD:
        left_ms = max(left_ms, standing.for_ms)
        until += " and its session has lapsed"
    left_s = max(0, math.ceil(left_ms / 1000))
    what = f"The worker of {record.request_id!r} may be alive: it was heard of {silent_ms / 1000:.1f} s ago."
    wait = f"Wait until {until}: in {left_s} s, if it is not heard of again"
    override = "if you saw it die, say so with --override-heartbeat (in Python: override=True)"
    return LedgerWorkerAliveError(what, state=record.state, next_step=f"{NOTHING} {wait}; {override}.")


def _refuse(reply: DeadReply, record: Record) -> NoReturn:
    if reply in _REFUSALS:
        what, next_step = _REFUSALS[reply]
        what = f"{record.request_id!r} {what}"
        raise LedgerReleaseRefusedError(what, state=record.state, next_step=f"{NOTHING} {next_step}")
    raise corrupt(record.request_id)
