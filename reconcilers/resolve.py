"""Asks about every unknown transition that is due, and records what may be concluded from the answer.

An answer alone moves nothing (R3). "Not executed" counts only when the provider's lag has passed since the last moment
at which the call can have arrived, and the old attempt can send nothing more: it is known to be over, or its holder's
session lapsed so long ago that it is taken for dead (X2, X4: a presumption, stated in the settings). Everything else
stays unknown and is asked again, ever more seldom.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field

from ..leases.channel import Channel
from ..ledger.record import Failure
from ..ledger.states import EffectClass
from ..ledger.verdict import Doubt, Said, VerdictReply, due, record_if_unknown
from .verdict import Verdict, VerdictWord

_REASON_CHARS = 200

Question = Callable[[Doubt], Awaitable[Verdict]]


@dataclass(frozen=True, slots=True)
class AskedTool:
    """What the rules need to know of a tool. Seconds.

    Attributes:
        lag_s: after so long an effect that exists is certain to be seen by its adapter; None: it has no adapter.
        timeout_s: so long one attempt may take, so that a call which it sent may still arrive.
        key_window_s: so long its provider de-duplicates by key; None: never assumed.
    """

    lag_s: float | None
    timeout_s: float
    key_window_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ResolveSettings:
    """How unknown transitions are asked about. Seconds.

    Attributes:
        page: how many are taken at once.
        presumed_dead_s: a holder whose session lapsed so long ago is taken for unable to send.
        put_off_s: nobody else asks about a transition for so long; longer than a question may take.
        first_s: until the second asking, doubled each time.
        at_most_s: the longest interval between two askings.
    """

    page: int = 32
    presumed_dead_s: float = 30.0
    put_off_s: float = 30.0
    first_s: float = 0.5
    at_most_s: float = 300.0


@dataclass(frozen=True, slots=True)
class Conclusion:
    """What an answer comes to."""

    said: Said
    # Results may be secrets of the caller's, and a repr ends up in logs.
    evidence: str = field(default="", repr=False)
    body: bytes = field(default=b"", repr=False)
    ask_again_s: float = 0.0


@dataclass(frozen=True, slots=True)
class ResolveReport:
    """What one run did: how many transitions were asked about, and what was concluded.

    Attributes:
        asked: transitions whose provider was asked.
        completed: the effect was seen.
        run_again: not executed, or sent again by key: ready.
        unknown: cannot be told yet.
        refused: somebody else had settled it meanwhile.
    """

    asked: int = 0
    completed: int = 0
    run_again: int = 0
    unknown: int = 0
    refused: int = 0


def conclude(doubt: Doubt, verdict: Verdict, tool: AskedTool, settings: ResolveSettings) -> Conclusion:
    """Judge one answer: a pure function of what is known."""
    if verdict.word is VerdictWord.COMPLETED:
        body = _result(verdict.result)
        if body is None:
            return _unknown(doubt, "the adapter's result cannot be kept", settings)
        return Conclusion(Said.COMPLETED, evidence=_evidence(verdict.evidence), body=body)
    wait_s = _wait_s(doubt, tool, settings)
    if verdict.word is VerdictWord.NOT_EXECUTED:
        if wait_s > 0:
            return Conclusion(Said.UNKNOWN, evidence="absent, but it may still arrive", ask_again_s=wait_s)
        failure = Failure("NotExecuted", "The provider has no record of it, and it cannot arrive any more.")
        return Conclusion(Said.NOT_EXECUTED, evidence=_evidence(verdict.evidence), body=failure.body())
    if wait_s <= 0 and _may_resend(doubt, tool):
        return Conclusion(Said.RESEND, evidence=_short(f"sent again by key; {verdict.reason}"))
    return _unknown(doubt, verdict.reason, settings)


async def run_once(
    calls: Channel, tools: Mapping[str, AskedTool], ask: Question, settings: ResolveSettings
) -> ResolveReport:
    """Take one page of what is due, ask about all of it at once, and record the conclusions.

    Args:
        calls: the channel for job traffic.
        tools: the tools that can be asked about, or sent again by key.
        ask: puts one question; it never raises for a provider that fails, but says "unknown".
        settings: intervals and presumptions.

    Raises:
        ServerError: the store could not be asked; what was recorded is recorded.
    """
    doubts = await due(calls, list(tools), page=settings.page, put_off_s=settings.put_off_s)
    told = await asyncio.gather(*(_resolve(calls, doubt, tools[doubt.tool], ask, settings) for doubt in doubts))
    return ResolveReport(
        asked=len(told),
        completed=told.count(Said.COMPLETED),
        run_again=told.count(Said.NOT_EXECUTED) + told.count(Said.RESEND),
        unknown=told.count(Said.UNKNOWN),
        refused=told.count(None),
    )


async def _resolve(
    calls: Channel, doubt: Doubt, tool: AskedTool, ask: Question, settings: ResolveSettings
) -> Said | None:
    verdict = Verdict.unknown("the tool has no adapter") if tool.lag_s is None else await ask(doubt)
    conclusion = conclude(doubt, verdict, tool, settings)
    reply = await record_if_unknown(
        calls,
        doubt,
        conclusion.said,
        by="reconciler",
        evidence=conclusion.evidence,
        body=conclusion.body,
        ask_again_s=conclusion.ask_again_s,
        window_s=(tool.key_window_s or 0.0) - tool.timeout_s,
    )
    return conclusion.said if reply is VerdictReply.SETTLED else None


def _wait_s(doubt: Doubt, tool: AskedTool, settings: ResolveSettings) -> float:
    """Seconds until "absent" proves something: the call cannot arrive any more, and would be seen if it had."""
    lag_s = tool.lag_s or 0.0
    still_s = lag_s if doubt.ended else max(settings.presumed_dead_s, tool.timeout_s) + lag_s
    return still_s - doubt.unknown_for_ms / 1000


def _may_resend(doubt: Doubt, tool: AskedTool) -> bool:
    if doubt.effect_class is not EffectClass.KEYED_MUTATE or tool.key_window_s is None:
        return False
    # Below 0 the server's clock was set back: nobody can say how old the key is.
    return doubt.age_ms >= 0 and doubt.age_ms / 1000 + tool.timeout_s < tool.key_window_s


def _unknown(doubt: Doubt, reason: str, settings: ResolveSettings) -> Conclusion:
    again_s = min(settings.at_most_s, settings.first_s * 2.0 ** min(doubt.asks, 30))
    return Conclusion(Said.UNKNOWN, evidence=_short(reason), ask_again_s=again_s)


def _result(value: object) -> bytes | None:
    """The result as it is stored; None where JSON cannot hold it: another one in its place would be forged."""
    try:
        return _json(value).encode()
    except Exception:  # noqa: BLE001 - an object of the adapter's own may raise anything
        return None


def _evidence(value: object) -> str:
    """What was seen, for people; of what JSON cannot hold the type alone is told."""
    try:
        told = _json(value, default=_type_of)
        told.encode()
    except Exception:  # noqa: BLE001 - an object of the adapter's own may raise anything
        return _json(_type_of(value))
    return told


def _json(value: object, *, default: Callable[[object], str] | None = None) -> str:
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"), default=default)


def _type_of(value: object) -> str:
    return f"<{type(value).__name__}>"


def _short(reason: str) -> str:
    return reason.encode("utf-8", "backslashreplace").decode()[:_REASON_CHARS]
