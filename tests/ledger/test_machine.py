"""Random schedules of holders, sweeps, verdicts, people, faults and repeated commands against a real server.

`MYCELIUM_SCHEDULES=2000` in the environment runs so many of them. One that fails is printed, with how to run it again.
"""

from __future__ import annotations

import os

import hypothesis.strategies as st
from hypothesis import HealthCheck, settings
from hypothesis.stateful import initialize, invariant, rule, run_state_machine_as_test

from kit.claims import repairing
from kit.ledger import TTL_MS, connect, settled, steady
from kit.ledger_world import STEP_MS
from kit.operator_cases import burying, releasing
from kit.ordering import Ordering
from kit.repair_cases import FILLED
from kit.schedule import IDS, TOOLS, WINDOWS, Draw
from mycelium.ledger.doubt import doubt_script
from mycelium.ledger.states import HELD, TERMINAL, Drift

SETTINGS = settings(
    max_examples=int(os.environ.get("MYCELIUM_SCHEDULES", "90")),
    stateful_step_count=45,
    deadline=None,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much],
)
POLLS = {"expire_if_lapsed", "sweep", "due", "lapse", "repair", "found", "pause", "strike"}
"""Scripts whose second answer tells that there is nothing left to do."""
ACTIONS = (
    *("submit", "pass_time", "claim", "mark", "settle_what_is_over", "promote", "ask_what_is_due"),
    *("drift", "restart", "damage", "mark_dead", "step_the_clock", "lapse", "doubt"),
    *("cancel", "requeue", "pause", "strike", "tell") * 2,
    *("work", "settle", "die", "sweep", "judge", "repeat", "take", "decide", "reconcile", "release") * 2,
    *("take_again", "trouble", "send") * 3,
)
"""What may happen next; the ways on come more often."""


class Machine(Ordering):
    """All that, and what holders without a queue, people and faults do."""

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
        doubtful = self.some_row(draw, "unknown", "failed") if draw(st.booleans()) else None
        request_id = doubtful or draw(st.sampled_from(sorted(self.tools)))
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
            window_ms=draw(WINDOWS),
        )
        if answer.word in {"granted", "known"}:
            assert self.tools.setdefault(request_id, f"{tool}/{value}") == f"{tool}/{value}"
            self.shown.setdefault(request_id, []).append(answer.version)
        elif answer.word == "conflict":
            assert self.tools[request_id] != f"{tool}/{value}"
        if answer.word != "granted":
            # Whoever is not granted anything has written nothing: not to a held row, and not to any other.
            assert steady(self.ledger.dump()) == steady(before)

    def doubt(self, draw: Draw) -> None:
        """What is ready, and may not be sent again, is put where somebody looks after it."""
        request_id = self.some_row(draw, "ready")
        if request_id is None:
            return
        row, before = self.ledger.row(request_id), self.ledger.dump()
        word = self.ledger.run(doubt_script(request_id=request_id, expect=row["n"], error="KeyWindowOver"))[0]
        assert word == ("unknown" if row.get("doubt") == "1" else "changed")
        if word == "changed":
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
            # R3: what may still be sent was not verified to be not executed.
            assert verified == "completed" or not self.world.can_still_send(request_id)
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
        """A call meets what is held, perhaps when its holder has been silent for a while."""
        request_id = self.some_row(draw, *HELD)
        if request_id is None:
            return
        if draw(st.booleans()):
            self.be_silent(self.ledger.row(request_id)["session"].partition(".")[0], TTL_MS)
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
        if command.script.name == "turn":
            # When there may be more, and whether something is kept back, is told as it stands.
            reply, first = [reply[:2], reply[4:]], [first[:2], first[4:]]
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
        last = self.ledger.last
        getattr(self, action)(data.draw)
        if action != "repeat" and self.ledger.last is not last:
            self.after = self.ledger.now_ms, self.ledger.dump()

    @invariant()
    def nothing_is_wrong(self) -> None:
        assert self.world.faults() == []

    def teardown(self) -> None:
        # What has failed already is not asked to come to rest as well.
        if self.world.faults() == []:
            self.calm_down()
        self.ledger.drop()


def test_random_schedules(url: str, namespace: str) -> None:
    with connect(url) as plain:

        class OnThisServer(Machine):
            client = plain

        OnThisServer.namespace = namespace
        run_state_machine_as_test(OnThisServer, settings=SETTINGS)
