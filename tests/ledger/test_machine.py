"""Random schedules of workers, sweeps, verdicts and repeated commands against a real server: what must always hold."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import hypothesis.strategies as st
from hypothesis import HealthCheck, settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from kit.ledger import KINDS, TTL_MS, Client, Dump, Ledger, Reply, connect, settled, steady
from kit.ledger_world import Attempt, World
from mycelium.leases.scripts import Command
from mycelium.leases.session import open_session
from mycelium.ledger.states import TERMINAL, Settle
from mycelium.ledger.sweep import expire_script, promote_script
from mycelium.ledger.verdict import KnownTool, due_script

Draw = Callable[[Any], Any]
SETTINGS = settings(
    max_examples=60,
    stateful_step_count=45,
    deadline=None,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much],
)
TOOLS = st.sampled_from(sorted(KINDS))
LANES = st.sampled_from([("s1", 0), ("s1", 1), ("s2", 0)])
IDS = [f"r{number}" for number in range(8)]
SLOTS, MORE_SLOTS = st.integers(1, 4), st.sampled_from([0, 0, 2])
SAID = ("completed", "not_executed", "unknown", "resend", "resend")
ACTIONS = (
    *("submit", "pass_time", "claim", "mark", "send", "settle_what_is_over", "promote", "ask_what_is_due"),
    *("work", "settle", "die", "sweep", "judge", "repeat") * 2,
)
"""What may happen next; the ways on come twice."""
_namespaces = itertools.count(1)


class Machine(RuleBasedStateMachine):
    """Eight jobs of all kinds, two workers (which start again when their session ends), one sweeper, one provider."""

    client: Client
    namespace: str

    def __init__(self) -> None:
        super().__init__()
        self.ledger = Ledger(self.client, f"{self.namespace}.{next(_namespaces)}")
        self.ledger.found()
        self.world = World(self.ledger)
        self.tools: dict[str, str] = {}
        self.lives = {"s1": 0, "s2": 0}
        self.last: Command | None = None
        self.last_now = 0
        self.last_reply: Reply = None
        self.polls = False
        self.after: Dump = {}
        for name in self.lives:
            self.start(name)

    # ── how things are done ──────────────────────────────────────────────────────────────────────────────────────────

    def session(self, name: str) -> str:
        return f"{name}.{self.lives[name]}"

    def start(self, name: str) -> None:
        self.lives[name] += 1
        self.run(
            open_session(session=self.session(name), epoch=1, boot="b", ttl_ms=TTL_MS, grace_ms=0, name="w", info="{}"),
            polls=False,
        )

    def run(self, command: Command, *, polls: bool = False) -> Reply:
        reply = self.ledger.run(command)
        self.last, self.last_reply, self.polls = command, reply, polls
        self.last_now, self.after = self.ledger.now_ms, self.ledger.dump()
        return reply

    def attempt(self, draw: Draw, *, over: bool | None = None) -> Attempt | None:
        found = [a for a in self.world.attempts if over is None or a.over == over]
        return draw(st.sampled_from(found)) if found else None

    # ── callers ──────────────────────────────────────────────────────────────────────────────────────────────────────

    def submit(self, draw: Draw) -> None:
        request_id, tool, value = draw(st.sampled_from(IDS)), draw(TOOLS), draw(st.sampled_from([1, 1, 1, 2]))
        command = self.ledger.submitting(tool, request_id, value=value, delay_s=draw(st.sampled_from([0.0, 0.0, 2.0])))
        before = self.ledger.dump()
        word = self.run(command)[1]
        if request_id not in self.tools:
            assert word == "created"
            self.tools[request_id] = f"{tool}/{value}"
        else:
            # E8: whatever its state, the row answers, and nothing is queued again.
            assert word == ("joined" if self.tools[request_id] == f"{tool}/{value}" else "conflict")
            assert steady(self.ledger.dump()) == steady(before)

    # ── workers ──────────────────────────────────────────────────────────────────────────────────────────────────────

    def claim(self, draw: Draw) -> None:
        name, lane = draw(LANES)
        session = self.session(name)
        self.world.grants(self.run(self.ledger.turning(draw(SLOTS), session=session, lane=lane)), session)

    def mark(self, draw: Draw) -> None:
        attempt = self.attempt(draw)
        if attempt is None:
            return
        row, before = self.ledger.row(attempt.id), self.ledger.dump()
        word = self.world.mark(attempt)
        mine = (row["fence"], row["session"]) == (attempt.fence, attempt.session)
        assert word in ({"marked", "lost"} if mine else {"stale", "lost"})
        if word != "marked":
            assert steady(self.ledger.dump()) == steady(before)

    def send(self, draw: Draw) -> None:
        attempt = self.attempt(draw, over=False)
        if attempt is not None:
            self.world.send(attempt)

    def work(self, draw: Draw) -> None:
        """The usual way: claim, mark, send."""
        session = self.session(draw(LANES)[0])
        for attempt in self.world.claim(draw(SLOTS), session):
            self.world.mark(attempt)
            self.world.send(attempt)

    def settle(self, draw: Draw) -> None:
        attempt = self.attempt(draw, over=False)
        if attempt is None:
            return
        verb = draw(st.sampled_from(self.world.honest_verbs(attempt)))
        row = self.ledger.row(attempt.id)
        command = self.world.settling(attempt, verb, delay_ms=draw(st.sampled_from([0, 1500])), slots=draw(MORE_SLOTS))
        reply = self.run(command)
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
        word = settled(self.run(self.world.settling(attempt, verb)))[0]
        if row["fence"] != attempt.fence:
            assert word == "stale"
        if word == "stale" or row["state"] in TERMINAL:
            assert steady(self.ledger.dump(), notes=False) == steady(before, notes=False)

    # ── time ─────────────────────────────────────────────────────────────────────────────────────────────────────────

    def pass_time(self, draw: Draw) -> None:
        alive = draw(st.sampled_from([(), ("s1",), ("s2",), ("s1", "s2"), ("s1", "s2")]))
        for _ in range(draw(st.sampled_from([1, 3, 8, 16]))):
            self.ledger.now_ms += 1000
            for name in alive:
                self.ledger.renew(self.session(name))

    def sweep(self, draw: Draw) -> None:
        for name in self.lives:
            alive = draw(st.booleans()) and self.ledger.renew(self.session(name)) == "renewed"
            # A page has room for all: which rows a smaller one takes is chance, and a schedule must run alike again.
            word = self.run(expire_script(session=self.session(name), page=100), polls=True)[0]
            assert not (alive and word != "alive"), "Q4 a live session was reaped"
            if word in {"gone", "expired"}:
                self.start(name)

    def die(self, draw: Draw) -> None:
        """One worker's session ends, and is swept."""
        name, other = draw(st.sampled_from([("s1", "s2"), ("s2", "s1")]))
        for _ in range(TTL_MS // 5000):
            self.ledger.now_ms += 5000
            self.ledger.renew(self.session(other))
        if self.run(expire_script(session=self.session(name), page=100), polls=True)[0] != "alive":
            self.start(name)

    def promote(self, draw: Draw) -> None:
        self.run(promote_script(page=100), polls=True)

    # ── the provider ─────────────────────────────────────────────────────────────────────────────────────────────────

    def ask_what_is_due(self, draw: Draw) -> None:
        due = self.run(due_script(page=100, put_off_ms=1, known=[KnownTool(tool) for tool in KINDS]), polls=True)
        assert all(self.ledger.state(request_id) == "unknown" for request_id in due[2::12])

    def judge(self, draw: Draw) -> None:
        unknown = [request_id for request_id in sorted(self.tools) if self.ledger.state(request_id) == "unknown"]
        asked = unknown if unknown and draw(st.booleans()) else sorted(self.tools)
        if not asked:
            return
        request_id = draw(st.sampled_from(asked))
        row = self.ledger.row(request_id)
        said = self.world.verdict(request_id, draw(st.sampled_from(SAID)))
        asks = int(row.get("asks", "0"))
        word = self.run(self.ledger.judging(request_id, row["fence"], said, body=b"7", asks=asks))[0]
        if row["state"] != "unknown":
            # The identical verdict, recorded before, finds itself; nothing moves either way.
            assert word in {"refused", "settled"}
            assert self.ledger.row(request_id) == row
        elif said != "resend":
            assert word == "settled"

    # ── a lost reply, and a flushed script cache ─────────────────────────────────────────────────────────────────────

    def repeat(self, draw: Draw) -> None:
        """Send the last command again, if nothing has happened since."""
        before = self.ledger.dump()
        if self.last is None or (self.last_now, self.after) != (self.ledger.now_ms, before):
            return
        if draw(st.booleans()):
            self.ledger.client.script_flush()
        reply = self.ledger.run(self.last)
        late = self.last.script.name == "turn" and "late" in settled(self.last_reply)
        if not (self.polls or late):
            assert reply == self.last_reply
        assert steady(self.ledger.dump()) == steady(before)

    # ── the schedule: one rule, so that no run does without submits or claims ────────────────────────────────────────

    @initialize(data=st.data())
    def begin(self, data: st.DataObject) -> None:
        for _ in range(4):
            self.submit(data.draw)

    @rule(data=st.data(), action=st.sampled_from(ACTIONS))
    def act(self, data: st.DataObject, action: str) -> None:
        getattr(self, action)(data.draw)

    @invariant()
    def nothing_is_wrong(self) -> None:
        assert self.world.faults() == []

    def teardown(self) -> None:
        self.ledger.drop()


def test_random_schedules(url: str, namespace: str) -> None:
    with connect(url) as plain:

        class OnThisServer(Machine):
            client = plain

        OnThisServer.namespace = namespace
        run_state_machine_as_test(OnThisServer, settings=SETTINGS)
