"""Tells and reads how the actors of each worker stand, for people; what is read is as old as it says."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from enum import StrEnum
from typing import cast

from ..leases.channel import Channel
from ..leases.scripts import scripted
from ..leases.store import Store
from .record import read_now_ms
from .replies import integer, items, text, words
from .sessions import SessionKind, SessionLine, list_sessions

KEEP_S = 120.0
"""How long the last word of a worker is kept."""

LATE = 3
"""A word that is older than so many intervals was to be followed by another: the worker is frozen, cut off or gone."""


class TellReply(StrEnum):
    """What the store says of a tree that is told."""

    TOLD = "told"
    """It is kept."""
    GONE = "gone"
    """The session has ended: nothing was written."""


@dataclass(frozen=True, slots=True)
class ActorLine:
    """How one actor stood.

    Attributes:
        path: as `/worker/control/turns`.
        state: a word of `ActorState`.
        depth: messages that waited in its mailbox.
        capacity: bound of its mailbox.
        restarts: lives after the first.
        last_error: class of the last error that ended a life, or None.
        age_s: seconds since its life began.
        failed_s_ago: seconds since that error, or None.
    """

    path: str
    state: str
    depth: int
    capacity: int
    restarts: int
    last_error: str | None
    age_s: float
    failed_s_ago: float | None


@dataclass(frozen=True, slots=True)
class WorkerTree:
    """What one worker told last.

    Attributes:
        session: the session of the worker.
        lapsed: its session's deadline has passed: whether it runs is not known.
        told_s_ago: seconds since it told, by the server's clock; None: it has told nothing, or too long ago.
        late: it should have told again since: what the lines say was so, and may be over.
        actors: in order of the tree, parents before children.
    """

    session: SessionLine
    lapsed: bool
    told_s_ago: float | None
    late: bool
    actors: tuple[ActorLine, ...]


@scripted("mycelium.ledger", "tell_tree", TellReply)
def tell_script(session: str, every_ms: int, keep_ms: int, body: str) -> None:
    """Stub of `tell_tree.lua`."""


async def tell_tree(
    calls: Channel, session_id: str, actors: Sequence[ActorLine], *, every_s: float, patience_s: float
) -> TellReply:
    """Tell how the actors of a session's worker stand.

    Args:
        calls: the channel of job traffic.
        session_id: whose they are.
        actors: parents before children.
        every_s: when the next word is to be expected.
        patience_s: seconds that the call may repeat itself: an old tree is worth nothing.

    Raises:
        ServerError: the server could not be asked.
    """
    body = json.dumps([asdict(actor) for actor in actors], separators=(",", ":"))
    command = tell_script(session=session_id, every_ms=round(every_s * 1000), keep_ms=round(KEEP_S * 1000), body=body)
    return TellReply(text(words(await calls.run(command, patience_s=patience_s))[0]))


async def read_trees(store: Store) -> list[WorkerTree]:
    """Read what every worker told last, the oldest worker first; programs that call in process have no tree.

    Raises:
        ServerError: the server could not be asked.
    """
    lines = [line for line in await list_sessions(store) if line.kind is SessionKind.WORKER]
    told = await asyncio.gather(*[_read(store, line) for line in lines])
    now_ms = await read_now_ms(store)
    return [_tree(line, *words_, now_ms=now_ms) for line, words_ in zip(lines, told, strict=True)]


async def _read(store: Store, line: SessionLine) -> tuple[int, int, str]:
    reply = await store.calls.read("HMGET", store.keys.tree(line.session_id), "told_ms", "every_ms", "body")
    told_ms, every_ms, body = [text(field or b"") for field in items(reply)]
    return integer(told_ms), integer(every_ms), body


def _tree(line: SessionLine, told_ms: int, every_ms: int, body: str, *, now_ms: int) -> WorkerTree:
    lapsed = line.deadline_ms <= now_ms
    if not told_ms:
        return WorkerTree(line, lapsed, told_s_ago=None, late=True, actors=())
    # Below 0 the server's clock was set back: how old it is cannot be said, so it is not called live.
    age_ms = now_ms - told_ms
    late = lapsed or not 0 <= age_ms <= LATE * every_ms
    return WorkerTree(line, lapsed, told_s_ago=max(0, age_ms) / 1000, late=late, actors=_lines(body))


def _lines(body: str) -> tuple[ActorLine, ...]:
    """What another version of a worker wrote may have more or fewer fields: only what is understood is shown."""
    try:
        told = cast("list[dict[str, object]]", json.loads(body))
        names = [field.name for field in fields(ActorLine)]
        return tuple(ActorLine(**{name: one[name] for name in names}) for one in told)  # type: ignore[arg-type]
    except (ValueError, KeyError, TypeError):
        return ()
