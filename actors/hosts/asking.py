"""Runs a tool's reconciler for one call in doubt. Whatever goes wrong, the verdict is "unknown" (R4)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from concurrent import futures
from typing import cast

import msgspec

from ...reconcilers.protocol import Lookup
from ...reconcilers.verdict import Verdict, VerdictWord
from ..load import AnyTool
from .frames import Answer, Ask
from .results import encode_result, name_of

# Apart from the tools' threads: a host whose tools hang must still be able to ask.
_THREADS = futures.ThreadPoolExecutor(4, thread_name_prefix="reconciler")
_ABANDONED: set[asyncio.Task[object]] = set()


async def answer(tool: AnyTool | None, ask: Ask, max_bytes: int) -> Answer:
    """Ask the adapter, within the time that the frame gives.

    Args:
        tool: the tool whose adapter is asked; None if this host has no such tool.
        ask: the question.
        max_bytes: limit on the encoded result, and on the encoded evidence.
    """
    adapter = None if tool is None else tool.reconciler
    if tool is None or adapter is None:
        return _unknown(ask, "no reconciler")
    try:
        asked = asyncio.create_task(_call(adapter, _lookup(ask, tool)))
        # Not `wait_for`: it would wait for an adapter that ignores its cancellation.
        if not (await asyncio.wait({asked}, timeout=ask.timeout_s))[0]:
            _abandon(asked)
            return _unknown(ask, "TimeoutError")
        verdict = asked.result()
    except BaseException as error:  # noqa: BLE001 - the adapter is user code: what it raises proves nothing
        return _unknown(ask, name_of(type(error)))
    return _told(ask, verdict, max_bytes)


def _abandon(asked: asyncio.Task[object]) -> None:
    _ABANDONED.add(asked)
    asked.add_done_callback(_ABANDONED.discard)
    asked.cancel()


def _lookup(ask: Ask, tool: AnyTool) -> Lookup:
    arguments = msgspec.json.decode(ask.args, type=dict[str, object])
    return Lookup(
        request_id=ask.request_id,
        effect_id=ask.effect_id,
        tool=ask.tool,
        idempotency_key=tool.binding.key_to_ask_by(ask.idempotency_key or "", ask.effect_id),
        external_operation_ref=ask.external_operation_ref,
        arguments=arguments,
        unknown_since_s=ask.unknown_since_s,
        attempt=ask.attempt,
    )


async def _call(adapter: object, lookup: Lookup) -> object:
    awaits = getattr(adapter, "reconcile_async", None)
    if callable(awaits):
        try:
            return await cast("Callable[[Lookup], Awaitable[object]]", awaits)(lookup)
        except (SystemExit, KeyboardInterrupt) as error:
            return error  # in a task of its own these would go through the loop
    blocks = cast("Callable[[Lookup], object]", getattr(adapter, "reconcile"))  # noqa: B009 - checked at declaration
    return await asyncio.get_running_loop().run_in_executor(_THREADS, _caught, blocks, lookup)


def _caught(blocks: Callable[[Lookup], object], lookup: Lookup) -> object:
    # A future cannot carry StopIteration, and SystemExit would go through the loop.
    try:
        return blocks(lookup)
    except BaseException as error:  # noqa: BLE001 - as above
        return error


def _told(ask: Ask, verdict: object, max_bytes: int) -> Answer:
    if not isinstance(verdict, Verdict):
        return _unknown(ask, name_of(type(verdict)))
    if verdict.word is VerdictWord.UNKNOWN:
        return _unknown(ask, verdict.reason or "no reason given")
    evidence, fault = encode_result(verdict.evidence, max_bytes)
    if fault or verdict.evidence is None:
        return _unknown(ask, fault or "no evidence")
    body = encode_result(verdict.result, max_bytes)[0] if verdict.word is VerdictWord.COMPLETED else b""
    return Answer(ask.slot, verdict.word, body, evidence)


def _unknown(ask: Ask, reason: str) -> Answer:
    text = str(reason)[:200].encode("utf-8", "backslashreplace").decode()
    return Answer(ask.slot, VerdictWord.UNKNOWN, reason=text)
