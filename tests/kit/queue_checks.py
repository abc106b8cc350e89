"""What must hold of the queues at every moment: lines, gates, the keys of limits, and what holders are asked."""

from __future__ import annotations

from collections.abc import Iterator

from kit.ledger_view import View
from mycelium.ledger.states import HELD, TERMINAL, State

AHEAD = 100_000
"""So many submissions a level counts for, under a gate."""


def due_place(row: dict[str, str]) -> list[str]:
    """Where a row is to be found."""
    state = row["state"]
    if state == State.READY:
        if row.get("queued") == "0":
            return []
        return [f"gate:{row['gate']}" if "gate" in row else f"line:{line_of(row)}"]
    held = f"held:{row['session']}"
    places = {State.UNKNOWN: f"unknown:{row['tool']}", State.DELAYED: "delayed", **dict.fromkeys(HELD, held)}
    return [places[State(state)]] if state in places else []


def line_of(row: dict[str, str]) -> str:
    return row.get("line") or f"default:2:{row['tool']}:"


def keys_of(row: dict[str, str]) -> dict[str, int]:
    """The concurrency keys of a row, and how many may be held of each."""
    limits = [limit.split("\t") for limit in row.get("limits", "").split("\n")]
    return {limit[2]: int(limit[1]) for limit in limits if limit[0] == "c"}


def lined_up(view: View) -> Iterator[str]:
    """Q1: lines are counted, their tenants are in the rota, and each key is held by those who are held."""
    if view.waiting != dict(view.standing):
        yield f"Q1 the queues count {view.waiting}, their lines hold {dict(view.standing)}"
    if view.rotas != view.tenants:
        yield f"Q1 the rotas name {view.rotas}, the lines {view.tenants}"
    if {queue for queue, _ in view.waiting} - view.queues:
        yield f"Q1 jobs wait in {view.waiting}, and the queues that are known are {view.queues}"
    held: dict[str, set[str]] = {}
    for request_id, row in view.rows.items():
        if row["state"] in HELD:
            for key in keys_of(row):
                held.setdefault(key, set()).add(request_id)
    if view.running != held:
        yield f"Q1 the keys are held by {view.running}, the rows say {held}"


def limited(view: View) -> Iterator[str]:
    """No key is held by more than it may, no gate is forgotten, and nobody is asked for what it does not hold."""
    for key, holders in view.running.items():
        most = max((keys_of(view.rows[holder]).get(key, 0) for holder in holders if holder in view.rows), default=0)
        if len(holders) > most:
            yield f"Q8 {key} is held by {len(holders)}, and {most} may hold it"
    for gate, waiting in view.gates.items():
        kind = gate.partition(":")[0]
        known = {"c": view.full, "r": view.timed}.get(kind)
        if known is not None and gate not in known:
            yield f"Q2 {waiting} wait under {gate}, where nobody looks"
    yield from _timed(view)


def _timed(view: View) -> Iterator[str]:
    for request_id, row in view.rows.items():
        times = {name for name in ("start_by", "deadline") if name in row}
        if row["state"] in TERMINAL and request_id in view.expiring:
            yield f"Q1 {request_id} is {row['state']}, and something is to end it"
        if row["state"] in {State.READY, State.DELAYED} and "deadline" in times and request_id not in view.expiring:
            yield f"Q2 {request_id} has a deadline, and nobody looks at it"
    for session, asked in view.asked.items():
        for request_id, fence in asked.items():
            row = view.rows.get(request_id, {})
            if (row.get("session"), row.get("fence")) != (session, fence):
                yield f"Q1 {session} is asked to cancel {request_id}, and does not hold it"
    for request_id, row in view.rows.items():
        if row["state"] in HELD and "cancel" in row and request_id not in view.asked.get(row["session"], {}):
            yield f"Q1 {request_id} is to be cancelled, and {row['session']} is not asked"
