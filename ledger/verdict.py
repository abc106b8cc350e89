"""Which unknown transitions are due to be asked about, and how what was said of them is recorded."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple

from ..leases.channel import Channel
from ..leases.scripts import scripted
from .replies import integer, raw, text, words
from .states import EffectClass


class DueReply(StrEnum):
    """What the store says of a page of unknown transitions."""

    OK = "ok"
    """The page follows."""


class VerdictReply(StrEnum):
    """What the store says of one verdict."""

    SETTLED = "settled"
    """Recorded, now or by an earlier sending of the same verdict."""
    REFUSED = "refused"
    """The transition is not the one that was asked about any more: nothing changed."""
    MISSING = "missing"
    """No such row."""
    CORRUPT = "corrupt"
    """The row is not what a script of ours writes."""
    WINDOW = "window"
    """It may not be sent again: not keyed, the window is over, or its attempts are used up."""


class Said(StrEnum):
    """What is recorded of an unknown transition."""

    COMPLETED = "completed"
    """The effect exists; the body is its result."""
    NOT_EXECUTED = "not_executed"
    """No effect exists and none can still arrive: it may run again, once."""
    UNKNOWN = "unknown"
    """Cannot be told yet: ask later."""
    RESEND = "resend"
    """Not told, but the provider de-duplicates by key: the identical call may be sent again (E6)."""


class KnownTool(NamedTuple):
    """A tool that the asker has an adapter for."""

    tool: str


@scripted("mycelium.ledger", "due", DueReply)
def due_script(*, page: int, put_off_ms: int, known: Sequence[KnownTool]) -> None:
    """Stub of `due.lua`."""


@scripted("mycelium.ledger", "verdict", VerdictReply)
def verdict_script(  # noqa: PLR0913 - a verdict is recorded whole
    *,
    request_id: str,
    fence: str,
    said: str,
    by: str,
    evidence: str,
    asks: int,
    next_ms: int,
    window_ms: int,
    body: bytes,
) -> None:
    """Stub of `verdict.lua`."""


@dataclass(frozen=True, slots=True)
class Doubt:
    """One unknown transition, as the store shows it.

    Attributes:
        request_id: the transition.
        fence: digits: the attempt that is in doubt; a verdict is recorded only while it is the current one.
        tool: the tool's name.
        effect_class: as it was submitted.
        effect_id: the idempotency key that the provider got.
        attempt: how many attempts were granted.
        ref: the provider's handle, empty when none was recorded.
        unknown_for_ms: server milliseconds since it became unknown.
        ended: whether the old attempt is known to be over, so that it can send nothing more.
        asks: how often its provider could not say.
        age_ms: server milliseconds since its first dispatch.
        key: what a parameter of the tool carried to the provider as its key; empty: no parameter did.
        args: canonical arguments.
    """

    request_id: str
    fence: str
    tool: str
    effect_class: EffectClass
    effect_id: str
    attempt: int
    ref: str
    unknown_for_ms: int
    ended: bool
    asks: int
    age_ms: int
    # Arguments and keys may be secrets of the caller's, and a repr ends up in logs.
    key: str = field(repr=False)
    args: bytes = field(repr=False)


_WIDTH = 13


async def due(calls: Channel, known: Sequence[str], *, page: int, put_off_s: float) -> list[Doubt]:
    """Take a page of the unknown transitions that are due, and put off their next asking.

    Args:
        calls: the channel for job traffic.
        known: names of the tools that the asker has an adapter for.
        page: at most so many.
        put_off_s: nobody else is handed them for so long.

    Raises:
        ServerError: the server could not be asked.
    """
    command = due_script(page=page, put_off_ms=round(put_off_s * 1000), known=[KnownTool(tool) for tool in known])
    _, now, *rest = words(await calls.run(command))
    return list(_doubts(rest, integer(now)))


def _doubts(values: list[object], now_ms: int) -> Iterator[Doubt]:
    for at in range(0, len(values), _WIDTH):
        request_id, fence, tool, effect_class, effect, attempts, ref, since, ended, asks, key, first, args = values[
            at : at + _WIDTH
        ]
        yield Doubt(
            request_id=text(request_id),
            fence=text(fence),
            tool=text(tool),
            effect_class=EffectClass(text(effect_class)),
            effect_id=text(effect),
            attempt=integer(attempts),
            ref=text(ref),
            unknown_for_ms=now_ms - integer(since),
            ended=text(ended) == "1",
            asks=integer(asks),
            age_ms=now_ms - integer(first) if integer(first) else 0,
            key=text(key),
            args=raw(args),
        )


async def record_if_unknown(  # noqa: PLR0913 - a verdict is recorded whole
    calls: Channel,
    doubt: Doubt,
    said: Said,
    *,
    by: str,
    evidence: str = "",
    body: bytes = b"",
    ask_again_s: float = 0.0,
    window_s: float = 0.0,
) -> VerdictReply:
    """Record what was said of a transition, if it is still the unknown attempt that was asked about.

    Args:
        calls: the channel for job traffic.
        doubt: as it was shown to whoever said it.
        said: the verdict.
        by: who said it.
        evidence: what it rests on, kept with the row.
        body: the result, for `completed`; the error told as JSON, for `not_executed` without an attempt left.
        ask_again_s: for `unknown`: seconds until the next asking.
        window_s: for `resend`: the provider's key window.

    Raises:
        ServerError: the server could not be asked; recording again is safe.
    """
    command = verdict_script(
        request_id=doubt.request_id,
        fence=doubt.fence,
        said=said,
        by=by,
        evidence=evidence,
        asks=doubt.asks,
        next_ms=round(ask_again_s * 1000),
        window_ms=round(window_s * 1000),
        body=body,
    )
    word, *_ = words(await calls.run(command))
    return VerdictReply(text(word))
