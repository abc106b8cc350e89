"""The record of one transition as people and waiters read it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypedDict

import msgspec

from ..leases.errors import ScriptError
from ..leases.store import Store
from .about import About
from .cause import Cause, read_cause
from .line import Line, Priority
from .progress import Progress, read_told
from .refusals import not_on_record
from .replies import integer, items, mapping, raw, text
from .states import Boundary, EffectClass, State
from .waiting import GateKind, kind_and_key

_PRIORITIES = tuple(Priority)


@dataclass(frozen=True, slots=True)
class Entry:
    """One line of a transition's own history; `number` has no gaps.

    Attributes:
        number: from 1.
        at_ms: server milliseconds.
        what: the state it came to, or `note` for a fact that changed no state.
        fence: digits: the attempt that it belongs to.
        why: what moved it.
    """

    number: int
    at_ms: int
    what: str
    fence: str
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """One transition, read whole.

    Attributes:
        request_id: its storage identity.
        effect_id: its dedupe identity.
        tool: the tool's name.
        effect_class: as it was submitted.
        state: where it stands.
        boundary: how far its current attempt may have come.
        fence: digits: its current attempt.
        session: who holds it; empty when nobody does.
        attempts: grants that were charged.
        fails: failures of a repeatable tool.
        deaths: hosts or sessions that ended under it.
        timeouts: attempts that were past their time.
        error: class name of the last error, or a reason word.
        ref: the provider's handle of the operation.
        evidence: what the verdict rested on.
        said: why the provider could not say, when it was asked last.
        asked: whether there is a way to learn what became of it if it is unknown.
        about: where the call came from.
        aliases: other request ids that joined it.
        key: the provider's idempotency key, where the caller chose one.
        ended: whether its last attempt is known to be able to send nothing more.
        decision: the recorded decision as JSON; empty: none was asked for.
        resolution: what a person verified: `completed` or `not_executed`; empty: nobody did.
        resolved_by: who.
        resolution_reason: why.
        resolved_ms: when; server milliseconds.
        released_from: the state that it was released from.
        queued: whether a worker may have it; False: it was called in process, and waits for its caller.
        queue: the queue that it waits in; empty where nobody queued it.
        priority: how soon it is taken within the queue; None where nobody queued it.
        tenant: for whom it is.
        gate: what it waits for beside a worker; None: nothing, or it does not wait.
        gate_key: the key that it waits for room under; of a strike, the tool and the digest of the argument.
        start_by_ms: if it has not started by then, it is cancelled; 0: it may start at any time.
        deadline_ms: it is not to run once this has passed; 0: none.
        progress: how far an attempt said it had come; None: none did.
        cause: what ended it, where it is dead or cancelled.
        cancel_by: who asked for its cancel; empty: nobody, or they did not say who.
        cancel_reason: why.
        cancel_ms: when; 0: nobody asked.
        requeued_by: who let it run again after its end; empty: nobody did.
        requeue_reason: why.
        requeued_ms: when.
        dead_by: who declared its holder dead; empty: nobody did.
        dead_reason: why.
        created_ms: server milliseconds.
        history: its own short history, oldest first.
    """

    request_id: str
    effect_id: str
    tool: str
    effect_class: EffectClass
    state: State
    boundary: Boundary
    fence: str
    session: str
    attempts: int
    fails: int
    deaths: int
    timeouts: int
    error: str
    ref: str
    # What a provider was sent and said may be a secret of the caller's, and a repr ends up in logs.
    evidence: str = field(repr=False)
    said: str = field(repr=False)
    asked: bool
    about: About
    aliases: tuple[str, ...]
    key: str = field(repr=False)
    ended: bool
    decision: str
    resolution: str
    resolved_by: str
    resolution_reason: str
    resolved_ms: int
    released_from: str
    queued: bool
    queue: str
    priority: Priority | None
    tenant: str
    gate: GateKind | None
    # It is made of arguments.
    gate_key: str = field(repr=False)
    start_by_ms: int
    deadline_ms: int
    progress: Progress | None
    cause: Cause | None
    cancel_by: str
    cancel_reason: str
    cancel_ms: int
    requeued_by: str
    requeue_reason: str
    requeued_ms: int
    dead_by: str
    dead_reason: str
    created_ms: int
    history: tuple[Entry, ...] = field(default=())

    @property
    def changed_ms(self) -> int:
        """Server milliseconds of its last entry."""
        return self.history[-1].at_ms if self.history else self.created_ms


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a transition has no result, in the words of the tool or provider.

    Attributes:
        error: class name, or a reason word.
        detail: the message; it may hold what the tool put in it.
    """

    error: str
    # It may be a secret of the caller's, and a repr ends up in logs.
    detail: str = field(repr=False)

    def body(self) -> bytes:
        """As it is stored in place of a result."""
        return json.dumps({"error": self.error, "detail": self.detail}, ensure_ascii=False).encode()

    @classmethod
    def read(cls, body: bytes, error: str) -> Failure:
        """Read what was stored; a body that is gone leaves the class name."""
        try:
            return msgspec.json.decode(body, type=cls)
        except msgspec.DecodeError:
            return cls(error, "")


async def read_record(store: Store, request_id: str) -> Record:
    """Read one transition, under its own request id or one that joined it.

    Raises:
        JobNotFoundError: nothing is on record under this id.
        ScriptError: the row was not written by this product.
        ServerError: the server could not be asked.
    """
    fields = mapping(await store.calls.read("HGETALL", store.keys.row(request_id)))
    if "alias" in fields and "state" not in fields:
        request_id = fields["alias"]
        fields = mapping(await store.calls.read("HGETALL", store.keys.row(request_id)))
    if not fields:
        next_step = "Check id and namespace. That nothing is on record does not prove that the effect never happened."
        raise not_on_record(store.keys.namespace, request_id, next_step)
    try:
        return _record(request_id, fields, await _aliases(store, request_id) if "share" in fields else [])
    except (KeyError, ValueError, IndexError) as broken:
        what = f"The record of {request_id!r} is corrupt: it was not written by this product."
        raise ScriptError(what, next_step="It never runs as it is. Look at the key by hand.") from broken


async def _aliases(store: Store, request_id: str) -> list[str]:
    return [text(alias) for alias in items(await store.calls.read("SMEMBERS", store.keys.aliases(request_id)))]


async def read_now_ms(store: Store) -> int:
    """Read the server's clock, in milliseconds.

    Raises:
        ServerError: the server could not be asked.
    """
    if store.calls.now_ms:
        return store.calls.now_ms
    seconds, micros = items(await store.calls.read("TIME"))
    return integer(seconds) * 1000 + integer(micros) // 1000


async def still_held(store: Store, request_id: str, *, fence: str, session_id: str) -> bool:
    """Tell whether the store still shows an attempt as it was when its holder was allowed to start it.

    After a change of epoch it is the only proof that the mark of an attempt was not forgotten.

    Raises:
        ServerError: the server could not be asked.
    """
    fields = await store.calls.read("HMGET", store.keys.row(request_id), "state", "fence", "session")
    return [text(value or b"") for value in items(fields)] == [State.ATTEMPTING, fence, session_id]


async def read_body(store: Store, request_id: str) -> bytes | None:
    """Read the result body; None: there is none, or its retention is over."""
    value = await store.calls.read("GET", store.keys.result(request_id))
    return None if value is None else raw(value)


def _record(request_id: str, fields: Mapping[str, str], aliases: list[str]) -> Record:
    history = _history(fields)
    return Record(
        request_id=request_id,
        effect_id=fields["effect"],
        tool=fields["tool"],
        effect_class=EffectClass(fields["class"]),
        state=State(fields["state"]),
        boundary=Boundary(fields["boundary"]),
        fence=fields["fence"],
        session=fields.get("session", ""),
        attempts=int(fields["attempts"]),
        fails=int(fields["fails"]),
        deaths=int(fields["deaths"]),
        timeouts=int(fields.get("timeouts", "0")),
        error=fields.get("error", ""),
        ref=fields.get("ref", ""),
        evidence=fields.get("evidence", ""),
        said=fields.get("said", ""),
        asked=fields.get("asked") == "1",
        about=About.read(fields.get("about", "")),
        aliases=tuple(sorted(aliases)),
        key=fields.get("key", ""),
        ended=fields.get("ended") == "1",
        decision=fields.get("decision", ""),
        resolution=fields.get("resolution", ""),
        resolved_by=fields.get("resolved_by", ""),
        resolution_reason=fields.get("resolution_reason", ""),
        resolved_ms=integer(fields.get("resolved_ms", "")),
        released_from=fields.get("released_from", ""),
        start_by_ms=integer(fields.get("start_by", "")),
        deadline_ms=integer(fields.get("deadline", "")),
        progress=read_told(fields.get("progress", "")),
        cause=_cause(fields, history),
        cancel_by=fields.get("cancel", ""),
        cancel_reason=fields.get("cancel_reason", ""),
        cancel_ms=integer(fields.get("cancel_ms", "")),
        requeued_by=fields.get("requeued_by", ""),
        requeue_reason=fields.get("requeue_reason", ""),
        requeued_ms=integer(fields.get("requeued_ms", "")),
        dead_by=fields.get("dead_by", ""),
        dead_reason=fields.get("dead_reason", ""),
        created_ms=integer(fields.get("created_ms", "")),
        history=tuple(history),
        **_place(fields),
    )


class _Place(TypedDict):
    """Where it waits."""

    queued: bool
    queue: str
    priority: Priority | None
    tenant: str
    gate: GateKind | None
    gate_key: str


def _place(fields: Mapping[str, str]) -> _Place:
    queued, line = fields.get("queued") != "0", fields.get("line", "")
    gate, key = kind_and_key(fields["gate"]) if fields.get("gate") else (None, "")
    if not (queued or line):
        return _Place(queued=False, queue="", priority=None, tenant="", gate=gate, gate_key=key)
    queue, level, _, tenant = (line or Line(tool=fields["tool"]).name).split(":", 3)
    priority = _PRIORITIES[int(level)]
    return _Place(queued=queued, queue=queue, priority=priority, tenant=tenant, gate=gate, gate_key=key)


def _cause(fields: Mapping[str, str], history: list[Entry]) -> Cause | None:
    if fields["state"] == State.DEAD:
        return read_cause(fields.get("cause", ""))
    if fields["state"] != State.CANCELLED:
        return None
    return next((read_cause(entry.why) for entry in reversed(history) if entry.what == State.CANCELLED), None)


def _history(fields: Mapping[str, str]) -> list[Entry]:
    numbers = sorted(int(name[1:]) for name in fields if name[0] == "h" and name[1:].isdigit())
    entries: list[Entry] = []
    for number in numbers:
        at_ms, what, fence, why = fields[f"h{number}"].split(" ", 3)
        entries.append(Entry(number, int(at_ms), what, fence, why))
    return entries
