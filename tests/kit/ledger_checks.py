"""What must hold of a ledger at every moment, read from its keys alone: faults are told as sentences."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from kit.ledger import Dump
from kit.ledger_view import Move, View, view_of
from kit.queue_checks import due_place, limited, lined_up
from mycelium.leases.keys import ENDED, OPEN_ONLY, PERMANENT
from mycelium.ledger.states import HELD, REPEATABLE, TERMINAL, EffectClass, State

WHY = {
    "retried": "retry",
    "released": "released",
    "expired": "session-lost",
    "host_deaths": "host-died",
    "released_by_operator": "operator",
    "requeued": "requeued",
}
"""Counters, and the reason word of the moves that each counts."""
REACHED = ("completed", "failed", "dead", "cancelled", "unknown")
"""Counters of moves to a state."""
NEW_FENCE = {"verdict", "key", "operator", "requeued"}
"""Reason words of moves that raise the fence, beside those of a grant, where they do not end the row."""
LOSSES = {"session-lost", "declared-dead"}
"""Reason words of moves out of the hands of a holder that is gone."""
HISTORY = 64


def faults(dump: Dump) -> list[str]:
    """Everything that is wrong with a ledger. Empty is right."""
    view = view_of(dump)
    return [
        *_conserved(view),
        *lined_up(view),
        *limited(view),
        *_numbered(view),
        *_counted(view),
        *_moved(view),
        *_fenced(view),
        *_mortal(view),
    ]


def _conserved(view: View) -> Iterator[str]:
    """Q1: the states add up, and each open row is in the one place where it is found."""
    recount = Counter(row["state"] for row in view.rows.values())
    standing = {word: count for word, count in view.states.items() if count}
    if standing != dict(recount):
        yield f"Q1 states say {standing}, the rows {dict(recount)}"
    for request_id, row in view.rows.items():
        found, due = view.places.get(request_id, []), due_place(row)
        if found != due:
            yield f"Q1 {request_id} is {row['state']} and stands in {found}, not in {due}"
        holder = row["session"]
        if (row["state"] in HELD) != (holder != ""):
            yield f"L1 {request_id} is {row['state']} and its session is {holder!r}"
        if holder and view.held.get(holder, {}).get(request_id) != row["fence"]:
            yield f"L3 {request_id} is held by {holder} under another fence"
        if row["state"] != State.COMPLETED and request_id not in view.args:
            yield f"E6 {request_id} has lost its arguments"
    for request_id in view.places.keys() - view.rows.keys():
        yield f"Q1 {request_id} stands in {view.places[request_id]} without a row"


def _numbered(view: View) -> Iterator[str]:
    """M3: no gap in the events, none in a row's history."""
    if view.seqs != list(range(1, len(view.seqs) + 1)):
        yield f"M3 the events are numbered {view.seqs}"
    for request_id, row in view.rows.items():
        last = int(row["n"])
        numbers = sorted(int(name[1:]) for name in row if name[0] == "h" and name[1:].isdigit())
        if numbers != list(range(max(1, last - HISTORY + 1), last + 1)):
            yield f"M3 the history of {request_id} is numbered {numbers}, n is {last}"


def _counted(view: View) -> Iterator[str]:
    """M2: every counter is the number of its moves."""
    expected = {name: sum(move.why == why and not move.grants for move in view.moves) for name, why in WHY.items()}
    expected |= {name: sum(move.target == name for move in view.moves) for name in REACHED}
    expected["claimed"] = sum(move.grants for move in view.moves)
    expected["marked"] = sum(move.marks(view.rows[move.id]) for move in view.moves)
    expected["submitted"] = sum(not move.source for move in view.moves)
    expected["reconciled"] = sum(move.why in {"verdict", "key"} and not move.grants for move in view.moves)
    if any("repaired-" in text and "mode" in text for row in view.rows.values() for text in row.values()):
        # What a row was granted under before its mode was lost, nobody can say.
        del expected["marked"]
    for name, count in expected.items():
        if view.counters.get(name, 0) != count:
            yield f"M2 {name} is {view.counters.get(name, 0)}; the events tell of {count}"


def _moved(view: View) -> Iterator[str]:
    """L3, L4, E3, E5, E10: each row moved only as it may, from where it stood, under the fence that it had."""
    for request_id, row in view.rows.items():
        trail = Trail(restarted=view.meta["epoch"] != "1")
        for move in view.moves:
            if move.id == request_id:
                yield from trail.follow(move, row)
        yield from trail.end(request_id, row)


@dataclass(slots=True)
class Trail:
    """One row's way through its events; after a restart of the server an unmarked row is no proof (S5)."""

    restarted: bool = False
    state: str = ""
    fence: str = "0"
    boundary: str = "not_crossed"
    claims: int = 0
    again: int = 0
    released: int = 0
    deaths: int = 0
    retries: int = 0

    def follow(self, move: Move, row: dict[str, str]) -> Iterator[str]:
        request_id = move.id
        if move.source != self.state:
            yield f"Q1 {request_id} moved from {move.source!r}, and was {self.state!r}"
        again = move.why == "requeued" and self.state != State.COMPLETED
        if self.state in TERMINAL and not (again or (move.grants and self.state == State.FAILED)):
            yield f"E5 {request_id} left {self.state} for {move.target}"
        if move.grants and not _may_be_granted(move, row):
            yield f"L3 {request_id} ({row['class']}) was claimed out of {self.state!r} by {move.why}"
        raises = move.grants or (move.why in NEW_FENCE and move.target not in TERMINAL)
        if (move.fence != self.fence) != raises and move.fence not in _repairs(row):
            yield f"L4 {request_id} moved by {move.why} from fence {self.fence} to {move.fence}"
        self._count(move)
        lost = _after_loss(row, self.boundary, self.deaths) | ({State.UNKNOWN} if self.restarted else set())
        if move.why in LOSSES and move.target not in lost and not _repairs(row):
            yield f"E3 {request_id} ({row['class']}, {self.boundary}) became {move.target} when its session was lost"
        if move.why == "requeued":
            self.claims = self.again = self.released = self.deaths = self.retries = 0
        if move.grants:
            self.boundary = "not_crossed"
        if move.marks(row) or move.why == "crossed":
            self.boundary = "crossed" if move.why == "crossed" else "maybe_crossed"
        self.state, self.fence = move.target, move.fence

    def _count(self, move: Move) -> None:
        self.claims += move.grants
        self.again += move.grants and move.source in {State.FAILED, State.UNKNOWN}
        self.released += move.why == "released"
        self.deaths += move.why in LOSSES | {"host-died"}
        self.retries += move.why == "retry" and not move.grants

    def end(self, request_id: str, row: dict[str, str]) -> Iterator[str]:
        if self.state != row["state"] or (self.fence != row["fence"] and row["fence"] not in _repairs(row)):
            yield f"M3 {request_id} is {row['state']} {row['fence']}, its events end at {self.state} {self.fence}"
        if _repairs(row):
            # What was filled in is the strictest, not what was.
            return
        told = (self.claims - self.released, self.deaths)
        if (int(row["attempts"]), int(row["deaths"])) != told:
            yield f"E10 {request_id} has {row['attempts']} attempts, {row['deaths']} deaths; its events tell of {told}"
        fails, timeouts = int(row["fails"]), int(row.get("timeouts", "0"))
        most_fails, most_timeouts = int(row["max_attempts"]), int(row.get("max_timeouts", row["max_attempts"]))
        if self.deaths > int(row["max_deaths"]) or fails > most_fails or timeouts > most_timeouts:
            yield f"E10 {request_id} went on after {self.deaths} deaths, {fails} failures, {timeouts} timeouts"
        if not 0 <= fails + timeouts - self.retries <= 1:
            yield f"E10 {request_id} was retried {self.retries} times for {fails} failures and {timeouts} timeouts"
        # What a caller asks for again is no retry of ours, and has no limit but the gate's.
        if told[0] - self.again >= int(row["max_deaths"]) + most_fails + most_timeouts:
            yield f"E10 {request_id} was granted {told[0]} times"


def _may_be_granted(move: Move, row: dict[str, str]) -> bool:
    """E1, E6: what failed before its effect runs again where its class allows; what is unknown, where it may repeat."""
    match move.source:
        case "" | State.READY:
            return True
        case State.FAILED:
            return row["class"] in {*REPEATABLE, EffectClass.KEYED_MUTATE}
        case State.UNKNOWN:
            return row["class"] in REPEATABLE or (row["class"] == EffectClass.KEYED_MUTATE and move.why == "key")
        case _:
            return False


def _repairs(row: dict[str, str]) -> set[str]:
    """The fences under which a row was repaired: its numbers are no longer what its events tell."""
    entries = [text.split(" ") for name, text in row.items() if name[0] == "h" and name[1:].isdigit()]
    return {entry[2] for entry in entries if entry[1] == "note" and entry[3].startswith("repaired-")}


def _after_loss(row: dict[str, str], boundary: str, deaths: int) -> set[str]:
    worn_out = deaths >= int(row["max_deaths"])
    if row["class"] == EffectClass.READ:
        return {State.DEAD} if worn_out else {State.READY}
    if boundary == "not_crossed":
        # Dead says that no effect exists: not where an earlier attempt may have had one.
        return {State.DEAD, State.UNKNOWN} if worn_out else {State.READY}
    if row["class"] == EffectClass.IDEMPOTENT_MUTATE and not worn_out:
        return {State.READY}
    return {State.UNKNOWN}


def _fenced(view: View) -> Iterator[str]:
    """L2: fences only grow, and no two attempts share one."""
    granted = [int(move.fence) for move in view.moves if move.grants]
    if granted != sorted(set(granted)):
        yield f"L2 fences were granted in the order {granted}"
    if granted and granted[-1] > int(view.meta["fence"]):
        yield f"L2 fence {granted[-1]} was granted, and the next comes after {view.meta['fence']}"


def _mortal(view: View) -> Iterator[str]:
    """S7: only what is listed lacks a TTL, and what is open has none."""
    for name, mortal in view.mortal.items():
        kind, _, rest = name.partition(":")
        if kind in PERMANENT:
            wanted = False
        elif kind in ENDED:
            wanted = True
        elif kind in {"held", "session"}:
            wanted = False
            if rest not in view.sessions:
                yield f"S7 {name} is there, and its session is not"
        elif kind in OPEN_ONLY:
            wanted = kind != "asked" and view.rows.get(view.owners.get(name, rest), {}).get("state") in TERMINAL
        else:
            yield f"S7 {name} is on no list"
            continue
        if mortal != wanted:
            yield f"S7 {name} has {'a' if mortal else 'no'} TTL"
