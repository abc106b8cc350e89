"""One ledger at several moments: what a worker left behind at noon meets its redispatch later, without any waiting."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Coroutine, Generator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from kit.ledger import Passed
from mycelium import (
    ActionLedger,
    Binding,
    EffectClass,
    LedgerEntry,
    LedgerSettings,
    Lookup,
    Record,
    SessionSettings,
    Store,
    StoreSettings,
    Verdict,
    ledger_sync,
    open_store,
)
from mycelium.actors.inprocess.attempt import InlineAttempt
from mycelium.leases.keys import Keyspace

NOON_MS = 1_800_000_000_000
TTL_S = 15.0
GRACE_S = 15.0
IN_GRACE_S = TTL_S + GRACE_S / 2
"""A session of noon has lapsed, and nothing proves yet that it is dead."""
LATER_S = TTL_S + GRACE_S + 1.0
"""A session of noon is dead."""
NEXT_DAY_S = 86_400.0

ALLOWED = {"allowed": True, "verdicts": [], "denied_reasons": []}
DENIED = {
    "allowed": False,
    "verdicts": [{"predicate": "limit", "allowed": False, "reason": "too much"}],
    "denied_reasons": ["too much"],
}

HASTY = StoreSettings(connect_timeout_s=0.2, call_timeout_s=0.2, renew_timeout_s=0.2, patience_s=0.2)
"""For a server that is away."""

Function = Callable[..., Any]
_R = TypeVar("_R")


class BrokenError(Exception):
    """What the bodies of these tests fail with."""


class Stage:
    """One namespace on a real server, seen from processes that live at different moments."""

    def __init__(self, url: str, namespace: str) -> None:
        self.url = url
        self.namespace = namespace
        self._open = ExitStack()
        self._at: dict[float, ActionLedger] = {}
        self._in_hand: list[LedgerEntry] = []
        self._begun: list[InlineAttempt] = []

    @property
    def noon(self) -> ActionLedger:
        """The process that comes first."""
        return self.at(0.0)

    @property
    def later(self) -> ActionLedger:
        """A process that comes when the sessions of noon are dead."""
        return self.at(LATER_S)

    def at(self, later_s: float) -> ActionLedger:
        """A process that lives so many seconds after noon."""
        if later_s not in self._at:
            self._at[later_s] = self.another(later_s)
        return self._at[later_s]

    def another(self, later_s: float = 0.0, *, url: str | None = None, **more: Passed) -> ActionLedger:
        """One more process of that moment, with settings of its own."""
        given: Passed = {"poll_timeout_s": 0.2, "poll_s": 0.05, **more.pop("settings", {})}
        settings = LedgerSettings(
            session=SessionSettings(ttl_s=TTL_S, grace_s=GRACE_S),
            store=more.pop("store", None) or StoreSettings(now_ms=NOON_MS + round(later_s * 1000)),
            **given,
        )
        made = ActionLedger(url or self.url, namespace=self.namespace, settings=settings, **more)
        return self._open.enter_context(made)

    def row(self, request_id: str) -> Record:
        """What is on record."""
        return self.noon.record(request_id)

    def key(self, request_id: str) -> str:
        """The key of a row, for who looks past every verb."""
        return Keyspace(self.namespace).row(request_id)

    def ask(self, work: Callable[[Store], Coroutine[Any, Any, _R]], later_s: float = 0.0) -> _R:
        """Do something of an operator's at that moment."""

        async def run() -> _R:
            settings = StoreSettings(now_ms=NOON_MS + round(later_s * 1000))
            store = await open_store(self.url, namespace=self.namespace, settings=settings)
            try:
                return await work(store)
            finally:
                await store.aclose()

        return asyncio.run(run())

    def claimed(self, kept: ActionLedger, request_id: str, binding: Binding, **values: object) -> LedgerEntry:
        """A claim of `charge` that somebody holds by hand, and never drops: a dropped one is given back."""
        entry = kept.claim("charge", (), values, binding, request_id=request_id)
        self._in_hand.append(entry)
        return entry

    def begun(self, kept: ActionLedger, request_id: str, binding: Binding, **values: object) -> InlineAttempt:
        """A decorated call that got as far as its body."""
        call = kept.prepare("charge", (), values, binding, request_id=request_id)
        attempt = kept.engine.begin(replace(call, intent=replace(call.intent, binding=binding), by_hand=False))
        assert isinstance(attempt, InlineAttempt)
        self._begun.append(attempt)
        return attempt

    def attempting(self, kept: ActionLedger, request_id: str, binding: Binding, **values: object) -> LedgerEntry:
        """A claim whose decision is recorded: where the runtime marks, its effect may exist."""
        entry = self.claimed(kept, request_id, binding, **values)
        kept.record_decision(entry, ALLOWED)
        return entry

    def close(self) -> None:
        """End every process."""
        self._open.close()


@dataclass
class Body:
    """A body that counts its runs, and does what it is told.

    Attributes:
        result: what it returns.
        breaks: what it raises, once each; then it returns.
        seen: what it was called with.
    """

    result: object = "done"
    breaks: list[BaseException] = field(default_factory=list)
    seen: list[dict[str, Any]] = field(default_factory=list)

    def __call__(self, **values: object) -> object:
        self.seen.append(dict(values))
        if self.breaks:
            raise self.breaks.pop(0)
        return self.result

    @property
    def runs(self) -> int:
        """How often it ran."""
        return len(self.seen)


def charge(kept: ActionLedger, body: Function, **declared: Passed) -> Function:
    """A tool `charge(amount)` over a body."""

    def charge(amount: int = 1) -> object:
        return body(amount=amount)

    return ledger_sync(ledger=kept, **declared)(charge)


def keyed(kept: ActionLedger, body: Function, **declared: Passed) -> Function:
    """A tool `charge(amount, key)` whose provider de-duplicates by `key`."""

    def charge(amount: int = 1, key: str | None = None) -> object:
        return body(amount=amount, key=key)

    return ledger_sync(ledger=kept, effect_class="keyed_mutate", key_param="key", **declared)(charge)


def doubtful(stage: Stage, **declared: Passed) -> tuple[Body, Function]:
    """A call of a payment under `r1` that failed where it may have had its effect, and what calls it again."""
    body = Body(breaks=[BrokenError()])
    tool = charge(stage.noon, body, effect_class="payment", **declared)
    with suppress(BrokenError):
        tool(1, request_id="r1")
    return body, tool


def bound(effect_class: str, **declared: Passed) -> Binding:
    """The declared facts of a tool, by the words of its class."""
    return Binding(effect_class=EffectClass(effect_class), **declared)


class Hung:
    """A call in a thread of its own, whose body stands still at a place of the test's choice."""

    def __init__(self) -> None:
        self.answer: object = None
        self._there = threading.Event()
        self._go = threading.Event()

    def stand(self) -> None:
        """For the body: stand here until the test lets go."""
        self._there.set()
        assert self._go.wait(20)

    def go_on(self) -> None:
        """Let the body go on."""
        self._go.set()

    @contextmanager
    def during(self, call: Callable[[], object]) -> Generator[None, None, None]:
        """Make the call, go on when its body stands, and see it end at the end of the block."""

        def run() -> None:
            try:
                self.answer = call()
            except BaseException as error:  # noqa: BLE001 - the test looks at it
                self.answer = error
                self._there.set()

        thread = threading.Thread(target=run, daemon=True)
        thread.start()
        try:
            assert self._there.wait(20)
            yield
        finally:
            self._go.set()
            thread.join(20)


@contextmanager
def meanwhile(call: Callable[[], object], answers: list[object]) -> Generator[None, None, None]:
    """Make a call in a thread of its own, which ends before the block does; its answer is put into the list."""
    thread = threading.Thread(target=lambda: answers.append(call()), daemon=True)
    thread.start()
    yield
    thread.join(20)


class Provider:
    """An adapter that says what the test tells it to, and knows what it was asked.

    Attributes:
        says: verdicts in turn, the last one for ever; an exception is raised.
        asked: the questions.
    """

    lag_s = 0.0

    def __init__(self, *says: Verdict | Exception) -> None:
        self.says = list(says)
        self.asked: list[Lookup] = []

    def reconcile(self, lookup: Lookup, /) -> Verdict:
        """Answer."""
        self.asked.append(lookup)
        said = self.says[0] if len(self.says) == 1 else self.says.pop(0)
        if isinstance(said, Exception):
            raise said
        return said


CANNOT_SAY = Verdict.unknown("not indexed yet")
HAPPENED = Verdict.completed({"id": "pi_1"}, evidence="pi_1 succeeded")
ABSENT = Verdict.not_executed(evidence="no such charge")


def until(holds: Callable[[], object]) -> None:
    """Look until something holds, and fail where it never does."""
    last_s = time.monotonic() + 30
    while not holds():
        assert time.monotonic() < last_s, "it never came to hold"
