"""A world around a ledger: workers that obey the protocol, and the effects that they really had."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from kit.ledger import KINDS, MC, NC, TTL_MS, Granted, Ledger, Passed, Reply, ended, grants, settled
from kit.ledger_checks import View, faults, view_of
from mycelium.leases.scripts import Command
from mycelium.ledger.states import REPEATABLE, BoundaryMode, EffectClass, State


@dataclass(slots=True)
class Attempt:
    """One grant as its worker knows it.

    Attributes:
        may_send: the mark was acknowledged, or the tool needs none.
        sent: its effect happened.
        over: it can send nothing more.
    """

    id: str
    fence: str
    tool: str
    session: str
    may_send: bool
    sent: bool = False
    over: bool = False


@dataclass(slots=True)
class World:
    """Workers, a provider that is always right, and all that happened."""

    ledger: Ledger
    attempts: list[Attempt] = field(default_factory=list)
    effects: Counter[str] = field(default_factory=Counter)
    not_executed_after: dict[str, int] = field(default_factory=dict)

    def grants(self, reply: Reply, session: str) -> list[Attempt]:
        """Take the grants of a turn."""
        known = {attempt.fence for attempt in self.attempts}
        new = [_attempt(granted, session) for granted in grants(reply) if granted.fence not in known]
        self.attempts += new
        return new

    def claim(self, slots: int, session: str = "s1", **more: Passed) -> list[Attempt]:
        return self.grants(self.ledger.run(self.ledger.turning(slots, session=session, **more)), session)

    def mark(self, attempt: Attempt) -> str:
        """Ask for the mark; only a definite yes allows the effect."""
        word = self.ledger.mark(attempt.id, attempt.fence, session=attempt.session)
        attempt.may_send = attempt.may_send or word == "marked"
        return word

    def send(self, attempt: Attempt) -> None:
        """The effect, however late, where the worker has leave."""
        if attempt.may_send and not (attempt.over or attempt.sent):
            attempt.sent = True
            self.effects[attempt.id] += 1

    def settling(self, attempt: Attempt, verb: str, *, delay_ms: int = 0, slots: int = 0) -> Command:
        """What the worker, which is honest, says of its attempt; by then it can send nothing more."""
        attempt.over = True
        boundary = MC if attempt.sent or (attempt.may_send and verb == "died") else NC
        item = ended(attempt.id, attempt.fence, verb, boundary=boundary, delay_ms=delay_ms, body=b"r")
        return self.ledger.turning(slots, item, session=attempt.session)

    def settle(self, attempt: Attempt, verb: str, **more: Passed) -> str:
        return settled(self.ledger.run(self.settling(attempt, verb, **more)))[0]

    def can_still_send(self, request_id: str) -> bool:
        return any(a.id == request_id and a.may_send and not a.over for a in self.attempts)

    def honest_verbs(self, attempt: Attempt) -> list[str]:
        """How this attempt can truly be said to have ended."""
        effect_class = KINDS[attempt.tool].effect_class
        if attempt.sent:
            return ["completed", "unknown", "died", *(["retry"] if effect_class in REPEATABLE else [])]
        done = ["completed"] if effect_class is EffectClass.READ else []
        return ["failed", "released", "unknown", "died", "retry", *done]

    def verdict(self, request_id: str, said: str) -> str:
        """What the provider can truly say, cut down from what the test wants."""
        if said == "completed" and not self.effects[request_id]:
            return "unknown"
        if said == "not_executed" and (self.effects[request_id] or self.can_still_send(request_id)):
            return "unknown"
        return said

    def faults(self) -> list[str]:
        """What is wrong with the ledger, and with the world that it led to."""
        dump = self.ledger.dump()
        view = view_of(dump)
        return [*faults(dump), *self._too_often(view), *self._untrue(view)]

    def _too_often(self, view: View) -> list[str]:
        found = []
        for request_id, times in self.effects.items():
            row = view.rows[request_id]
            allowed = 1 + sum(move.id == request_id and move.why == "key" for move in view.moves)
            if row["class"] not in REPEATABLE and times > allowed:
                found.append(f"E1 {request_id} had {times} effects, {allowed} were allowed")
        return found

    def _untrue(self, view: View) -> list[str]:
        found = []
        for request_id, row in view.rows.items():
            times = self.effects[request_id]
            if row["class"] == EffectClass.READ:
                continue
            if row["state"] == State.COMPLETED and not times:
                found.append(f"E4 {request_id} is completed, and had no effect")
            if row["state"] in {State.FAILED, State.DEAD, State.CANCELLED} and (
                times or self.can_still_send(request_id)
            ):
                found.append(f"E4 {request_id} is {row['state']}, and had {times} effects")
        return found


def _attempt(granted: Granted, session: str) -> Attempt:
    may_send = KINDS[granted.tool].boundary_mode is BoundaryMode.NONE
    return Attempt(granted.id, granted.fence, granted.tool, session, may_send)


def lapse(ledger: Ledger) -> None:
    """Let every session's deadline pass that is not renewed from now on."""
    ledger.now_ms += TTL_MS
