"""Takes one intended effect for this very holder, without a queue; or shows what is on record, to be ruled on."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from ..leases.channel import Channel
from ..leases.scripts import scripted
from .replies import integer, text, words
from .states import Boundary, BoundaryMode, EffectClass, Liveness, State
from .submit import Intent


class ClaimReply(StrEnum):
    """What the store says of one claim."""

    GRANTED = "granted"
    """The attempt is the caller's."""
    KNOWN = "known"
    """There is a row, and nothing was granted: its view follows, to be ruled on."""
    CONFLICT = "conflict"
    """The request id names another effect."""
    DRIFT = "drift"
    """The dispatch was used before, with other arguments."""
    CORRUPT = "corrupt"
    """The row is not what a script of ours writes."""
    LOST = "lost"
    """The caller's session has ended."""
    EPOCH = "epoch"
    """The data set is in another epoch than the caller's session."""


@scripted("mycelium.ledger", "claim", ClaimReply)
def claim_script(  # noqa: PLR0913 - a claim is told whole
    *,
    session: str,
    epoch: int,
    op: str,
    client: str,
    request_id: str,
    effect: str,
    ticket: str,
    share: str,
    drift: str,
    tool: str,
    effect_class: str,
    mode: str,
    again: int,
    max_attempts: int,
    max_deaths: int,
    keep: int,
    keep_result: int,
    about: bytes,
    asked: int,
    key: str,
    own: int,
    boundary: str,
    expect: str,
    auth: str,
    window_ms: int,
    body: bytes,
) -> None:
    """Stub of `claim.lua`."""


@dataclass(frozen=True, slots=True)
class Holder:
    """Whose claim it is.

    Attributes:
        session_id: the session.
        epoch: the epoch in which it was opened.
        client_id: who is told when a row ends that another holder has; empty: nobody.
    """

    session_id: str
    epoch: int
    client_id: str = ""


@dataclass(frozen=True, slots=True)
class Stand:
    """What a claim has to say of the row that it was ruled on.

    Attributes:
        expect: the row's version as it was shown; empty: only a row that does not exist may be granted.
        auth: why it may run again, told in its history: `retry`, `reclaim`, `key`, `verdict` …
        window_s: for `key`: seconds for which the provider still honours the key, worst delay taken off.
    """

    expect: str = ""
    auth: str = "claim"
    window_s: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """One row as a claim shows it. Instants are server milliseconds; 0: not yet.

    Attributes:
        request_id: its storage identity, which may be another one than was asked for.
        now_ms: the server's time.
        liveness: how its holder stands.
        state: where it stands.
        fence: digits: its current attempt.
        version: digits: grows with each entry of its history; a ruling holds for this version only.
        effect_class: as it is on record.
        boundary_mode: as it is on record.
        boundary: how far its current attempt may have come.
        attempts: grants.
        deaths: holders that ended under it.
        max_deaths: how many of them it survives.
        again: False where its declaration forbids a repeat that its class allows.
        doubt: an attempt before the current one may have had its effect.
        first_ms: its first dispatch.
        effect_id: its dedupe identity.
        session: who holds it.
        key: what a parameter of the tool carried to the provider as its key; empty: no parameter did.
        ended: its last attempt can send nothing more.
        ref: the provider's handle of the operation.
        error: class name of the last error, or a reason word.
        asked: whether there is a way to learn what became of it.
        unknown_ms: when it became unknown.
        asks: how often its provider could not say.
        cancelled: somebody asked for its cancel: it does not run again.
    """

    request_id: str
    now_ms: int
    liveness: Liveness
    state: State
    fence: str
    version: str
    effect_class: EffectClass
    boundary_mode: BoundaryMode
    boundary: Boundary
    attempts: int
    deaths: int
    max_deaths: int
    again: bool
    doubt: bool
    first_ms: int
    effect_id: str
    session: str
    key: str
    ended: bool
    ref: str
    error: str
    asked: bool
    unknown_ms: int
    asks: int
    cancelled: bool


@dataclass(frozen=True, slots=True)
class Claimed:
    """What a claim came to.

    Attributes:
        word: the store's word.
        shown: the row, for `granted` and `known`.
        other: for `conflict` and `drift`: the request id that stands against the call.
        state: for `conflict` and `drift`: the state of that one.
    """

    word: ClaimReply
    shown: Shown | None = None
    other: str = ""
    state: str = ""


async def claim(  # noqa: PLR0913 - a claim is told whole
    calls: Channel,
    intent: Intent,
    holder: Holder,
    *,
    op: str,
    boundary: Boundary | None = None,
    stand: Stand = Stand(),
) -> Claimed:
    """Claim one intended effect: new, or as a ruling on its row allows.

    Args:
        calls: the channel for job traffic.
        intent: the intended effect.
        holder: whose claim it is.
        op: new for each claim: a claim that is sent again after a lost reply gets the same grant (L9).
        boundary: how far the attempt is about to come, where nothing is asked before its body: the decision is then
            recorded with the claim, and with `maybe_crossed` the mark as well; None: the decision comes by `decide`.
        stand: the ruling on the row, as it was shown.

    Raises:
        ServerError: the store could not be asked; nothing may be dispatched.
    """
    item = intent.item()
    command = claim_script(
        session=holder.session_id,
        epoch=holder.epoch,
        op=op,
        client=holder.client_id,
        request_id=item.id,
        effect=item.effect,
        ticket=item.ticket,
        share=item.share,
        drift=item.drift,
        tool=item.tool,
        effect_class=item.effect_class,
        mode=item.mode,
        again=item.again,
        max_attempts=item.max_attempts,
        max_deaths=item.max_deaths,
        keep=item.keep,
        keep_result=item.keep_result,
        about=item.about,
        asked=item.asked,
        key=intent.key,
        own=int(intent.binding.propagate_effect_id_as_provider_key),
        boundary=boundary or "",
        expect=stand.expect,
        auth=stand.auth,
        window_ms=round(stand.window_s * 1000),
        body=item.body,
    )
    word, *rest = words(await calls.run(command))
    reply = ClaimReply(text(word))
    if reply in {ClaimReply.GRANTED, ClaimReply.KNOWN}:
        return Claimed(reply, _shown([text(value) for value in rest]))
    if reply in {ClaimReply.CONFLICT, ClaimReply.DRIFT, ClaimReply.CORRUPT}:
        return Claimed(reply, other=text(rest[0]), state=text(rest[1]))
    return Claimed(reply)


def _shown(values: list[str]) -> Shown:
    now, request_id, liveness, state, fence, version, effect_class, mode, boundary, attempts, deaths, max_deaths = (
        values[:12]
    )
    again, doubt, first, effect, session, key, ended, ref, error, asked, unknown_ms, asks, cancel = values[12:]
    return Shown(
        request_id=request_id,
        now_ms=integer(now),
        liveness=Liveness(liveness),
        state=State(state),
        fence=fence,
        version=version,
        effect_class=EffectClass(effect_class),
        boundary_mode=BoundaryMode(mode),
        boundary=Boundary(boundary),
        attempts=integer(attempts),
        deaths=integer(deaths),
        max_deaths=integer(max_deaths),
        again=again != "0",
        doubt=doubt == "1",
        first_ms=integer(first),
        effect_id=effect,
        session=session,
        key=key,
        ended=ended == "1",
        ref=ref,
        error=error,
        asked=asked == "1",
        unknown_ms=integer(unknown_ms),
        asks=integer(asks),
        cancelled=cancel == "1",
    )
