"""Tells whether whoever holds a job is lost for good: its session lapsed, and nobody took it over. It only reads.

A lapse alone says little: the sweep of any worker moves what the session held, and the waiter hears of that. Only where
a whole TTL passes without it, by this process's clock, is there nobody to wait for.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from ..leases.store import Store
from ..ledger.replies import integer, items, text

_TTL_S = 15.0
"""Of a session that left nothing behind."""


class Owners:
    """The holders of what one client waits for.

    Args:
        store: the server.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._lapsed_at_s: dict[str, float] = {}

    async def lost(self, sessions: Iterable[str]) -> set[str]:
        """Look at sessions, and tell those that lapsed a TTL ago at the least and still hold something.

        Raises:
            ServerError: the server could not be asked.
        """
        asked = sorted(set(sessions))
        self._lapsed_at_s = {session: at_s for session, at_s in self._lapsed_at_s.items() if session in asked}
        if not asked:
            return set()
        now_ms = await self._now_ms()
        ttls_s = await asyncio.gather(*[self._lapsed(session, now_ms) for session in asked])
        at_s = asyncio.get_running_loop().time()
        found: set[str] = set()
        for session, ttl_s in zip(asked, ttls_s, strict=True):
            if ttl_s is None:
                self._lapsed_at_s.pop(session, None)
            elif at_s - self._lapsed_at_s.setdefault(session, at_s) >= ttl_s:
                found.add(session)
        return found

    async def _now_ms(self) -> int:
        seconds, micros = items(await self._store.calls.read("TIME"))
        return self._store.calls.now_ms or integer(seconds) * 1000 + integer(micros) // 1000

    async def _lapsed(self, session: str, now_ms: int) -> float | None:
        """The TTL of a session that has lapsed, in seconds; None: it lives."""
        keys, read = self._store.keys, self._store.calls.read
        deadline, ttl = await asyncio.gather(
            read("ZSCORE", keys.sessions(), session), read("HGET", keys.session(session), "ttl_ms")
        )
        if deadline is not None and float(text(deadline)) > now_ms:
            return None
        return integer(ttl or b"0") / 1000 or _TTL_S
