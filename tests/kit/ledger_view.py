"""A dump of a ledger, sorted by what it is: rows, where they stand, and every move that the events tell of."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from kit.ledger import Dump, Reply
from mycelium.ledger.states import HELD, BoundaryMode, State


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
    queues: set[str] = field(default_factory=set)
    gates: dict[str, list[str]] = field(default_factory=dict)
    full: set[str] = field(default_factory=set)
    timed: set[str] = field(default_factory=set)
    expiring: set[str] = field(default_factory=set)
    asked: dict[str, dict[str, str]] = field(default_factory=dict)

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
    shelves: dict[str, Reply] = {
        "row": view.rows,
        "args": view.args,
        "result": view.results,
        "held": view.held,
        "asked": view.asked,
    }
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
    _sort_queues(view, kind, rest, value)
    _sort_facts(view, kind, value)


def _sort_queues(view: View, kind: str, rest: str, value: Reply) -> None:
    match kind:
        case "line":
            queue, level, tool, tenant = rest.split(":", 3)
            view.standing[queue, f"{level}:{tool}"] += len(value) // 2
            view.tenants.setdefault(f"{queue}:{level}:{tool}", set()).add(tenant)
        case "waiting":
            view.waiting |= {(rest, shelf): int(count) for shelf, count in value.items()}
        case "rota":
            view.rotas[rest] = set(value[::2])
        case "running":
            view.running[rest] = set(value)
        case "gate":
            view.gates[rest] = value[::2]
        case "queues":
            view.queues = set(value)
        case "full" | "gates" | "expiring":
            {"full": view.full, "gates": view.timed, "expiring": view.expiring}[kind].update(value[::2])
        case _:
            pass


def _sort_facts(view: View, kind: str, value: Reply) -> None:
    if kind in {"states", "counters"}:
        setattr(view, kind, {word: int(count) for word, count in value.items()})
    if kind == "events":
        view.seqs = [int(entry["seq"]) for entry in value]
        view.moves = [Move(*line.split("\t")) for entry in value for line in entry["moves"].split("\n")]
    if kind == "meta":
        view.meta = value
    if kind == "sessions":
        view.sessions = value[::2]
