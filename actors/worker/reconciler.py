"""Ticks the resolver: asks providers, through adapters in tool hosts, what became of each unknown transition."""

from __future__ import annotations

import asyncio
import logging
import random

from ...leases.errors import ServerError
from ...leases.store import Store
from ...ledger.verdict import Doubt
from ...reconcilers.resolve import AskedTool, ResolveReport, ResolveSettings, run_once
from ...reconcilers.verdict import Verdict
from ..hosts.frames import ToolFacts
from ..runtime import Actor
from .messages import AskAdapter, HostGone, HostReady, TellReady, Wake

log = logging.getLogger(__name__)


class ReconcilerActor(Actor[Wake | HostReady | HostGone]):
    """Thin: what may be concluded from an answer is in `reconcilers.resolve`."""

    def __init__(
        self, store: Store, settings: ResolveSettings, *, every_s: float, timeout_s: float, rng: random.Random
    ) -> None:
        self._store = store
        self._settings = settings
        self._every_s = every_s
        self._timeout_s = timeout_s
        self._rng = rng
        self._hosts: set[str] = set()
        self._tools: dict[str, AskedTool] = {}
        self._wake = asyncio.Event()

    async def started(self) -> None:
        """Ask for ever. Hosts that run already are not going to say so again by themselves."""
        for host in self.below("control/hosts"):
            host.tell(TellReady(self.ref.path))
        self.spawn_task(self._ask_for_ever())

    async def receive(self, message: Wake | HostReady | HostGone) -> object:
        """Learn of hosts and tools, or look at once."""
        match message:
            case HostReady(host, _, tools):
                self._hosts.add(host)
                self._tools = {
                    name: _asked(facts)
                    for name, facts in tools.items()
                    if facts.lag_s is not None or facts.binding.resends
                }
            case HostGone(host):
                self._hosts.discard(host)
            case Wake():
                self._wake.set()
        return None

    async def _ask_for_ever(self) -> None:
        while True:
            self._wake.clear()
            report = await self._run_once()
            if report.asked < self._settings.page:
                await self._pause()

    async def _pause(self) -> None:
        try:
            async with asyncio.timeout(self._every_s * self._rng.uniform(0.75, 1.25)):
                await self._wake.wait()
        except TimeoutError:
            return

    async def _run_once(self) -> ResolveReport:
        if not (self._hosts and self._tools):
            return ResolveReport()
        try:
            report = await run_once(self._store.calls, self._tools, self._ask, self._settings)
        except ServerError as away:
            log.warning("reconciling put off: %s", away)
            return ResolveReport()
        if report.asked:
            log.info(
                "asked about %d: %d completed, %d run again, %d still unknown",
                report.asked,
                report.completed,
                report.run_again,
                report.unknown,
            )
        return report

    async def _ask(self, doubt: Doubt) -> Verdict:
        """Fail closed: no host, no answer in time and a host that dies all mean "unknown"."""
        if not self._hosts:
            return Verdict.unknown("no host runs")
        host = self._rng.choice(sorted(self._hosts))
        question = AskAdapter(doubt, self._timeout_s)
        self.find(f"control/hosts/{host}").tell(question)
        try:
            async with asyncio.timeout(self._timeout_s + 1.0):
                return await question.answer
        except TimeoutError:
            return Verdict.unknown("the adapter did not answer in time")


def _asked(facts: ToolFacts) -> AskedTool:
    binding = facts.binding
    return AskedTool(facts.lag_s, binding.timeout_s, binding.key_window_s if binding.resends else None)
