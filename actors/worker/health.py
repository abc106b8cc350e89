"""Tells, over HTTP, whether the worker lives, whether it is ready, and its metrics. The rules are in `vitals`."""

from __future__ import annotations

import asyncio
import json
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from http import HTTPStatus
from typing import TypeVar

from ...leases.errors import ActorError, ServerError
from ...leases.store import Store
from ...ledger.waiting import read_waiting
from ..health.vitals import HostVitals, Hunger, TurnsVitals, Unready, Vitals, unready
from ..health.web import Page, Pages, Web
from ..runtime import Actor, StopReason
from .messages import Drain, TellVitals
from .settings import WorkerSettings

log = logging.getLogger(__name__)

LOOK_S = 2.0
"""How often it looks whether jobs wait."""
_BEAT_S = 0.5
_BEATS = 120
_ANSWER_S = 1.0
_JSON = "application/json"
_TOO_LONG = frozenset({Unready.STORE_AWAY, Unready.TAKES_NOTHING})

T = TypeVar("T")


class Health(Actor[Drain]):
    """Asks the other parts how they stand; none of them waits for it.

    Args:
        store: is asked what waits.
        settings: where to listen.
        hosts: the names of the host actors.
    """

    def __init__(self, store: Store, settings: WorkerSettings, hosts: Sequence[str]) -> None:
        self._store = store
        self._settings = settings
        self._hosts = hosts
        self._webs: list[Web] = []
        self._lags: deque[float] = deque([0.0], maxlen=_BEATS)
        self._waiting: int | None = None
        self._hunger = Hunger()
        self._why: Unready | None = None
        self._stopping = False

    async def started(self) -> None:
        """Listen; a worker that cannot listen where it is told to does not start."""
        health, metrics = self._settings.health_port, self._settings.metrics_port
        pages: dict[int, dict[str, Callable[[], Awaitable[Page]]]] = {}
        if health is not None:
            pages.setdefault(health, {}).update({"/health/live": self._live, "/health/ready": self._ready})
        if metrics is not None:
            pages.setdefault(metrics, {})["/metrics"] = self._metrics
        for port, served in pages.items():
            await self._listen(port, served)
        self.spawn_task(self._beat_for_ever())
        self.spawn_task(self._look_for_ever())

    async def receive(self, message: Drain) -> object:
        """The worker ends."""
        del message
        self._stopping = True
        return None

    async def stopping(self, reason: StopReason) -> None:
        """Listen no more."""
        del reason
        for web in self._webs:
            await web.aclose()

    async def _listen(self, port: int, pages: Pages) -> None:
        web = Web(pages)
        self._webs.append(web)
        host = self._settings.http_host
        found = await web.listen(host, port)
        log.info("%s served at http://%s:%d", " ".join(pages), f"[{host}]" if ":" in host else host, found)

    # ── pages ────────────────────────────────────────────────────────────────────────────────────────────────────────

    async def _live(self) -> Page:
        # That it is answered at all is the proof: the loop turns.
        return Page(json.dumps({"live": True, "loop_lag_s": round(max(self._lags), 3)}).encode(), _JSON)

    async def _ready(self) -> Page:
        vitals = await self._vitals()
        why, turns = unready(vitals), vitals.turns
        told: dict[str, object] = {"ready": why is None, "reason": why, "waiting": vitals.waiting}
        if turns is not None:
            told |= {
                "session": turns.session,
                "hosts": turns.hosts,
                "slots": {"free": turns.free_slots, "running": turns.running},
                "claimed": turns.claimed,
                "store_answered_s": round(turns.answered_s, 3),
            }
        status = HTTPStatus.OK if why is None else HTTPStatus.SERVICE_UNAVAILABLE
        return Page(json.dumps(told).encode(), _JSON, status)

    async def _metrics(self) -> Page:
        from ..health.exposition import CONTENT_TYPE, expose  # noqa: PLC0415 - most workers serve no metrics

        return Page(expose(await self._vitals()), CONTENT_TYPE)

    # ── what they tell ───────────────────────────────────────────────────────────────────────────────────────────────

    async def _vitals(self) -> Vitals:
        turns = await self._ask("/worker/control/turns", TurnsVitals)
        asked = [self._ask(f"/worker/control/hosts/{host}", HostVitals) for host in self._hosts]
        hosts = await asyncio.gather(*asked)
        return Vitals(
            turns=turns,
            hosts=tuple(host for host in hosts if host is not None),
            lag_s=max(self._lags),
            waiting=self._waiting,
            starved_s=self._hunger.lasts_s(self.timer.monotonic()),
            patience_s=self._settings.store_patience_s,
            stopping=self._stopping,
        )

    async def _ask(self, path: str, kind: type[T]) -> T | None:
        try:
            return await self.find(path).ask(TellVitals(), timeout_s=_ANSWER_S, reply_type=kind)
        except ActorError:
            return None

    async def _beat_for_ever(self) -> None:
        while True:
            due_s = self.timer.monotonic() + _BEAT_S
            await self.timer.sleep(_BEAT_S)
            self._lags.append(max(0.0, self.timer.monotonic() - due_s))

    async def _look_for_ever(self) -> None:
        while True:
            await self.timer.sleep(LOOK_S)
            await self._look()

    async def _look(self) -> None:
        """Learn since when jobs wait that nobody takes; the answer of a page is never older than a look."""
        turns = await self._ask("/worker/control/turns", TurnsVitals)
        self._waiting = None if turns is None else await self._count_waiting(turns)
        self._hunger.look(self.timer.monotonic(), turns, self._waiting)
        self._say(unready(await self._vitals()))

    async def _count_waiting(self, turns: TurnsVitals) -> int | None:
        if not turns.open_queues:
            return 0
        try:
            async with asyncio.timeout(LOOK_S):
                waiting = await read_waiting(self._store, sorted(turns.open_queues))
        except (ServerError, TimeoutError):
            return None
        return sum(line.jobs for line in waiting if line.tool in turns.tools)

    def _say(self, why: Unready | None) -> None:
        before, self._why = self._why, why
        if why is not before and why in _TOO_LONG:
            log.error("not ready: %s", why)
        elif why is None and before in _TOO_LONG:
            log.info("ready again")
