"""A world around a ledger: holders that obey the protocol, and the effects that they really had."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from kit.claims import Seen, claiming, deciding, intent, seen
from kit.ledger import KINDS, MC, NC, TTL_MS, Granted, Ledger, Passed, Reply, ended, grants, settled
from kit.ledger_checks import faults
from kit.ledger_view import View, view_of
from kit.permission import Permission
from mycelium.leases.scripts import Command
from mycelium.ledger.states import REPEATABLE, BoundaryMode, Drift, EffectClass, State
from mycelium.ledger.sweep import lapse_script
from mycelium.ledger.verdict import Doubt
from mycelium.reconcilers import resolve
from mycelium.reconcilers.resolve import AskedTool, Conclusion, ResolveSettings
from mycelium.reconcilers.verdict import Verdict

STEP_MS = 5_000
"""The server's clock is wrong by at most so much, either way."""
PRESUMED_MS, LAG_MS, WINDOW_MS = 30_000, 20_000, 60_000
"""A holder that is silent for so long sends no more; so late a provider shows what arrived; so long it knows a key."""
SETTINGS = ResolveSettings(presumed_dead_s=PRESUMED_MS / 1000)
Conclude = Callable[[Doubt, Verdict, AskedTool, ResolveSettings], Conclusion]


@dataclass(slots=True)
class Attempt:
    """One grant as its holder knows it.

    Attributes:
        may_send: the mark was acknowledged, or the tool needs none.
        sent: its effect happened.
        over: it can send nothing more, and its holder knows.
        gone: its holder ended, or is presumed to have.
    """

    id: str
    fence: str
    tool: str
    session: str
    may_send: bool
    sent: bool = False
    over: bool = False
    gone: bool = False


@dataclass(slots=True)
class World:
    """Holders, a provider that is always right, and all that happened.

    Attributes:
        effects: what the provider did, by row.
        sent_ms: when it first did.
        overridden: rows that a person let run again against the evidence.
        effect_ids: which effect each request id was first used for.
        tickets: the row that each dispatch was first granted for.
        wrong: answers that no script may give.
        conclude: how a provider's answer is judged.
        forgets: the store loses writes that it acknowledged.
        permission: what operators ordered, and what was spent.
        checks_window: holders look at the key's window once more before they send, as ours do.
    """

    ledger: Ledger
    attempts: list[Attempt] = field(default_factory=list[Attempt])
    effects: Counter[str] = field(default_factory=Counter[str])
    sent_ms: dict[str, int] = field(default_factory=dict[str, int])
    overridden: Counter[str] = field(default_factory=Counter[str])
    effect_ids: dict[str, str] = field(default_factory=dict[str, str])
    tickets: dict[str, str] = field(default_factory=dict[str, str])
    wrong: list[str] = field(default_factory=list[str])
    conclude: Conclude = resolve.conclude
    forgets: bool = False
    permission: Permission = field(default_factory=Permission)
    checks_window: bool = False

    # ── holders with a queue ─────────────────────────────────────────────────────────────────────────────────────────

    def grants(self, reply: Reply, session: str) -> list[Attempt]:
        """Take the grants of a turn."""
        known = {attempt.fence for attempt in self.attempts}
        new = [granted for granted in grants(reply) if granted.fence not in known]
        for granted in new:
            self.wrong += self.permission.breaches(granted, self.ledger.row(granted.id), self.ledger.now_ms)
        attempts = [_attempt(granted, session) for granted in new]
        self.attempts += attempts
        return attempts

    def claim(self, slots: int, session: str = "s1", **more: Passed) -> list[Attempt]:
        return self.grants(self.ledger.run(self.ledger.turning(slots, session=session, **more)), session)

    def mark(self, attempt: Attempt) -> str:
        """Ask for the mark; only a definite yes allows the effect."""
        word = self.ledger.mark(attempt.id, attempt.fence, session=attempt.session)
        attempt.may_send = attempt.may_send or word == "marked"
        return word

    # ── holders without one ──────────────────────────────────────────────────────────────────────────────────────────

    def taking(
        self,
        tool: str,
        request_id: str | None = "r1",
        *,
        decided: bool = True,
        session: str = "s1",
        **more: Passed,
    ) -> Command:
        """A claim by a holder that obeys: where nothing is asked before its body, the mark comes with it."""
        automatic = KINDS[tool].boundary_mode is BoundaryMode.AUTOMATIC
        boundary = (MC if automatic else NC) if decided else ""
        return claiming(self.ledger, tool, request_id, session=session, boundary=boundary, **more)

    def take(self, tool: str, request_id: str | None = "r1", *, decided: bool = True, **more: Passed) -> Seen:
        """Claim; what is granted is a new attempt."""
        command = self.taking(tool, request_id, decided=decided, **more)
        row = self.ledger.row(self._canonical(request_id)) if request_id else {}
        answer = seen(self.ledger.run(command))
        known = {name: more[name] for name in ("value", "dispatch_id", "drift") if name in more}
        item = intent(tool, request_id, **known).item()
        self.wrong += self._misnamed(item.id, item.effect, answer)
        if answer.word != "granted":
            return answer
        if row.get("n", "") != more.get("expect", "") and item.id == answer.id:
            self.wrong.append(
                f"L3 {answer.id} was granted on a ruling of version {more.get('expect')!r}, at {row['n']}"
            )
        first_ms, window_ms = int(row.get("first", self.ledger.now_ms)), more.get("window_ms", 0)
        doubtful = row.get("state") == State.UNKNOWN and row["class"] == EffectClass.KEYED_MUTATE
        if doubtful and not 0 <= self.ledger.now_ms - first_ms < window_ms:
            self.wrong.append(f"E6 {answer.id} was granted by a key whose window is over")
        if item.ticket and self.tickets.setdefault(item.ticket, answer.id) != answer.id and item.drift != Drift.OFF:
            self.wrong.append(f"K3 {answer.id} was granted for a dispatch that another effect has")
        if answer.fence not in {attempt.fence for attempt in self.attempts}:
            self.wrong += self.permission.after_cancel(answer.id)
            may_send = decided and KINDS[tool].boundary_mode is not BoundaryMode.EXPLICIT
            self.attempts.append(Attempt(answer.id, answer.fence, tool, more.get("session", "s1"), may_send))
        return answer

    def decide(self, attempt: Attempt, *, allowed: bool = True) -> str:
        """Record the decision; only a definite yes, and the mark that comes with it, allows the effect."""
        mode = KINDS[attempt.tool].boundary_mode
        boundary = MC if mode is BoundaryMode.AUTOMATIC else NC
        command = deciding(
            self.ledger, attempt.id, attempt.fence, allowed=allowed, boundary=boundary, session=attempt.session
        )
        word = str(self.ledger.run(command)[0])
        attempt.may_send = attempt.may_send or (word == "decided" and mode is not BoundaryMode.EXPLICIT)
        attempt.over = attempt.over or word == "denied"
        return word

    def submit(self, tool: str, request_id: str, *, value: int = 1) -> str:
        """Queue one effect."""
        word, where, _ = self.ledger.submit(tool, request_id, value=value)[1:4]
        answer = Seen("known" if word == "joined" else word, where, "", "", "", "")
        self.wrong += self._misnamed(request_id, intent(tool, request_id, value=value).item().effect, answer)
        return word

    def _misnamed(self, request_id: str, effect: str, answer: Seen) -> list[str]:
        """K3: the same request id with other arguments is an error, and nothing is dispatched."""
        if answer.word not in {"granted", "known", "created"}:
            return []
        if self.effect_ids.setdefault(request_id, effect) != effect:
            return [f"K3 {request_id} was {answer.word}, and names another effect"]
        return []

    def _canonical(self, request_id: str) -> str:
        return self.ledger.row(request_id).get("alias", request_id)

    # ── how attempts go on ───────────────────────────────────────────────────────────────────────────────────────────

    def send(self, attempt: Attempt) -> None:
        """The effect, however late, where the holder has leave. A provider that has keys does the same key's once."""
        if not attempt.may_send or attempt.over or attempt.sent or attempt.gone or self._silent(attempt.id):
            return
        first_ms, now_ms = self.sent_ms.setdefault(attempt.id, self.ledger.now_ms), self.ledger.now_ms
        keyed = KINDS[attempt.tool].effect_class is EffectClass.KEYED_MUTATE
        if keyed and self.checks_window and now_ms - first_ms >= WINDOW_MS - 2 * STEP_MS:
            return
        attempt.sent = True
        if not (keyed and self.effects[attempt.id] and now_ms - first_ms < WINDOW_MS):
            self.effects[attempt.id] += 1

    def _silent(self, request_id: str) -> bool:
        """Unknown for so long that its holder is presumed to be dead, by any clock."""
        row = self.ledger.row(request_id)
        unknown_ms = int(row.get("unknown_ms", "0"))
        return row.get("state") == "unknown" and self.ledger.now_ms - unknown_ms >= PRESUMED_MS - 2 * STEP_MS

    def settling(self, attempt: Attempt, verb: str, *, delay_ms: int = 0, slots: int = 0, over: bool = True) -> Command:
        """What the holder, which is honest, says of its attempt: by then it sends no more, unless it is cut short."""
        attempt.over = attempt.over or over
        may_follow = attempt.may_send and (verb == "died" or not over)
        item = ended(
            attempt.id,
            attempt.fence,
            verb,
            boundary=MC if attempt.sent or may_follow else NC,
            delay_ms=delay_ms,
            over=int(over),
            body=b"r",
        )
        return self.ledger.turning(slots, item, session=attempt.session)

    def settle(self, attempt: Attempt, verb: str, **more: Passed) -> str:
        return settled(self.ledger.run(self.settling(attempt, verb, **more)))[0]

    def lapse(self, request_id: str) -> str:
        """Take one row from a holder that is dead, and only from such a one (Q4)."""
        row = self.ledger.row(request_id)
        standing = self.ledger.standing(row.get("session", ""))
        word = str(self.ledger.run(lapse_script(request_id=request_id))[0])
        if word == "taken" and standing != "dead":
            self.wrong.append(f"Q4 {request_id} was taken from a holder that is {standing}")
        return word

    def can_still_send(self, request_id: str) -> bool:
        return any(a.id == request_id and a.may_send and not (a.over or a.gone) for a in self.attempts)

    def honest_verbs(self, attempt: Attempt) -> list[str]:
        """How this attempt can truly be said to have ended."""
        effect_class = KINDS[attempt.tool].effect_class
        if attempt.sent:
            again = ["retry"] if effect_class in REPEATABLE else []
            return ["completed", "unknown", "died", "timed_out", "cancelled", *again]
        done = ["completed"] if effect_class is EffectClass.READ else []
        return ["failed", "released", "unknown", "died", "retry", "timed_out", "not_done", "cancelled", *done]

    # ── what the provider and people say ─────────────────────────────────────────────────────────────────────────────

    def verdict(self, request_id: str, said: str) -> str:
        """What the provider can truly say, cut down from what the test wants."""
        if said == "completed" and not self.effects[request_id]:
            return "unknown"
        if said == "not_executed" and (self.effects[request_id] or self.can_still_send(request_id)):
            return "unknown"
        return said

    def reconcile(self, request_id: str) -> str:
        """Ask the provider, which shows late what it did; the answer is judged as the reconciler does."""
        row, now_ms = self.ledger.row(request_id), self.ledger.now_ms
        visible = self.effects[request_id] and now_ms - self.sent_ms[request_id] >= LAG_MS - 2 * STEP_MS
        verdict = Verdict.completed("7", "seen") if visible else Verdict.not_executed("not there")
        keyed = row["class"] == EffectClass.KEYED_MUTATE
        tool = AskedTool(LAG_MS / 1000, 1.0, WINDOW_MS / 1000 if keyed else None)
        said = self.conclude(_doubt(request_id, row, now_ms), verdict, tool, SETTINGS)
        word = self.ledger.judge(request_id, row["fence"], said.said, body=said.body)
        self.presume(request_id, row)
        return word

    def presume(self, request_id: str, row: dict[str, str]) -> None:
        """What was silent for so long sends nothing more: that is presumed of it, and said so."""
        if self.ledger.now_ms - int(row.get("unknown_ms", "0")) >= PRESUMED_MS:
            for attempt in self.attempts:
                attempt.gone = attempt.gone or attempt.id == request_id

    # ── what must hold ───────────────────────────────────────────────────────────────────────────────────────────────

    def faults(self) -> list[str]:
        """What is wrong with the ledger, and with the world that it led to."""
        dump = self.ledger.dump()
        view = view_of(dump)
        return [*faults(dump), *self.wrong, *self._too_often(view), *self._untrue(view)]

    def _too_often(self, view: View) -> list[str]:
        found: list[str] = []
        for request_id, times in self.effects.items():
            row = view.rows[request_id]
            if any("repaired-" in text and "class" in text for text in row.values()):
                continue  # what it was allowed under before its class was lost and made the strictest, nobody can say
            effect_class = row["class"]
            allowed = 1 + self.overridden[request_id]
            if effect_class not in REPEATABLE and times > allowed:
                found.append(f"E1 {request_id} had {times} effects, {allowed} were allowed")
            by_key = sum(move.id == request_id and move.resends for move in view.moves)
            sent = sum(attempt.id == request_id and attempt.sent for attempt in self.attempts)
            if effect_class not in REPEATABLE and sent > allowed + by_key:
                found.append(f"E1 {request_id} was sent {sent} times, {allowed + by_key} were allowed")
        return found

    def _untrue(self, view: View) -> list[str]:
        found: list[str] = []
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


def _doubt(request_id: str, row: dict[str, str], now_ms: int) -> Doubt:
    """The row as the reconciler is shown it."""
    first_ms = int(row.get("first", "0"))
    return Doubt(
        request_id=request_id,
        fence=row["fence"],
        tool=row["tool"],
        effect_class=EffectClass(row["class"]),
        effect_id=row["effect"],
        attempt=int(row["attempts"]),
        ref=row.get("ref", ""),
        unknown_for_ms=now_ms - int(row.get("unknown_ms", "0")),
        ended=row.get("ended") == "1",
        asks=int(row.get("asks", "0")),
        age_ms=now_ms - first_ms if first_ms else 0,
        key=row.get("key", ""),
        args=b"",
    )


def lapse(ledger: Ledger) -> None:
    """Let every session's deadline pass that is not renewed from now on."""
    ledger.now_ms += TTL_MS
