"""Asks a provider about one unknown transition that somebody has just dispatched again, and records what it says."""

from __future__ import annotations

import asyncio
import contextvars
import inspect
import json
import logging
import threading
from collections.abc import Awaitable, Callable
from concurrent.futures import Future
from typing import cast

from ...leases.store import Store
from ...ledger.claim import Shown
from ...ledger.verdict import Doubt, Said, VerdictReply, record_if_unknown
from ...reconcilers.protocol import Adapter, Lookup
from ...reconcilers.resolve import AskedTool, ResolveSettings, conclude
from ...reconcilers.verdict import Verdict, VerdictWord
from ..hosts.results import encode_result
from .prepared import Prepared
from .settings import LedgerSettings

_EVIDENCE_BYTES = 4096

log = logging.getLogger(__name__)


class Asking:
    """Fail closed: an adapter that raises, hangs or answers with anything but a verdict has said nothing."""

    def __init__(self, store: Store, settings: LedgerSettings) -> None:
        self._store = store
        self._timeout_s = settings.reconcile_timeout_s
        self._max_result_bytes = settings.max_result_bytes
        self._rules = ResolveSettings(presumed_dead_s=settings.session.ttl_s + settings.session.grace_s)

    async def settle(self, call: Prepared, shown: Shown) -> tuple[bool, str]:
        """Ask, and record what may be concluded.

        Returns:
            Whether the row has moved; and where it has not, why the provider could not say.

        Raises:
            ServerError: the store could not be asked.
        """
        adapter, binding = call.reconciler, call.intent.binding
        if adapter is None:
            return False, ""
        doubt = _doubt(call, shown)
        verdict, body = self._kept(await self._ask(adapter, _lookup(call, shown)))
        tool = AskedTool(adapter.lag_s, binding.timeout_s, None)
        conclusion = conclude(doubt, verdict, tool, self._rules)
        reply = await record_if_unknown(
            self._store.calls,
            doubt,
            conclusion.said,
            by="reconciler",
            evidence=conclusion.evidence,
            body=body or conclusion.body,
            ask_again_s=conclusion.ask_again_s,
        )
        # Whoever was quicker has settled it: it is looked at again, and its winner is waited for.
        if reply is VerdictReply.REFUSED or (reply is VerdictReply.SETTLED and conclusion.said is not Said.UNKNOWN):
            return True, ""
        later = f"; it may be asked again in {conclusion.ask_again_s:.0f} s" if conclusion.ask_again_s >= 1 else ""
        return False, conclusion.evidence + later

    def _kept(self, verdict: Verdict) -> tuple[Verdict, bytes]:
        """Keep an adapter's result as a tool's own, with its limits; tell evidence that is no JSON by its type."""
        if verdict.word is not VerdictWord.COMPLETED:
            return verdict, b""
        body, _ = encode_result(verdict.result, self._max_result_bytes)
        evidence, fault = encode_result(verdict.evidence, _EVIDENCE_BYTES)
        told = type(verdict.evidence).__name__ if fault else json.loads(evidence)
        return Verdict.completed(None, told), body

    async def _ask(self, adapter: Adapter, lookup: Lookup) -> Verdict:
        try:
            async with asyncio.timeout(self._timeout_s):
                # In a thread of its own, whatever kind it is: nothing of a program's runs on the loop that renews.
                answer = await _apart(lambda: _answer(adapter, lookup))
        except TimeoutError:
            return Verdict.unknown("the adapter did not answer in time")
        except Exception as error:  # noqa: BLE001 - an adapter's fault never reaches the caller of the tool
            log.warning("the adapter of %r failed with %s", lookup.tool, type(error).__name__)
            return Verdict.unknown(f"the adapter failed with {type(error).__name__}")
        if not isinstance(answer, Verdict):
            return Verdict.unknown(f"the adapter answered with a {type(answer).__name__}")
        return answer


async def _apart(work: Callable[[], object]) -> object:
    """Run it in a thread that nobody has to wait for: one that hangs takes no place of another, and stops no end."""
    future: Future[object] = Future()
    context = contextvars.copy_context()

    def run() -> None:
        if not future.set_running_or_notify_cancel():
            return
        try:
            answer = context.run(work)
        except BaseException as error:  # noqa: BLE001 - it is told to whoever waits
            future.set_exception(error)
        else:
            future.set_result(answer)

    threading.Thread(target=run, name="mycelium-asking", daemon=True).start()
    return await asyncio.wrap_future(future)


def _answer(adapter: Adapter, lookup: Lookup) -> object:
    by_await = getattr(adapter, "reconcile_async", None)
    if not callable(by_await):
        by_call = cast("Callable[[Lookup], object]", getattr(adapter, "reconcile"))  # noqa: B009 - of either protocol
        return by_call(lookup)

    async def ask() -> object:
        answer = by_await(lookup)
        return await cast("Awaitable[object]", answer) if inspect.isawaitable(answer) else answer

    return asyncio.run(ask())


def _doubt(call: Prepared, shown: Shown) -> Doubt:
    return Doubt(
        request_id=shown.request_id,
        fence=shown.fence,
        tool=call.intent.tool,
        effect_class=shown.effect_class,
        effect_id=shown.effect_id,
        attempt=shown.attempts,
        ref=shown.ref,
        unknown_for_ms=max(0, shown.now_ms - shown.unknown_ms),
        ended=shown.ended,
        asks=shown.asks,
        age_ms=max(0, shown.now_ms - shown.first_ms) if shown.first_ms else 0,
        key=shown.key,
        args=call.intent.identity.args,
    )


def _lookup(call: Prepared, shown: Shown) -> Lookup:
    return Lookup(
        request_id=shown.request_id,
        effect_id=shown.effect_id,
        tool=call.intent.tool,
        idempotency_key=call.intent.binding.key_to_ask_by(shown.key, shown.effect_id),
        external_operation_ref=shown.ref or None,
        arguments=call.arguments(),
        unknown_since_s=max(0, shown.now_ms - shown.unknown_ms) / 1000,
        attempt=shown.attempts,
    )
