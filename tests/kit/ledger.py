"""The ledger's scripts on a real server, one call at a time, at a time that the test moves; and all that they wrote."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from redis import Redis

from mycelium.leases.epoch import found
from mycelium.leases.keys import Keyspace
from mycelium.leases.scripts import REGISTRY, Command
from mycelium.leases.session import open_session, renew_session
from mycelium.ledger.binding import Binding
from mycelium.ledger.canon import canonical
from mycelium.ledger.identity import identify
from mycelium.ledger.instant import instant
from mycelium.ledger.limits import Limit, fill_limits
from mycelium.ledger.line import DEFAULT_QUEUE, Line, Priority
from mycelium.ledger.mark import MarkItem, mark_script
from mycelium.ledger.states import Boundary, BoundaryMode, EffectClass, Settle
from mycelium.ledger.submit import Intent, submit_script
from mycelium.ledger.sweep import expire_script, sweep_script
from mycelium.ledger.turn import MOST, EndedItem, KnownItem, QueueItem, turn_script
from mycelium.ledger.verdict import KnownTool, due_script, verdict_script

NOON_MS = 1_800_000_000_000
TTL_MS = 15_000
NC, MC, CR = Boundary.NOT_CROSSED, Boundary.MAYBE_CROSSED, Boundary.CROSSED

Client = Any
"""The library's client: much of it is untyped."""
Reply = Any
"""A reply of the server: text, numbers, and lists of them."""
Passed = Any
"""Keyword arguments that are handed on as they are."""

_DUMP = """
local out = {}
local get = {hash = {'HGETALL'}, set = {'SMEMBERS'}, string = {'GET'}, list = {'LRANGE', 0, -1},
  zset = {'ZRANGE', 0, -1, 'WITHSCORES'}, stream = {'XRANGE', '-', '+'}}
for _, key in ipairs(redis.call('KEYS', ARGV[1])) do
  local kind = redis.call('TYPE', key)
  if type(kind) == 'table' then kind = kind.ok end
  local command = get[kind]
  out[#out + 1] = {key, kind, redis.call('PTTL', key) >= 0 and 1 or 0, redis.call(command[1], key, unpack(command, 2))}
end
return out
"""

_READ, _AUTO, _OWN = BoundaryMode.NONE, BoundaryMode.AUTOMATIC, BoundaryMode.EXPLICIT
KINDS: Mapping[str, Binding] = {
    f"{effect_class}-{mode}": Binding(
        effect_class=effect_class, boundary_mode=mode, key_param="key" if effect_class == "keyed_mutate" else None
    )
    for effect_class in EffectClass
    for mode in ((_READ,) if effect_class is EffectClass.READ else (_AUTO, _OWN))
}
"""Tools of every class and mode, by name."""


@dataclass(frozen=True, slots=True)
class Key:
    """One key as it stands: its type, whether it has a TTL, and its value."""

    kind: str
    mortal: bool
    value: Any


Dump = dict[str, Key]

AGAIN_COUNTED = ("joined", "conflicts", "fences_refused", "corrupt")
"""Counters of calls, not of transitions: a refused or joined call that is sent again counts again."""


@dataclass(frozen=True, slots=True)
class Granted:
    """One grant of a turn."""

    id: str
    fence: str
    attempt: int
    tool: str


class Ledger:
    """One namespace.

    Attributes:
        now_ms: what every script takes for the time.
        epoch: the epoch that every session is opened in.
        last: the last command that was run, and its reply.
        sources: patched sources by script name: what a broken design would run.
    """

    def __init__(self, client: Client, namespace: str, sources: Mapping[str, str] | None = None) -> None:
        self.client = client
        self.keys = Keyspace(namespace)
        self.now_ms = NOON_MS
        self.epoch = 1
        self.last: tuple[Command, Reply] | None = None
        self.sources = dict(sources or {})
        self._ops = itertools.count(1)

    def found(self, run_id: str = "") -> None:
        """Found the data set, as a store on this server would."""
        self.run(found(run_id=run_id or str(self.client.info("server").get("run_id", "run"))))

    def run(self, command: Command) -> Reply:
        """Run a script now."""
        source = self.sources.get(command.script.name, command.script.source)
        reply = _text(self.client.eval(source, 1, self.keys.tag, self.now_ms, *command.args))
        self.last = command, reply
        return reply

    def dump(self) -> Dump:
        """Everything that the namespace holds, by key without the tag."""
        reply = self.client.eval(_DUMP, 0, self.keys.tag + ":*")
        found = {key[len(self.keys.tag) + 1 :]: Key(kind, ttl == 1, value) for key, kind, ttl, value in _text(reply)}
        return {key: _in_order(found[key]) for key in sorted(found)}

    def row(self, request_id: str) -> dict[str, str]:
        """One row; empty when there is none."""
        return dict(_text(self.client.hgetall(self.keys.row(request_id))))

    def row_of_meta(self) -> dict[str, str]:
        """What the data set knows of itself."""
        return dict(_text(self.client.hgetall(self.keys.meta())))

    def standing(self, session: str) -> str:
        """How a holder stands, by what its session says: `held`, `grace` or `dead`."""
        deadline = self.client.zscore(self.keys.sessions(), session)
        known = dict(_text(self.client.hgetall(self.keys.session(session))))
        if deadline is None or "dead" in known:
            return "dead"
        if deadline > self.now_ms:
            return "held"
        return "grace" if deadline + int(known.get("grace_ms", "0")) > self.now_ms else "dead"

    def state(self, request_id: str) -> str:
        return self.row(request_id).get("state", "")

    def edit(self, *words: object) -> Reply:
        """Change something past every script."""
        return self.client.execute_command(*words)

    def drop(self) -> None:
        """Remove all that the namespace holds."""
        keys = self.client.keys(self.keys.tag + ":*")
        if keys:
            self.client.unlink(*keys)

    # ── commands ─────────────────────────────────────────────────────────────────────────────────────────────────────

    def op(self) -> str:
        return f"op{next(self._ops)}"

    def opening(self, session: str = "s1", *, ttl_ms: int = TTL_MS, grace_ms: int = 0) -> Command:
        return open_session(
            session=session, epoch=self.epoch, boot="b", ttl_ms=ttl_ms, grace_ms=grace_ms, name="w", info="{}"
        )

    def open(self, session: str = "s1", **more: Passed) -> None:
        self.run(self.opening(session, **more))

    def renew(self, session: str = "s1") -> str:
        return str(self.run(renew_session(session=session, epoch=self.epoch, ttl_ms=TTL_MS))[0])

    def submitting(
        self,
        tool: str,
        *ids: str,
        value: int = 1,
        delay_s: float = 0.0,
        op: str = "",
        client: str = "c1",
        queue: str = DEFAULT_QUEUE,
        priority: Priority = Priority.NORMAL,
        tenant: str = "",
        limits: Sequence[Limit] = (),
        facets: str = "",
        start_by_s: float | None = None,
        deadline_s: float | None = None,
        binding: Binding | None = None,
    ) -> Command:
        """A submit of one effect an id."""
        binding = KINDS[tool] if binding is None else binding
        args = canonical({"value": value})
        jobs = [
            Intent(
                identity=identify(tool, binding.effect_class, args, request_id=id_, namespace="n"),
                tool=tool,
                binding=binding,
                line=Line(tool=tool, queue=queue, priority=priority, tenant=tenant),
                limits=fill_limits(tuple(limits), {"value": value}),
                facets=facets,
                due=instant("delay", delay_s),
                start_by=instant("start_by", start_by_s),
                deadline=instant("deadline", deadline_s),
            ).item()
            for id_ in ids
        ]
        return submit_script(op=op or self.op(), client=client, job=jobs)

    def submit(self, tool: str, *ids: str, **more: Passed) -> list[str]:
        return [str(word) for word in self.run(self.submitting(tool, *ids, **more))]

    def turning(
        self,
        slots: int = 0,
        *ended: EndedItem,
        session: str = "s1",
        epoch: int | None = None,
        lane: int = 0,
        op: str = "",
        known: Sequence[str] = tuple(KINDS),
        queues: Sequence[str | QueueItem] = (DEFAULT_QUEUE,),
        solo: int = 0,
        alone: Sequence[str] = (),
    ) -> Command:
        return turn_script(
            session=session,
            epoch=self.epoch if epoch is None else epoch,
            lane=lane,
            op=op or self.op(),
            slots=slots,
            solo=solo,
            ended=ended,
            known=[KnownItem(tool, "read", "none", 1, int(tool in alone)) for tool in known],
            queue=[QueueItem(one, MOST, MOST) if isinstance(one, str) else one for one in queues],
        )

    def claim(self, slots: int = 1, **more: Passed) -> list[Granted]:
        return grants(self.run(self.turning(slots, **more)))

    def settle(self, *ended: EndedItem, **more: Passed) -> list[str]:
        return settled(self.run(self.turning(0, *ended, **more)))

    def marking(self, *items: MarkItem, session: str = "s1", epoch: int | None = None) -> Command:
        return mark_script(session=session, epoch=self.epoch if epoch is None else epoch, item=items)

    def mark(self, request_id: str, fence: str, boundary: Boundary = MC, ref: str = "", **more: Passed) -> str:
        reply = self.run(self.marking(MarkItem(request_id, fence, boundary, ref), **more))
        return str(reply[-1])

    def expire(self, session: str = "s1", page: int = 100) -> str:
        return str(self.run(expire_script(session=session, page=page))[0])

    def promote(self, page: int = 100) -> int:
        return int(self.run(sweep_script(page=page))[2])

    def due(self, put_off_ms: int = 1000) -> list[str]:
        """The ids of the unknown transitions that are due."""
        known = [KnownTool(tool) for tool in KINDS]
        return list(self.run(due_script(page=100, put_off_ms=put_off_ms, known=known))[2::13])

    def judging(
        self, request_id: str, fence: str, said: str, *, body: bytes = b"", window_ms: int = 60_000, asks: int = 0
    ) -> Command:
        return verdict_script(
            request_id=request_id,
            fence=fence,
            said=said,
            by="test",
            evidence="seen",
            asks=asks,
            next_ms=500,
            window_ms=window_ms,
            body=body,
        )

    def judge(self, request_id: str, fence: str, said: str, **more: Passed) -> str:
        more.setdefault("asks", int(self.row(request_id).get("asks", "0")))
        return str(self.run(self.judging(request_id, fence, said, **more))[0])

    # ── whole ways into a state ──────────────────────────────────────────────────────────────────────────────────────

    def granted(self, tool: str, request_id: str = "r1", *, session: str = "s1") -> str:
        """Submit and claim; gives the fence."""
        self.submit(tool, request_id)
        return self.claim(session=session, known=[tool])[0].fence

    def marked(self, tool: str, request_id: str = "r1", **more: Passed) -> str:
        fence = self.granted(tool, request_id, **more)
        assert self.mark(request_id, fence, **more) == "marked"
        return fence

    def unknown(self, tool: str = "non_idempotent_mutate-automatic", request_id: str = "r1", body: bytes = b"") -> str:
        fence = self.marked(tool, request_id)
        assert self.settle(ended(request_id, fence, "unknown", boundary=MC, body=body)) == ["settled"]
        return fence


def ended(
    request_id: str,
    fence: str,
    verb: Settle | str,
    *,
    boundary: Boundary = NC,
    delay_ms: int = 0,
    over: int = 1,
    body: bytes = b"1",
    error: str = "",
    ref: str = "",
) -> EndedItem:
    """How one attempt ended."""
    return EndedItem(request_id, fence, verb, error, delay_ms, over, boundary, ref, body)


def settled(reply: Sequence[Any]) -> list[str]:
    """The words of a turn's settlements."""
    return [str(word) for word in reply[6 : 6 + int(reply[4])]]


def grants(reply: Sequence[Any]) -> list[Granted]:
    """The grants of a turn."""
    rest = reply[6 + int(reply[4]) + 2 * int(reply[5]) :]
    return [Granted(rest[at], rest[at + 1], int(rest[at + 2]), rest[at + 3]) for at in range(0, len(rest), 13)]


def steady(dump: Dump, *, notes: bool = True) -> Dump:
    """A dump without what a repeated or refused call may add: counts of calls, and (unless `notes`) noted facts."""
    kept = {}
    for name, key in dump.items():
        value = key.value
        if name == "counters":
            value = {field: count for field, count in value.items() if field not in AGAIN_COUNTED}
        if name.startswith("row:") and not notes and isinstance(value, dict):
            value = {field: v for field, v in value.items() if field != "n" and " note " not in v}
        if value != {}:
            kept[name] = Key(key.kind, key.mortal, value)
    return kept


def connect(url: str) -> Client:
    """A plain client past every channel."""
    return Redis.from_url(url, protocol=2)


def script_names() -> list[str]:
    """Every script of the product."""
    return sorted(name for name in REGISTRY if name.startswith("mycelium."))


def _in_order(key: Key) -> Key:
    value = key.value
    if key.kind == "hash":
        value = dict(zip(value[::2], value[1::2], strict=True))
    if key.kind == "set":
        value = sorted(value)
    if key.kind == "stream":
        # The server's own ids are no part of what is compared.
        value = [dict(zip(fields[::2], fields[1::2], strict=True)) for _, fields in value]
    return Key(key.kind, key.mortal, value)


def _text(value: Reply) -> Reply:
    if isinstance(value, bytes):
        return value.decode("utf-8", "surrogateescape")
    if isinstance(value, list):
        return [_text(item) for item in value]
    if isinstance(value, dict):
        return {_text(name): _text(item) for name, item in value.items()}
    return value
