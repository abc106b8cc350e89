"""Ledgers in process for tests, each as good as a process of its own: what they hold, and what they ask."""

from __future__ import annotations

import asyncio
import threading
import time
from collections import Counter
from collections.abc import Callable, Coroutine, Generator, Iterable
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, Self, TypeVar

from redis import Redis

from mycelium import ActionLedger, Binding, BoundaryMode, EffectClass, LedgerSettings, StoreSettings
from mycelium.actors.inprocess.decorators import ledger, ledger_sync
from mycelium.leases.keys import Keyspace
from mycelium.leases.session import SessionSettings
from mycelium.leases.store import Store, open_store
from mycelium.ledger.record import Record, read_record

_T = TypeVar("_T")
CALM = SessionSettings(ttl_s=60.0, renew_every_s=15.0, call_timeout_s=2.0, margin_s=2.0)
"""A session that lapses only where a test says so, and is never renewed while a test counts."""
GRACE = SessionSettings(ttl_s=60.0, renew_every_s=15.0, call_timeout_s=2.0, margin_s=2.0, grace_s=60.0)
CLASSES = ("read", "idempotent_mutate", "keyed_mutate", "non_idempotent_mutate", "irreversible")
REPEAT = frozenset({"read", "idempotent_mutate"})
_WITHIN_S = 20.0


class Boom(Exception):  # noqa: N818 - what a test tool fails with
    """The tool failed."""


class Runs:
    """How often bodies ran, and what they were given."""

    def __init__(self) -> None:
        self.given: list[Any] = []
        self._lock = threading.Lock()

    def note(self, what: object = None) -> int:
        """Count one run; how many there were."""
        with self._lock:
            self.given.append(what)
            return len(self.given)

    @property
    def count(self) -> int:
        return len(self.given)


@dataclass
class World:
    """One namespace on one server, and the ledgers in it."""

    url: str
    namespace: str
    direct: Any
    opened: ExitStack = field(default_factory=ExitStack)

    @property
    def keys(self) -> Keyspace:
        return Keyspace(self.namespace)

    def ledger(
        self,
        *,
        session: SessionSettings = CALM,
        url: str | None = None,
        patience_s: float = 10.0,
        **changes: Any,  # noqa: ANN401
    ) -> ActionLedger:
        """A ledger as another process would have it."""
        store = StoreSettings(patience_s=patience_s, call_timeout_s=1.0, connect_timeout_s=1.0)
        given: dict[str, Any] = {"poll_timeout_s": 20.0, "poll_s": 0.05, "session": session, "store": store} | changes
        made = ActionLedger(url or self.url, namespace=self.namespace, settings=LedgerSettings(**given))
        return self.opened.enter_context(made)

    # ── what is on record ────────────────────────────────────────────────────────────────────────────────────────────

    def row(self, request_id: str) -> dict[str, str]:
        """The fields of one row as they stand."""
        return {key.decode(): value.decode() for key, value in self.direct.hgetall(self.keys.row(request_id)).items()}

    def state(self, request_id: str) -> str:
        return self.row(request_id).get("state", "")

    def history(self, request_id: str) -> list[tuple[str, str]]:
        """What it came to and why, oldest first."""
        row = self.row(request_id)
        lines = [row[f"h{at}"].split(" ") for at in range(1, int(row["n"]) + 1)]
        return [(line[1], line[3]) for line in lines]

    def held(self) -> set[str]:
        """The rows that sessions hold; what they say of themselves and what the sessions say is one."""
        by_session: set[str] = set()
        for key in self.direct.keys(f"{self.keys.tag}:held:*"):
            by_session |= {name.decode() for name in self.direct.hkeys(key)}
        prefix = self.keys.row("")
        rows = {key.decode().removeprefix(prefix) for key in self.direct.keys(f"{prefix}*")}
        by_row = {name for name in rows if self.state(name) in {"claimed", "attempting"}}
        assert by_row == by_session, (by_row, by_session)
        return by_row

    def idle(self, running: Iterable[str] = ()) -> None:
        """Every row that is held belongs to a body that runs; what is on its way to the store gets there."""
        expected = set(running)
        until(lambda: self._held_or_none() == expected, lambda: f"held: {self._held_or_none()}, running: {expected}")

    def _held_or_none(self) -> set[str] | None:
        try:
            return self.held()
        except AssertionError:
            return None  # two looks are not one: a row moved in between

    # ── what happens to holders ──────────────────────────────────────────────────────────────────────────────────────

    def session_of(self, request_id: str) -> str:
        return self.row(request_id)["session"]

    def lapse(self, session: str, *, ago_s: float = 0.001) -> None:
        """Its deadline passed so long ago: nothing renews it any more."""
        now_s, micro = self.direct.time()
        deadline_ms = now_s * 1000 + micro // 1000 - round(ago_s * 1000)
        self.direct.zadd(self.keys.sessions(), {session: deadline_ms}, xx=True)

    def on_store(self, work: Callable[[Store], Coroutine[Any, Any, _T]]) -> _T:
        """What an operator would do at this moment."""

        async def act() -> _T:
            store = await open_store(self.url, namespace=self.namespace)
            try:
                return await work(store)
            finally:
                await store.aclose()

        return asyncio.run(act())

    def record(self, request_id: str) -> Record:
        return self.on_store(lambda store: read_record(store, request_id))

    def commands(self) -> Counter[str]:
        """What the server has run so far, inside scripts as well."""
        stats = self.direct.info("commandstats")
        ours = {"cmdstat_info", "cmdstat_config|resetstat", "cmdstat_time", "cmdstat_client|setinfo"}
        return Counter(
            {name.removeprefix("cmdstat_"): told["calls"] for name, told in stats.items() if name not in ours}
        )


@contextmanager
def world(url: str, namespace: str) -> Generator[World, None, None]:
    """A world whose ledgers are closed at the end."""
    with Redis.from_url(url) as direct:
        made = World(url, namespace, direct)
        try:
            yield made
        finally:
            made.opened.close()


def until(holds: Callable[[], bool], what: Callable[[], str] = lambda: "it is not so") -> None:
    """Look until it holds. Each look asks the server, and is the pause."""
    deadline_s = time.monotonic() + _WITHIN_S
    while not holds():
        assert time.monotonic() < deadline_s, what()


def tool(
    kept: ActionLedger,
    body: Callable[..., Any],
    effect_class: str = "non_idempotent_mutate",
    **facts: Any,  # noqa: ANN401 - a declaration
) -> Any:  # noqa: ANN401 - the wrapped function
    """A plain tool `act(order)` on a ledger; `explicit` says that it marks for itself."""
    return ledger_sync(**_facts(kept, effect_class, facts))(body)


def async_tool(
    kept: ActionLedger,
    body: Callable[..., Any],
    effect_class: str = "non_idempotent_mutate",
    **facts: Any,  # noqa: ANN401 - a declaration
) -> Any:  # noqa: ANN401 - the wrapped function
    """As `tool`, for an async body."""
    return ledger(**_facts(kept, effect_class, facts))(body)


def _facts(kept: ActionLedger, effect_class: str, facts: dict[str, Any]) -> Any:  # noqa: ANN401
    if facts.pop("explicit", False) and effect_class != "read":
        facts["boundary"] = "explicit"
    return {"ledger": kept, "name": "act", "effect_class": effect_class} | facts


def together(calls: Iterable[Callable[[], Any]], *, start_at_once: bool = True) -> list[Any]:
    """Run each in a thread of its own; what they returned or raised, in order."""
    works = list(calls)
    answers: list[Any] = [None] * len(works)
    barrier = threading.Barrier(len(works)) if start_at_once else None

    def run(at: int) -> None:
        if barrier is not None:
            barrier.wait()
        try:
            answers[at] = works[at]()
        except BaseException as error:  # noqa: BLE001 - handed to the test
            answers[at] = error

    threads = [threading.Thread(target=run, args=(at,)) for at in range(len(works))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive()
    return answers


class Ticks:
    """Counts the turns of a running loop, to tell whether it stood still."""

    def __init__(self) -> None:
        self.count = 0
        self._task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        self._task = asyncio.create_task(self._tick())
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._task is not None
        self._task.cancel()

    async def more(self, ticks: int = 100) -> None:
        """Wait until the loop has turned so often."""
        aim = self.count + ticks
        while self.count < aim:  # noqa: ASYNC110 - the turns are what is waited for
            await asyncio.sleep(0)

    async def _tick(self) -> None:
        while True:
            self.count += 1
            await asyncio.sleep(0)


# ── holders that die ─────────────────────────────────────────────────────────────────────────────────────────────────


DEAD: list[object] = []
"""What processes held that are taken for dead: nobody drops it."""


def bound(effect_class: str, *, explicit: bool) -> Binding:
    mode = BoundaryMode.EXPLICIT if explicit and effect_class != "read" else None
    return Binding(effect_class=EffectClass(effect_class), boundary_mode=mode)


def lost(world: World, effect_class: str, *, explicit: bool, ago_s: float = 0.001) -> None:
    """A process got so far as its body, and its session lapsed so long ago."""
    kept = world.ledger(session=GRACE)
    binding = bound(effect_class, explicit=explicit)
    call = kept.prepare("act", (), {"order": "A"}, binding, request_id="r1")
    # As a decorated call of such a tool: what is claimed by hand always marks with its decision.
    call = replace(call, intent=replace(call.intent, binding=binding), by_hand=False)
    DEAD.append(kept.engine.begin(call))
    world.lapse(world.session_of("r1"), ago_s=ago_s)


def again(world: World, runs: Runs, effect_class: str, *, explicit: bool, **changes: Any) -> str:  # noqa: ANN401 - handed on
    binding = bound(effect_class, explicit=explicit)
    kept = world.ledger(session=GRACE, **changes)
    entry = kept.claim("act", (), {"order": "A"}, binding, request_id="r1")
    kept.record_decision(entry, {"allowed": True, "verdicts": [], "denied_reasons": []})
    runs.note()
    kept.complete(entry, "done")
    return entry.fence
