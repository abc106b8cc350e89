"""Random schedules of holders, sweeps, verdicts, people, faults and repeated commands against a real server.

`MYCELIUM_SCHEDULES=2000` in the environment runs so many of them. One that fails is printed, with how to run it again.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable
from typing import Any

import hypothesis.strategies as st
from hypothesis import HealthCheck, settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from kit.claims import repairing
from kit.ledger import KINDS, TTL_MS, Client, Dump, Ledger, connect, settled, steady
from kit.ledger_world import STEP_MS, WINDOW_MS, Attempt, World
from kit.operator_cases import burying, releasing
from kit.repair_cases import FILLED
from mycelium.ledger.states import HELD, TERMINAL, Drift, Settle
from mycelium.ledger.sweep import expire_script, promote_script
from mycelium.ledger.verdict import KnownTool, due_script

Draw = Callable[[Any], Any]
SETTINGS = settings(
    max_examples=int(os.environ.get("MYCELIUM_SCHEDULES", "90")),
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
POLLS = {"expire_if_lapsed", "promote", "due", "lapse", "repair", "found"}
"""Scripts whose second answer tells that there is nothing left to do."""
GRACES = {"s1": 0, "s2": 0, "p1": TTL_MS}
"""Who holds: two workers, and a process that calls for itself."""
ACTIONS = (
    *("submit", "pass_time", "claim", "mark", "send", "settle_what_is_over", "promote", "ask_what_is_due"),
    *("drift", "restart", "damage", "mark_dead", "step_the_clock", "lapse"),
    *("work", "settle", "die", "sweep", "judge", "repeat", "take", "take_again", "decide", "reconcile", "release") * 2,
)
"""What may happen next; the ways on come twice."""
_namespaces = itertools.count(1)


class Machine(RuleBasedStateMachine):
    """Eight effects of all kinds, three holders that start again when a session ends, a sweeper, a provider, people."""

    client: Client
    namespace: str

    def __init__(self) -> None:
        super().__init__()
        self.ledger = Ledger(self.client, f"{self.namespace}.{next(_namespaces)}")
        self.ledger.found()
        self.world = World(self.ledger)
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

    # ── callers ──────────────────────────────────────────────────────────────────────────────────────────────────────

    def submit(self, draw: Draw) -> None:
        request_id, tool, value = draw(st.sampled_from(IDS)), draw(TOOLS), draw(st.sampled_from([1, 1, 1, 2]))
        command = self.ledger.submitting(tool, request_id, value=value, delay_s=draw(st.sampled_from([0.0, 0.0, 2.0])))
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
        self.world.grants(self.ledger.run(self.ledger.turning(draw(SLOTS), session=session, lane=lane)), session)

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
        reply = self.ledger.run(command)
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
        if row["fence"] != attempt.fence:
            assert word == "stale"
        if word == "stale" or row["state"] in TERMINAL:
            assert steady(self.ledger.dump(), notes=False) == steady(before, notes=False)

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
        for _ in range((TTL_MS + GRACES[name]) // 5000):
            self.ledger.now_ms += 5000
            for other in GRACES.keys() - {name}:
                self.ledger.renew(self.session(other))
        if self.expire(name) != "alive":
            self.start(name)

    def promote(self, draw: Draw) -> None:
        self.ledger.run(promote_script(page=100))

    # ── the provider ─────────────────────────────────────────────────────────────────────────────────────────────────

    def ask_what_is_due(self, draw: Draw) -> None:
        due = self.ledger.run(due_script(page=100, put_off_ms=1, known=[KnownTool(tool) for tool in KINDS]))
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
        word = self.ledger.run(self.ledger.judging(request_id, row["fence"], said, body=b"7", asks=asks))[0]
        if row["state"] != "unknown":
            # The identical verdict, recorded before, finds itself; nothing moves either way.
            assert word in {"refused", "settled"}
            assert self.ledger.row(request_id) == row
        elif said != "resend":
            assert word == "settled"

    # ── a holder without a queue ─────────────────────────────────────────────────────────────────────────────────────

    def take(self, draw: Draw) -> None:
        """Claim what is new, or see how it stands."""
        request_id, tool, value = draw(st.sampled_from(IDS)), draw(TOOLS), draw(st.sampled_from([1, 1, 1, 2]))
        if request_id in self.tools and draw(st.booleans()):
            tool = self.tools[request_id].partition("/")[0]
        self.claim_inline(draw, request_id, (tool, value), "", "claim")

    def take_again(self, draw: Draw) -> None:
        """Claim by a ruling, which may be on what no longer stands."""
        if not self.tools:
            return
        request_id = draw(st.sampled_from(sorted(self.tools)))
        tool, _, value = self.tools[request_id].partition("/")
        auth = draw(st.sampled_from(["retry", "reclaim", "key", "key"]))
        stands = [*self.shown.get(request_id, []), *[self.ledger.row(request_id)["n"]] * 3]
        self.claim_inline(draw, request_id, (tool, int(value)), draw(st.sampled_from(stands)), auth)

    def claim_inline(self, draw: Draw, request_id: str, what: tuple[str, int], expect: str, auth: str) -> None:
        tool, value = what
        name = draw(st.sampled_from(["p1", "p1", "s1"]))
        before = self.ledger.dump()
        answer = self.world.take(
            tool,
            request_id,
            decided=draw(st.booleans()),
            session=self.session(name),
            value=value,
            expect=expect,
            auth=auth,
            window_ms=WINDOW_MS - 2 * STEP_MS,
        )
        if answer.word in {"granted", "known"}:
            assert self.tools.setdefault(request_id, f"{tool}/{value}") == f"{tool}/{value}"
            self.shown.setdefault(request_id, []).append(answer.version)
        elif answer.word == "conflict":
            assert self.tools[request_id] != f"{tool}/{value}"
        if answer.word != "granted":
            # Whoever is not granted anything has written nothing: not to a held row, and not to any other.
            assert steady(self.ledger.dump()) == steady(before)

    def decide(self, draw: Draw) -> None:
        attempt = self.attempt(draw)
        if attempt is None:
            return
        row, before = self.ledger.row(attempt.id), self.ledger.dump()
        word = self.world.decide(attempt, allowed=draw(st.sampled_from([True, True, False])))
        mine = (row["fence"], row["session"], row["state"]) == (attempt.fence, attempt.session, "claimed")
        assert mine or word in {"stale", "lost", "before", "epoch"}
        if word not in {"decided", "denied"}:
            assert steady(self.ledger.dump()) == steady(before)

    def drift(self, draw: Draw) -> None:
        """One dispatch, twice: under another request id it is the same effect, with other arguments it is refused."""
        tool, session = "non_idempotent_mutate-explicit", self.session("p1")
        value, request_id = draw(st.sampled_from([1, 2])), draw(st.sampled_from([None, "d1", "d2"]))
        drift = draw(st.sampled_from([Drift.SOFT, Drift.HARD]))
        self.world.take(tool, request_id, session=session, dispatch_id="d", value=value, drift=drift)

    # ── people ───────────────────────────────────────────────────────────────────────────────────────────────────────

    def some_row(self, draw: Draw, *states: str) -> str | None:
        rows = [request_id for request_id in sorted(self.tools) if self.ledger.state(request_id) in states]
        return draw(st.sampled_from(rows)) if rows else None

    def release(self, draw: Draw) -> None:
        """A person says what she saw at the provider; whether it counts, the script decides."""
        request_id = self.some_row(draw, "unknown") or self.some_row(draw, *HELD, *TERMINAL)
        if request_id is None:
            return
        row, before = self.ledger.row(request_id), self.ledger.dump()
        verified = "completed" if self.world.effects[request_id] else "not_executed"
        override = int(draw(st.booleans()) and not self.world.can_still_send(request_id))
        word = self.ledger.run(releasing(self.ledger, verified, request_id=request_id, override=override))[0]
        if word == "released":
            assert row["state"] == "unknown"
            self.world.presume(request_id, row)
        else:
            assert steady(self.ledger.dump()) == steady(before)

    def mark_dead(self, draw: Draw) -> None:
        """A person has ended a holder, and says so."""
        request_id = self.some_row(draw, *HELD)
        if request_id is None:
            return
        session = self.ledger.row(request_id)["session"]
        for attempt in self.world.attempts:
            attempt.gone = attempt.gone or attempt.session == session
        assert self.ledger.run(burying(self.ledger, request_id=request_id, override=1))[0] == "declared"

    def reconcile(self, draw: Draw) -> None:
        request_id = self.some_row(draw, "unknown")
        if request_id is not None:
            self.world.reconcile(request_id)

    # ── time, faults and their repair ────────────────────────────────────────────────────────────────────────────────

    def lapse(self, draw: Draw) -> None:
        request_id = self.some_row(draw, *HELD)
        if request_id is not None:
            self.world.lapse(request_id)

    def step_the_clock(self, draw: Draw) -> None:
        """The server's clock is set, forwards or back (T2)."""
        offset_ms = draw(st.sampled_from([-STEP_MS, 0, STEP_MS]))
        self.ledger.now_ms += offset_ms - self.offset_ms
        self.offset_ms = offset_ms

    def restart(self, draw: Draw) -> None:
        """The server is found with another run: whoever holds something learns that a mark may be lost (S5)."""
        if draw(st.sampled_from([True, False, False])):
            self.ledger.edit("HSET", self.ledger.keys.meta(), "run_id", "another")
            self.ledger.found()
            self.ledger.epoch += 1

    def damage(self, draw: Draw) -> None:
        """A row loses a field: it is refused until it is repaired, and then as strict as it can be."""
        if not self.tools:
            return
        request_id, field = draw(st.sampled_from(sorted(self.tools))), draw(st.sampled_from([*FILLED, "fence"]))
        self.ledger.edit("HDEL", self.ledger.keys.row(request_id), field)
        tool, _, value = self.tools[request_id].partition("/")
        damaged = self.ledger.dump()
        answer = self.world.take(tool, request_id, session=self.session("p1"), value=int(value))
        assert answer.word in {"corrupt", "lost", "epoch"}
        assert steady(self.ledger.dump()) == steady(damaged)
        assert self.ledger.run(repairing(tool, request_id))[0] == "repaired"
        assert self.ledger.state(request_id) == damaged[f"row:{request_id}"].value["state"]

    # ── a lost reply, and a flushed script cache ─────────────────────────────────────────────────────────────────────

    def repeat(self, draw: Draw) -> None:
        """Send the last command again, if nothing has happened since."""
        before = self.ledger.dump()
        if self.ledger.last is None or self.after != (self.ledger.now_ms, before):
            return
        command, first = self.ledger.last
        if draw(st.booleans()):
            self.ledger.client.script_flush()
        reply = self.ledger.run(command)
        late = command.script.name == "turn" and "late" in settled(first)
        if not (late or command.script.name in POLLS):
            assert reply == first
        assert steady(self.ledger.dump()) == steady(before)

    # ── the schedule: one rule, so that no run does without submits or claims ────────────────────────────────────────

    @initialize(data=st.data())
    def begin(self, data: st.DataObject) -> None:
        for _ in range(4):
            self.submit(data.draw)

    @rule(data=st.data(), action=st.sampled_from(ACTIONS))
    def act(self, data: st.DataObject, action: str) -> None:
        getattr(self, action)(data.draw)
        if action != "repeat":
            self.after = self.ledger.now_ms, self.ledger.dump()

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
