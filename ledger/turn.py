"""One turn of a worker: settles what ended and claims what is ready, in one call."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple

from ..leases.channel import Channel
from ..leases.scripts import scripted
from .binding import Binding
from .line import DEFAULT_QUEUE
from .replies import integer, raw, text, words
from .states import Boundary, BoundaryMode, EffectClass, Settle, Settled

MOST = 1000
"""Attempts that one turn grants at the most."""


class TurnReply(StrEnum):
    """What the store says of a turn, and of each settlement in it."""

    OK = "ok"
    """The session stands; what was free was claimed for."""
    LOST = "lost"
    """The session has ended: settlements were judged, nothing was claimed."""
    EPOCH = "epoch"
    """The data set changed: settlements were judged, nothing was claimed."""
    SETTLED = "settled"
    """See `Settled`."""
    LATE = "late"
    """See `Settled`."""
    STALE = "stale"
    """See `Settled`."""
    MISSING = "missing"
    """See `Settled`."""
    CORRUPT = "corrupt"
    """See `Settled`."""


class EndedItem(NamedTuple):
    """How one attempt ended, as `turn.lua` takes it."""

    id: str
    fence: str
    verb: str
    error: str
    delay_ms: int
    over: int
    boundary: str
    ref: str
    body: bytes

    def __repr__(self) -> str:
        # Results may be secrets of the caller's, and a repr ends up in logs.
        return f"<end of {self.id!r}: {self.verb}>"


class KnownItem(NamedTuple):
    """A tool that the worker can run, and how it is declared there."""

    tool: str
    effect_class: str
    mode: str
    again: int
    alone: int


class QueueItem(NamedTuple):
    """A queue that the worker takes from: how many it is given before the others get more, and how many at the most."""

    name: str
    share: int
    most: int


@scripted("mycelium.ledger", "turn", TurnReply)
def turn_script(  # noqa: PLR0913 - a turn is told whole
    *,
    session: str,
    epoch: int,
    lane: int,
    op: str,
    slots: int,
    solo: int,
    ended: Sequence[EndedItem],
    known: Sequence[KnownItem],
    queue: Sequence[QueueItem],
) -> None:
    """Stub of `turn.lua`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settlement:
    """How one attempt ended, as its holder tells it.

    Attributes:
        request_id: the transition.
        fence: the attempt's fence.
        verb: how it ended.
        body: the result, or the error told as JSON; opaque to the store.
        error: class name of the error, or a reason word; at most 64 characters are kept.
        delay_s: for a retry: seconds before it may run again.
        over: nothing of the attempt can still send; False where its body was cut short.
        boundary: how far the attempt came.
        ref: the provider's handle of the operation, if one was recorded.
    """

    request_id: str
    fence: str
    verb: Settle
    # Results may be secrets of the caller's, and a repr ends up in logs.
    body: bytes = field(default=b"", repr=False)
    error: str = ""
    delay_s: float = 0.0
    over: bool = True
    boundary: Boundary = Boundary.NOT_CROSSED
    ref: str = ""

    def item(self) -> EndedItem:
        """The arguments of the script."""
        return EndedItem(
            self.request_id,
            self.fence,
            self.verb,
            self.error[:64],
            max(0, round(self.delay_s * 1000)),
            int(self.over),
            self.boundary,
            self.ref,
            self.body,
        )


@dataclass(frozen=True, slots=True)
class Grant:
    """One attempt that this holder may make.

    Attributes:
        request_id: the transition.
        fence: digits; every write of the attempt carries it.
        attempt: which attempt it is, from 1.
        tool: the tool's name.
        queue: the queue that it waited in.
        effect_class: as it was submitted.
        boundary_mode: who writes the mark.
        effect_id: the dedupe identity, and the provider's idempotency key.
        age_ms: server milliseconds since the first dispatch of the transition; 0 when there was none.
        left_ms: server milliseconds until the deadline of the transition; None: it has none.
        run: how the attempt runs, as it was submitted; empty: as the tool is declared.
        key: what a parameter of the tool carries to the provider as its key; empty: no parameter does.
        args: the stored arguments.
    """

    request_id: str
    fence: str
    attempt: int
    tool: str
    queue: str
    effect_class: EffectClass
    boundary_mode: BoundaryMode
    effect_id: str
    age_ms: int
    left_ms: int | None
    run: str
    # Arguments and keys may be secrets of the caller's, and a repr ends up in logs.
    key: str = field(repr=False)
    args: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class TurnReport:
    """What a turn did.

    Attributes:
        standing: `ok`, or why nothing was claimed.
        settled: the store's word for each settlement, in order.
        grants: the attempts that were granted.
        cancels: request id and fence of what the holder is asked to cancel; told again until it has ended.
        wait_s: after how many seconds there may be more to claim; None: when the bell rings, or at the next poll.
        held_back: something waits that may not run yet: a pause or a limit keeps it.
        metered: something waits that will run by itself, when a bucket has filled.
    """

    standing: TurnReply
    settled: tuple[Settled, ...]
    grants: tuple[Grant, ...]
    cancels: tuple[tuple[str, str], ...]
    wait_s: float | None
    held_back: bool = False
    metered: bool = False


_GRANT_WIDTH = 13


@dataclass(frozen=True, slots=True)
class Known:
    """A tool that the holder can run.

    Attributes:
        binding: as it is declared there: where that is stricter than what was submitted, it holds.
        alone: an attempt of it takes a place of its own kind: one of `solo`.
    """

    binding: Binding
    alone: bool = False


async def take_turn(  # noqa: PLR0913 - a turn is told whole
    calls: Channel,
    *,
    session_id: str,
    epoch: int,
    lane: int,
    op: str,
    slots: int,
    ended: Sequence[Settlement],
    known: Mapping[str, Known],
    solo: int = 0,
    queues: Sequence[QueueItem] = (QueueItem(DEFAULT_QUEUE, MOST, MOST),),
    patience_s: float | None = 5.0,
) -> TurnReport:
    """Settle what ended and claim up to the free slots.

    Args:
        calls: the channel for job traffic.
        session_id: the holder.
        epoch: the epoch in which it opened its session.
        lane: which of the turns in flight this is; a lane has one turn at a time.
        op: new for each turn of the lane: a turn that is sent again after a lost reply gets the same grants.
        slots: how many attempts may start at once, right now.
        ended: how attempts ended.
        known: the tools that the holder can run, in the order in which they are looked at.
        solo: how many more attempts of tools that run alone may start at once.
        queues: what is claimed from, in this order.
        patience_s: how long to ask again when the server is away; None: for ever.

    Raises:
        ServerError: the server could not be asked; the turn may be sent again with the same op.
    """
    command = turn_script(
        session=session_id,
        epoch=epoch,
        lane=lane,
        op=op,
        slots=slots,
        solo=solo,
        ended=[settlement.item() for settlement in ended],
        known=[
            KnownItem(
                tool, one.binding.effect_class, str(one.binding.boundary_mode), int(one.binding.again), int(one.alone)
            )
            for tool, one in known.items()
        ],
        queue=queues,
    )
    standing, now, wait, held_back, count, asked, *rest = words(await calls.run(command, patience_s=patience_s))
    done, stop = integer(count), integer(count) + 2 * integer(asked)
    cancels = [text(value) for value in rest[done:stop]]
    return TurnReport(
        standing=TurnReply(text(standing)),
        settled=tuple(Settled(text(word)) for word in rest[:done]),
        grants=tuple(_grants(rest[stop:], integer(now))),
        cancels=tuple(zip(cancels[::2], cancels[1::2], strict=True)),
        wait_s=integer(wait) / 1000 if integer(wait) else None,
        held_back=bool(integer(held_back)),
        metered=text(held_back) == "2",
    )


def _grants(values: list[object], now_ms: int) -> Iterator[Grant]:
    for at in range(0, len(values), _GRANT_WIDTH):
        request_id, fence, attempt, tool, queue, effect_class, mode, effect, first, key, left, run, args = values[
            at : at + _GRANT_WIDTH
        ]
        first_ms = integer(first)
        yield Grant(
            request_id=text(request_id),
            fence=text(fence),
            attempt=integer(attempt),
            tool=text(tool),
            queue=text(queue),
            effect_class=EffectClass(text(effect_class)),
            boundary_mode=BoundaryMode(text(mode)),
            effect_id=text(effect),
            age_ms=now_ms - first_ms if first_ms else 0,
            left_ms=integer(left) if text(left) else None,
            run=text(run),
            key=text(key),
            args=raw(args),
        )
