"""Records what was decided about a claimed attempt, before its body begins."""

from __future__ import annotations

from enum import StrEnum

from ..leases.channel import Channel
from ..leases.scripts import scripted
from .claim import Holder, Shown
from .replies import text, words
from .states import Boundary


class DecideReply(StrEnum):
    """What the store says of one decision."""

    DECIDED = "decided"
    """Recorded: the body may begin."""
    DENIED = "denied"
    """Recorded: the transition has failed without an effect."""
    BEFORE = "before"
    """Another decision is on record for this attempt."""
    STALE = "stale"
    """The attempt is not the current one: its body must not begin."""
    LOST = "lost"
    """The caller's session has ended: its body must not begin."""
    EPOCH = "epoch"
    """The data set changed: its body must not begin."""
    MISSING = "missing"
    """No such row: its body must not begin."""
    CORRUPT = "corrupt"
    """The row is not ours: its body must not begin."""


@scripted("mycelium.ledger", "decide", DecideReply)
def decide_script(  # noqa: PLR0913 - a decision is told whole
    *,
    session: str,
    epoch: int,
    op: str,
    request_id: str,
    fence: str,
    allowed: int,
    decision: bytes,
    boundary: str,
) -> None:
    """Stub of `decide.lua`."""


async def decide(  # noqa: PLR0913 - a decision is told whole
    calls: Channel,
    shown: Shown,
    holder: Holder,
    *,
    op: str,
    allowed: bool,
    decision: bytes,
    boundary: Boundary,
) -> DecideReply:
    """Record what was decided about a claimed attempt.

    Args:
        calls: the channel for job traffic.
        shown: the attempt, as its claim gave it.
        holder: whose attempt it is.
        op: new for each decision.
        allowed: False: the transition fails here, without an effect.
        decision: the verdicts as JSON, for people.
        boundary: `maybe_crossed` records the mark with the decision.

    Raises:
        ServerError: the store could not be asked; nothing may be dispatched.
    """
    command = decide_script(
        session=holder.session_id,
        epoch=holder.epoch,
        op=op,
        request_id=shown.request_id,
        fence=shown.fence,
        allowed=int(allowed),
        decision=decision,
        boundary=boundary,
    )
    return DecideReply(text(words(await calls.run(command))[0]))
