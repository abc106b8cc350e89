"""What can happen to a ledger with a queue, drawn at random, step by step; `test_machine.py` adds the rest."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import hypothesis.strategies as st
from hypothesis.stateful import RuleBasedStateMachine

from kit.ledger import KINDS, NC, TTL_MS, Client, Dump, Ledger, settled, steady
from kit.ledger_world import STEP_MS, WINDOW_MS, Attempt, World
from mycelium.ledger.facets import facets_of
from mycelium.ledger.limits import Concurrency, Rate
from mycelium.ledger.line import Priority
from mycelium.ledger.states import HELD, TERMINAL, Settle
from mycelium.ledger.sweep import expire_script, sweep_script
from mycelium.ledger.verdict import KnownTool, due_script

Draw = Callable[[Any], Any]
TOOLS = st.sampled_from(sorted(KINDS))
LANES = st.sampled_from([("s1", 0), ("s1", 1), ("s2", 0)])
IDS = [f"r{number}" for number in range(8)]
SLOTS, MORE_SLOTS = st.integers(1, 4), st.sampled_from([0, 0, 2])
SAID = ("completed", "not_executed", "unknown", "resend", "resend")
WINDOWS = st.sampled_from([0, 5_000, WINDOW_MS - 2 * STEP_MS])
"""What a tool declares of its provider's memory for keys, the worst delay taken off."""
QUEUES = st.sampled_from(["default", "default", "mail"])
ONE, TWO = Concurrency("one", 1), Concurrency("two", 2)
DEAR, CHEAP = Rate("bucket", 2, per_s=60, cost=2), Rate("bucket", 2, per_s=60)
LIMITS = st.sampled_from([(), (), (), (ONE,), (TWO,), (ONE, TWO), (TWO, ONE), (DEAR,), (CHEAP,), (ONE, CHEAP)])
TIMES_S = st.sampled_from([None, None, None, None, 3, 30])
GRACES = {"s1": 0, "s2": 0, "p1": TTL_MS}
"""Who holds: two workers, and a process that calls for itself."""
_namespaces = itertools.count(1)


class Schedule(RuleBasedStateMachine):
    """Eight effects of all kinds, three holders that start again when a session ends, a sweeper and a provider."""

    client: Client
    namespace: str

    def __init__(self) -> None:
        super().__init__()
        self.ledger = Ledger(self.client, f"{self.namespace}.{next(_namespaces)}")
        self.ledger.found()
        self.world = World(self.ledger, checks_window=True)
        self.tools: dict[str, str] = {}
        self.lives = dict.fromkeys(GRACES, 0)
        self.shown: dict[str, list[str]] = {}
        self.offset_ms = 0
        self.after: tuple[int, Dump] = (0, {})
        for name in self.lives:
            self.start(name)

    # ── how things are done ──────────────────────────────────────────────────────────────────────────────────────────

    def session(self, name: str) -> str:
        return f"{name}.{self.lives[name]}"

    def start(self, name: str) -> None:
        self.lives[name] += 1
        self.ledger.run(self.ledger.opening(self.session(name), grace_ms=GRACES[name]))

    def attempt(self, draw: Draw, *, over: bool | None = None) -> Attempt | None:
        found = [a for a in self.world.attempts if over is None or a.over == over]
        return draw(st.sampled_from(found)) if found else None

    def some_row(self, draw: Draw, *states: str) -> str | None:
        rows = [request_id for request_id in sorted(self.tools) if self.ledger.state(request_id) in states]
        return draw(st.sampled_from(rows)) if rows else None

    # ── callers ──────────────────────────────────────────────────────────────────────────────────────────────────────

    def submit(self, draw: Draw) -> None:
        request_id, tool, value = draw(st.sampled_from(IDS)), draw(TOOLS), draw(st.sampled_from([1, 1, 1, 2]))
        command = self.ledger.submitting(
            tool,
            request_id,
            value=value,
            delay_s=draw(st.sampled_from([0.0, 0.0, 2.0])),
            queue=draw(QUEUES),
            priority=draw(st.sampled_from(Priority)),
            tenant=draw(st.sampled_from(["", "", "acme", "b:c"])),
            limits=draw(LIMITS),
            facets=facets_of({"value": value}),
            start_by_s=draw(TIMES_S),
            deadline_s=draw(TIMES_S),
        )
        before = self.ledger.dump()
        word = self.ledger.run(command)[1]
        if request_id not in self.tools:
            assert word == "created"
            self.tools[request_id] = f"{tool}/{value}"
        else:
            # E8: whatever its state, the row answers, and nothing is queued again but what nobody had queued yet.
            assert word == ("joined" if self.tools[request_id] == f"{tool}/{value}" else "conflict")
            if word == "conflict" or before[f"row:{request_id}"].value.get("queued") != "0":
                assert steady(self.ledger.dump()) == steady(before)

    # ── workers ──────────────────────────────────────────────────────────────────────────────────────────────────────

    def claim(self, draw: Draw) -> None:
        name, lane = draw(LANES)
        session = self.session(name)
        known = draw(st.sampled_from([sorted(KINDS), sorted(KINDS), sorted(KINDS)[::2]]))
        queues = draw(st.sampled_from([("default", "mail"), ("mail", "default"), ("mail",), ("default",)]))
        command = self.ledger.turning(
            draw(SLOTS), session=session, lane=lane, known=known, queues=queues, solo=draw(MORE_SLOTS), alone=known[:2]
        )
        self.world.grants(self.ledger.run(command), session)

    def mark(self, draw: Draw) -> None:
        attempt = self.attempt(draw)
        if attempt is None:
            return
        row, before = self.ledger.row(attempt.id), self.ledger.dump()
        word = self.world.mark(attempt)
        mine = (row["fence"], row["session"]) == (attempt.fence, attempt.session)
        # A cancel, or a deadline, that comes before the point of no return is in time.
        late = "cancel" in row or int(row.get("deadline", "0") or 0) in range(1, self.ledger.now_ms + 1)
        first = "stopped" if late and row["boundary"] == NC else "marked"
        assert word in ({first, "lost"} if mine else {"stale", "lost"})
        if word != "marked":
            assert steady(self.ledger.dump()) == steady(before)

    def send(self, draw: Draw) -> None:
        attempt = self.attempt(draw, over=False)
        if attempt is not None:
            self.world.send(attempt)

    def work(self, draw: Draw) -> None:
        """The usual way: claim, mark, send."""
        session = self.session(draw(LANES)[0])
        for attempt in self.world.claim(draw(SLOTS), session, queues=("default", "mail")):
            self.world.mark(attempt)
            self.world.send(attempt)

    def trouble(self, draw: Draw) -> None:
        """An attempt is cut short: nobody knows what it did, and perhaps it is still at it."""
        attempt = self.attempt(draw, over=False)
        if attempt is None:
            self.work(draw)
            return
        self.world.mark(attempt)
        if draw(st.booleans()):
            self.world.send(attempt)
        verb, over = draw(st.sampled_from(["unknown", "unknown", "died"])), draw(st.booleans())
        self.ledger.run(self.world.settling(attempt, verb, over=over))

    def settle(self, draw: Draw) -> None:
        attempt = self.attempt(draw, over=False)
        if attempt is None:
            self.work(draw)
            return
        verb = draw(st.sampled_from(self.world.honest_verbs(attempt)))
        row = self.ledger.row(attempt.id)
        delay_ms = draw(st.sampled_from([0, 1500]))
        command = self.world.settling(attempt, verb, delay_ms=delay_ms, slots=draw(MORE_SLOTS))
        reply = self.ledger.run(command)
        self.given_back(attempt, row, verb, delay_ms)
        self.world.grants(reply, attempt.session)
        word = settled(reply)[0]
        if (row["fence"], row["session"]) == (attempt.fence, attempt.session):
            undecided = row["state"] == "claimed" and verb == "completed"
            assert word == ("stale" if undecided else "settled")
        elif row["fence"] == attempt.fence and row["state"] == "unknown":
            assert word in {"late", "settled"}
            if verb == "completed":
                assert self.ledger.state(attempt.id) == "completed"
        elif row["fence"] != attempt.fence:
            assert word == "stale"

    def settle_what_is_over(self, draw: Draw) -> None:
        """An old attempt speaks again: at most a note is kept, or a late result of the current one (E9)."""
        attempt = self.attempt(draw, over=True)
        verb = draw(st.sampled_from(Settle))
        if attempt is None or (verb in {"completed", "failed"} and verb not in self.world.honest_verbs(attempt)):
            return
        row, before = self.ledger.row(attempt.id), self.ledger.dump()
        word = settled(self.ledger.run(self.world.settling(attempt, verb)))[0]
        self.given_back(attempt, row, verb, 0)
        if row["fence"] != attempt.fence:
            assert word == "stale"
        if word == "stale" or row["state"] in TERMINAL:
            assert steady(self.ledger.dump(), notes=False) == steady(before, notes=False)

    def given_back(self, attempt: Attempt, row: dict[str, str], verb: str, delay_ms: int) -> None:
        """What was given back unstarted has spent nothing."""
        mine = (row["fence"], row["session"]) == (attempt.fence, attempt.session) and row["state"] in HELD
        if mine and verb == "released" and not delay_ms:
            self.world.permission.give_back(attempt.fence)

    # ── time ─────────────────────────────────────────────────────────────────────────────────────────────────────────

    def pass_time(self, draw: Draw) -> None:
        alive = draw(st.sampled_from([(), ("s1",), ("s2", "p1"), ("s1", "s2"), tuple(GRACES), tuple(GRACES)]))
        for _ in range(draw(st.sampled_from([1, 3, 8, 16]))):
            self.ledger.now_ms += 1000
            for name in alive:
                self.ledger.renew(self.session(name))

    def sweep(self, draw: Draw) -> None:
        for name in self.lives:
            alive = draw(st.booleans()) and self.ledger.renew(self.session(name)) == "renewed"
            word = self.expire(name)
            assert not (alive and word != "alive"), "Q4 a live session was reaped"
            if word in {"gone", "expired"}:
                self.start(name)

    def expire(self, name: str) -> str:
        """Take what a session held; row by row, where their order makes no difference."""
        held = self.ledger.dump().get(f"held:{self.session(name)}")
        tools = [self.ledger.row(request_id)["tool"] for request_id in held.value] if held else []
        page = 1 if len(set(tools)) == len(tools) else 100
        word = "more"
        while word == "more":
            word = str(self.ledger.run(expire_script(session=self.session(name), page=page))[0])
        return word

    def die(self, draw: Draw) -> None:
        """One worker's session ends, and is swept."""
        name = draw(st.sampled_from(sorted(GRACES)))
        self.be_silent(name, TTL_MS + GRACES[name])
        if self.expire(name) != "alive":
            self.start(name)

    def be_silent(self, name: str, for_ms: int) -> None:
        """Time passes, and all but one renew."""
        for _ in range(for_ms // 5000):
            self.ledger.now_ms += 5000
            for other in sorted(GRACES.keys() - {name}):
                self.ledger.renew(self.session(other))

    def promote(self, draw: Draw) -> None:
        self.ledger.run(sweep_script(page=100))

    # ── the provider ─────────────────────────────────────────────────────────────────────────────────────────────────

    def ask_what_is_due(self, draw: Draw) -> None:
        due = self.ledger.run(due_script(page=100, put_off_ms=1, known=[KnownTool(tool) for tool in KINDS]))
        assert all(self.ledger.state(request_id) == "unknown" for request_id in due[2::13])

    def judge(self, draw: Draw) -> None:
        unknown = [request_id for request_id in sorted(self.tools) if self.ledger.state(request_id) == "unknown"]
        asked = unknown if unknown and draw(st.booleans()) else sorted(self.tools)
        if not asked:
            return
        request_id = draw(st.sampled_from(asked))
        row = self.ledger.row(request_id)
        said = self.world.verdict(request_id, draw(st.sampled_from(SAID)))
        asks, window_ms = int(row.get("asks", "0")), draw(WINDOWS)
        command = self.ledger.judging(request_id, row["fence"], said, body=b"7", asks=asks, window_ms=window_ms)
        word = self.ledger.run(command)[0]
        if row["state"] != "unknown":
            # The identical verdict, recorded before, finds itself; nothing moves either way.
            assert word in {"refused", "settled"}
            assert self.ledger.row(request_id) == row
        elif said != "resend":
            assert word == "settled"
        elif word == "settled":
            # E6: inside the window, whatever else there is.
            assert self.ledger.now_ms - int(row["first"]) < window_ms
