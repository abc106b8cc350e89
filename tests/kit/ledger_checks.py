"""What must hold of a ledger at every moment, read from its keys alone: faults are told as sentences."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

from kit.ledger import Dump, Reply
from mycelium.leases.keys import ENDED, OPEN_ONLY, PERMANENT
from mycelium.ledger.states import HELD, REPEATABLE, TERMINAL, BoundaryMode, EffectClass, State

WHY = {
    "retried": "retry",
    "released": "released",
    "expired": "session-lost",
    "host_deaths": "host-died",
    "released_by_operator": "operator",
}
"""Counters, and the reason word of the moves that each counts."""
REACHED = ("completed", "failed", "dead", "cancelled", "unknown")
"""Counters of moves to a state."""
NEW_FENCE = {"verdict", "key", "operator"}
"""Reason words of moves that raise the fence, beside those of a grant, where they do not end the row."""
LOSSES = {"session-lost", "declared-dead"}
"""Reason words of moves out of the hands of a holder that is gone."""
HISTORY = 64


@dataclass(frozen=True, slots=True)
class Move:
    """One transition as the event stream tells it."""

    id: str
    source: str
    target: str
    fence: str
    why: str

    @property
    def grants(self) -> bool:
        return self.target in HELD and self.source not in HELD

    @property
    def resends(self) -> bool:
        """Whether it allowed what may have been sent to be sent again by its key."""
        return self.why == "key" and self.source == State.UNKNOWN

    def marks(self, row: dict[str, str]) -> bool:
        """Whether the point of no return came with it: by itself, or with a decision that needed no other word."""
        begins = self.target == State.ATTEMPTING != self.source and self.why not in {"crossed", "ref"}
        return self.why == "maybe_crossed" or (begins and row["mode"] == BoundaryMode.AUTOMATIC)


@dataclass(slots=True)
class View:
    """A dump, sorted by what it is; `owners` has the row of each key that names one."""

    rows: dict[str, dict[str, str]] = field(default_factory=dict)
    owners: dict[str, str] = field(default_factory=dict)
    args: dict[str, str] = field(default_factory=dict)
    results: dict[str, str] = field(default_factory=dict)
    places: dict[str, list[str]] = field(default_factory=dict)
    held: dict[str, dict[str, str]] = field(default_factory=dict)
    states: dict[str, int] = field(default_factory=dict)
    counters: dict[str, int] = field(default_factory=dict)
    seqs: list[int] = field(default_factory=list)
    moves: list[Move] = field(default_factory=list)
    meta: dict[str, str] = field(default_factory=dict)
    sessions: list[str] = field(default_factory=list)
    mortal: dict[str, bool] = field(default_factory=dict)
    standing: Counter[tuple[str, str]] = field(default_factory=Counter)
    waiting: dict[tuple[str, str], int] = field(default_factory=dict)
    tenants: dict[str, set[str]] = field(default_factory=dict)
    rotas: dict[str, set[str]] = field(default_factory=dict)
    running: dict[str, set[str]] = field(default_factory=dict)

    def place(self, request_id: str, where: str) -> None:
        self.places.setdefault(request_id, []).append(where)


def view_of(dump: Dump) -> View:
    """Sort a dump."""
    view = View()
    for name, key in dump.items():
        kind, _, rest = name.partition(":")
        view.mortal[name] = key.mortal
        _sort_in(view, kind, rest, key.value)
    return view


def _sort_in(view: View, kind: str, rest: str, value: Reply) -> None:
    shelves: dict[str, Reply] = {"row": view.rows, "args": view.args, "result": view.results, "held": view.held}
    if kind == "row" and "alias" in value:
        view.owners[f"row:{rest}"] = value["alias"]
    elif kind in shelves:
        shelves[kind][rest] = value
    if kind in {"share", "ticket"}:
        view.owners[f"{kind}:{rest}"] = value
    if kind in {"line", "gate", "held", "delayed", "unknown"}:
        # Those of sorted sets come with their scores.
        for request_id in value if kind == "held" else value[::2]:
            view.place(request_id, f"{kind}:{rest}" if rest else kind)
    if kind == "line":
        queue, level, tool, tenant = rest.split(":", 3)
        view.standing[queue, f"{level}:{tool}"] += len(value) // 2
        view.tenants.setdefault(f"{queue}:{level}:{tool}", set()).add(tenant)
    if kind == "waiting":
        view.waiting |= {(rest, shelf): int(count) for shelf, count in value.items()}
    if kind == "rota":
        view.rotas[rest] = set(value[::2])
    if kind == "running":
        view.running[rest] = set(value)
    if kind in {"states", "counters"}:
        setattr(view, kind, {word: int(count) for word, count in value.items()})
    if kind == "events":
        view.seqs = [int(entry["seq"]) for entry in value]
        view.moves = [Move(*line.split("\t")) for entry in value for line in entry["moves"].split("\n")]
    if kind == "meta":
        view.meta = value
    if kind == "sessions":
        view.sessions = value[::2]


def faults(dump: Dump) -> list[str]:
    """Everything that is wrong with a ledger. Empty is right."""
    view = view_of(dump)
    return [
        *_conserved(view),
        *_lined_up(view),
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
        found, due = view.places.get(request_id, []), _due_place(row)
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


def _lined_up(view: View) -> Iterator[str]:
    """Q1: lines are counted, their tenants are in the rota, and a key is held by those who are held, and only by them."""
    if view.waiting != dict(view.standing):
        yield f"Q1 the queues count {view.waiting}, their lines hold {dict(view.standing)}"
    if view.rotas != view.tenants:
        yield f"Q1 the rotas name {view.rotas}, the lines {view.tenants}"
    held: dict[str, set[str]] = {}
    for request_id, row in view.rows.items():
        if row["state"] in HELD:
            for limit in row.get("limits", "").split("\n"):
                if limit.startswith("c\t"):
                    held.setdefault(limit.split("\t")[2], set()).add(request_id)
    if view.running != held:
        yield f"Q1 the keys are held by {view.running}, the rows say {held}"


def _due_place(row: dict[str, str]) -> list[str]:
    match row["state"]:
        case State.READY if row.get("queued") == "0":
            return []
        case State.READY if "gate" in row:
            return [f"gate:{row['gate']}"]
        case State.READY:
            return [f"line:{row.get('line') or 'default:2:' + row['tool'] + ':'}"]
        case State.UNKNOWN:
            return [f"unknown:{row['tool']}"]
        case State.DELAYED:
            return ["delayed"]
        case State.CLAIMED | State.ATTEMPTING:
            return [f"held:{row['session']}"]
        case _:
            return []


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

    def follow(self, move: Move, row: dict[str, str]) -> Iterator[str]:
        request_id = move.id
        if move.source != self.state:
            yield f"Q1 {request_id} moved from {move.source!r}, and was {self.state!r}"
        if self.state in TERMINAL and not (move.grants and self.state == State.FAILED):
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

    def end(self, request_id: str, row: dict[str, str]) -> Iterator[str]:
        if self.state != row["state"] or (self.fence != row["fence"] and row["fence"] not in _repairs(row)):
            yield f"M3 {request_id} is {row['state']} {row['fence']}, its events end at {self.state} {self.fence}"
        if _repairs(row):
            # What was filled in is the strictest, not what was.
            return
        told = (self.claims - self.released, self.deaths)
        if (int(row["attempts"]), int(row["deaths"])) != told:
            yield f"E10 {request_id} has {row['attempts']} attempts, {row['deaths']} deaths; its events tell of {told}"
        if self.deaths > int(row["max_deaths"]) or int(row["fails"]) > int(row["max_attempts"]):
            yield f"E10 {request_id} went on after {self.deaths} deaths and {row['fails']} failures"
        # What a caller asks for again is no retry of ours, and has no limit but the gate's.
        if told[0] - self.again >= int(row["max_deaths"]) + int(row["max_attempts"]):
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
            wanted = view.rows.get(view.owners.get(name, rest), {}).get("state") in TERMINAL
        else:
            yield f"S7 {name} is on no list"
            continue
        if mortal != wanted:
            yield f"S7 {name} has {'a' if mortal else 'no'} TTL"
