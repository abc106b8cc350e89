"""Lists sessions for people: whose they are, since when, until when, and how much they hold."""

from __future__ import annotations

import asyncio
import json
import re
from dataclasses import dataclass
from enum import StrEnum
from typing import cast

from ..leases.store import Store
from .replies import integer, items, text

_FIELDS = ("name", "epoch", "opened_ms", "ttl_ms", "info", "dead")


class SessionKind(StrEnum):
    """Whose session it is."""

    WORKER = "worker"
    """A worker's, which claims jobs."""
    IN_PROCESS = "in process"
    """That of a program which calls tools itself: it claims no jobs."""


@dataclass(frozen=True, slots=True)
class SessionLine:
    """One session as it stands; instants are server milliseconds.

    Attributes:
        session_id: minted by its holder.
        name: what people call the holder.
        epoch: the epoch in which it was opened.
        opened_ms: when it was opened.
        renewed_ms: when it was renewed last.
        deadline_ms: when it lapses.
        held: how many transitions it holds.
        info: what the holder says of itself: pid, host, hosts, slots, queues, tools, quiet.
        kind: whose session it is.
        dead: it was declared so.
    """

    session_id: str
    name: str
    epoch: int
    opened_ms: int
    renewed_ms: int
    deadline_ms: int
    held: int
    info: dict[str, object]
    kind: SessionKind
    dead: bool = False

    @property
    def tools(self) -> frozenset[str]:
        """The tools that it knows, as far as it has told."""
        return frozenset(_words(self.info.get("tools")))

    @property
    def queues(self) -> frozenset[str]:
        """The queues that it takes from, without their shares."""
        return frozenset(re.split("[:@]", share)[0] for share in _words(self.info.get("queues")))

    @property
    def quiet(self) -> bool:
        """Whether it was told to take nothing."""
        return self.info.get("quiet") is True


async def list_sessions(store: Store) -> list[SessionLine]:
    """List sessions, the oldest first.

    Raises:
        ServerError: the server could not be asked.
    """
    reply = items(await store.calls.read("ZRANGE", store.keys.sessions(), 0, -1, "WITHSCORES"))
    pairs = [(text(reply[at]), int(float(text(reply[at + 1])))) for at in range(0, len(reply) - 1, 2)]
    lines = await asyncio.gather(*[_session(store, session_id, deadline) for session_id, deadline in pairs])
    return sorted([line for line in lines if line is not None], key=lambda line: line.opened_ms)


async def _session(store: Store, session_id: str, deadline_ms: int) -> SessionLine | None:
    fields, held = await asyncio.gather(
        store.calls.read("HMGET", store.keys.session(session_id), *_FIELDS),
        store.calls.read("HLEN", store.keys.held(session_id)),
    )
    name, epoch, opened, ttl, info, dead = [text(field or b"") for field in items(fields)]
    if not opened:
        return None
    told = _info(info)
    return SessionLine(
        session_id=session_id,
        name=name,
        epoch=integer(epoch),
        opened_ms=integer(opened),
        renewed_ms=deadline_ms - integer(ttl),
        deadline_ms=deadline_ms,
        held=integer(held),
        info=told,
        # Only a worker has hosts to tell of.
        kind=SessionKind.WORKER if "hosts" in told else SessionKind.IN_PROCESS,
        dead=bool(dead),
    )


def _words(told: object) -> list[str]:
    return [str(word) for word in cast("list[object]", told)] if isinstance(told, list) else []


def _info(body: str) -> dict[str, object]:
    try:
        told: object = json.loads(body)
    except ValueError:
        return {}
    return cast("dict[str, object]", told) if isinstance(told, dict) else {}
