"""Records what a person verified of a transition in doubt: the way out where neither record nor provider can say.

Nothing runs here, and it is no unblock: a release is a verification that somebody puts their name to. It is recorded
once, on the version of the row that was shown, and never overwritten.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from enum import Enum, StrEnum
from typing import NoReturn

from ..leases.errors import (
    LedgerAlreadyResolvedError,
    LedgerError,
    LedgerReleaseRefusedError,
    LedgerWorkerAliveError,
)
from ..leases.scripts import scripted
from ..leases.store import Store
from .authorize import OperatorAction, OperatorAuthorizer, check_operator
from .record import Record
from .replies import text, words
from .signature import NOTHING, PRESUMED_DEAD_S, Signature, corrupt, read_shown, sign, silence_ms
from .standing import Standing, read_standings
from .states import HELD
from .sweep import take_if_lapsed

MAX_RESULT_BYTES = 1 << 20


class Verified(StrEnum):
    """What a person verified with the provider."""

    COMPLETED = "completed"
    """The effect happened: the transition is completed with the result that they give."""
    NOT_EXECUTED = "not_executed"
    """It did not, and cannot any more: the transition runs once more."""


class NotGiven(Enum):
    """Stands for a result that was left out: None is a result."""

    NOT_GIVEN = "not given"
    """It was left out."""


NOT_GIVEN = NotGiven.NOT_GIVEN


class ReleaseReply(StrEnum):
    """What the store says of one release."""

    RELEASED = "released"
    """Recorded, now or by an earlier sending of the same release."""
    ALREADY = "already"
    """A verification of this attempt is on record."""
    HELD = "held"
    """Its holder's session lives."""
    LAPSED = "lapsed"
    """Its holder is dead, and it was not taken from it yet."""
    ALIVE = "alive"
    """The old attempt may still send."""
    OPEN = "open"
    """It is not in doubt, and will run."""
    TERMINAL = "terminal"
    """It has ended."""
    CHANGED = "changed"
    """It is not as it was shown."""
    MISSING = "missing"
    """No such row."""
    CORRUPT = "corrupt"
    """The row is not what a script of ours writes."""


@scripted("mycelium.ledger", "release", ReleaseReply)
def release_script(  # noqa: PLR0913 - a verification is recorded whole
    *,
    op: str,
    request_id: str,
    expect: str,
    verified: str,
    by: str,
    reason: str,
    presumed_ms: int,
    override: int,
    body: bytes,
) -> None:
    """Stub of `release.lua`."""


async def release(  # noqa: PLR0913 - a verification is recorded whole
    store: Store,
    request_id: str,
    *,
    verified: Verified | str,
    by: str,
    reason: str,
    result: object = NOT_GIVEN,
    override: bool = False,
    presumed_dead_s: float = PRESUMED_DEAD_S,
    expect: str | None = None,
    credential: str | None = None,
    authorizer: OperatorAuthorizer | None = None,
) -> Record:
    """Record, once, what a person verified of an unknown transition; gives the record as it stands then.

    Args:
        store: the server. Whoever can write to it has this authority without asking: protect it so.
        request_id: the transition, under its own id or one that joined it.
        verified: whether the effect happened.
        by: who verified it. A stamp, not a proof: that is what `authorizer` is for.
        reason: what they saw at the provider.
        result: with `completed`: the JSON value that the call is answered with from now on; None, if that is what the
            tool returns. It cannot be left out, and never be changed.
        override: with `not_executed`: they know that the old attempt can send nothing more. The reason is told so. It
            takes nothing from a holder that may be alive: that is what `mark_dead` is for.
        presumed_dead_s: so long after it became unknown, its attempt is taken for unable to send.
        expect: the version that they were shown (`version_of`); None: as it stands now.
        credential: what proves to the authorizer who asks.
        authorizer: asked before the store is; None: nobody is asked.

    Raises:
        LedgerReleaseRefusedError: there is no such transition; it is held, has ended, is not in doubt, or not as it was
            shown; or the call is not as it must be, or not authorized.
        LedgerAlreadyResolvedError: a verification of this attempt is on record.
        LedgerWorkerAliveError: the old attempt may still send.
        ScriptError: the row was not written by this product.
        ServerError: the store could not be asked; whether it is recorded, the record shows.
    """
    word = _verified(verified)
    wording = _Wording(word, _body(word, result), sign(by, reason), presumed_dead_s, override)
    silence_ms(wording.presumed_s)
    await check_operator(authorizer, OperatorAction.RELEASE, request_id, by=wording.signed.by, credential=credential)
    return await _release(store, request_id, wording, expect)


def version_of(record: Record) -> str:
    """The version of a record: it grows with each entry of its history."""
    return str(record.history[-1].number) if record.history else "0"


# ── the call, before anything is asked ───────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class _Wording:
    verified: Verified
    body: bytes
    signed: Signature
    presumed_s: float
    override: bool


def _verified(given: str) -> Verified:
    try:
        return Verified(given)
    except ValueError:
        what = "Only 'completed' or 'not_executed' can be verified."
        raise LedgerReleaseRefusedError(what, next_step=f"{NOTHING} While nobody can say, leave it unknown.") from None


def _body(verified: Verified, result: object) -> bytes:
    if verified is Verified.NOT_EXECUTED:
        if result is not NOT_GIVEN and result is not None:
            what = "What was not executed has no result."
            raise LedgerReleaseRefusedError(what, next_step=f"{NOTHING} Leave the result out, or verify 'completed'.")
        return b""
    if result is NOT_GIVEN:
        what = "What the call is answered with is missing: a release as completed records it once and for all."
        give = "Give the result; null (in Python: None), if that is what the tool returns."
        raise LedgerReleaseRefusedError(what, next_step=f"{NOTHING} {give}")
    try:
        body = json.dumps(result, allow_nan=False, ensure_ascii=False).encode()
    except (TypeError, ValueError, RecursionError):
        # What the encoder says may quote the result.
        what = "The result is not a JSON value."
        raise LedgerReleaseRefusedError(what, next_step=f"{NOTHING} Give what the tool would have returned.") from None
    if len(body) > MAX_RESULT_BYTES:
        what = f"The result takes more than {MAX_RESULT_BYTES:,} bytes."
        raise LedgerReleaseRefusedError(what, next_step=f"{NOTHING} Store it elsewhere and give a reference.")
    return body


# ── the store ────────────────────────────────────────────────────────────────────────────────────────────────────────


async def _release(store: Store, request_id: str, wording: _Wording, expect: str | None) -> Record:
    shown = await read_shown(store, request_id)
    if expect is not None and expect != version_of(shown):
        raise _changed(shown, expect)
    reply = await _send(store, shown, wording)
    if reply is ReleaseReply.LAPSED:
        shown = await _taken(store, shown)
        reply = await _send(store, shown, wording)
    after = await read_shown(store, shown.request_id)
    if reply is ReleaseReply.ALIVE:
        raise _alive(after, (await read_standings(store, [after], wording.presumed_s))[0])
    if reply is not ReleaseReply.RELEASED:
        _refuse(reply, after, version_of(shown))
    return after


async def _send(store: Store, shown: Record, wording: _Wording) -> ReleaseReply:
    command = release_script(
        op=wording.signed.op,
        request_id=shown.request_id,
        expect=version_of(shown),
        verified=wording.verified,
        by=wording.signed.by,
        reason=wording.signed.reason,
        presumed_ms=silence_ms(wording.presumed_s),
        override=int(wording.override),
        body=wording.body,
    )
    return ReleaseReply(text(words(await store.calls.run(command))[0]))


async def _taken(store: Store, shown: Record) -> Record:
    """Take it from its dead holder, and read it again: now it is in doubt, or proved not to be."""
    await take_if_lapsed(store, shown.request_id)
    record = await read_shown(store, shown.request_id)
    if record.fence != shown.fence:
        raise _changed(record, version_of(shown))
    return record


# ── refusals ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def _changed(record: Record, expected: str) -> LedgerReleaseRefusedError:
    last = f" ({record.history[-1].what}, {record.history[-1].why})" if record.history else ""
    what = f"{record.request_id!r} was shown in version {expected}, and stands in version {version_of(record)}{last}."
    next_step = f"{NOTHING} Look at it again, and whether what you verified still holds."
    return LedgerReleaseRefusedError(what, state=record.state, next_step=next_step)


_MARK_DEAD = "`mycelium transitions mark-dead … --override-heartbeat` (in Python: `mark_dead(…, override=True)`)"


def _alive(record: Record, standing: Standing) -> LedgerWorkerAliveError:
    """Say until when the old attempt may send, and what shortens that: which depends on whether it is still held."""
    name = repr(record.request_id)
    wait = f"Wait {standing.for_s} s"
    if record.state in HELD:
        what = f"{name} is held: its worker's session lapsed, and the worker may be alive for {standing.for_s} s more."
        next_step = f"{wait}; if you saw it die, say so with {_MARK_DEAD}. The override of a release does not."
    else:
        what = f"{name} may not be released as not executed yet: its old attempt may still send for {standing.for_s} s."
        known = "if you know that it can send nothing more, say so with --override-heartbeat (in Python: override=True)"
        next_step = f"{wait}; or, {known}."
    return LedgerWorkerAliveError(what, state=record.state, next_step=f"{NOTHING} {next_step}")


_REFUSALS: dict[ReleaseReply, tuple[type[LedgerError], str, str]] = {
    ReleaseReply.HELD: (
        LedgerReleaseRefusedError,
        "is held: its worker's session is alive.",
        f"Wait for its outcome. If you saw its worker die, say so with {_MARK_DEAD}; an override here does not.",
    ),
    ReleaseReply.OPEN: (
        LedgerReleaseRefusedError,
        "is not in doubt: nothing of it was sent, or it may repeat.",
        "It will run by itself, or when its caller comes again. There is nothing to verify.",
    ),
    ReleaseReply.TERMINAL: (
        LedgerReleaseRefusedError,
        "has ended, and what has ended stays as it is.",
        "For another effect submit a new request id.",
    ),
}


def _refuse(reply: ReleaseReply, record: Record, expected: str) -> NoReturn:
    if reply is ReleaseReply.ALREADY:
        what = f"{record.request_id!r} was released before: {record.resolution}, by {record.resolved_by!r}."
        next_step = f"{NOTHING} A verification is never overwritten. Its reason is in the record."
        raise LedgerAlreadyResolvedError(what, state=record.state, next_step=next_step)
    if reply in _REFUSALS:
        kind, what, next_step = _REFUSALS[reply]
        raise kind(f"{record.request_id!r} {what}", state=record.state, next_step=f"{NOTHING} {next_step}")
    if reply is ReleaseReply.CORRUPT:
        raise corrupt(record.request_id)
    raise _changed(record, expected)
