"""What callers and operators may ask at random: cancel, requeue, pause, strike; and how all comes to rest."""

from __future__ import annotations

import hypothesis.strategies as st

from kit.asking import cancelling, pausing, requeueing, striking, telling
from kit.ledger import KINDS, TTL_MS, ended, grants, steady
from kit.schedule import GRACES, QUEUES, TOOLS, Draw, Schedule
from mycelium.ledger.facets import facet
from mycelium.ledger.states import HELD, TERMINAL, State
from mycelium.ledger.turn import EndedItem

CALM_TURNS, CALM_MS = 90, 10_000
"""So many turns, so far apart, are enough for eight jobs to be claimed, whatever they wait for."""


class Ordering(Schedule):
    """Callers who change their mind, and operators."""

    def cancel(self, draw: Draw) -> None:
        """A cancel is a request: only what nobody holds, and nothing sent, is cancelled at once."""
        request_id = self.some_row(draw, *State) if draw(st.booleans()) else self.some_row(draw, "ready", *HELD)
        if request_id is None:
            return
        row, before = self.ledger.row(request_id), self.ledger.dump()
        word = self.ledger.run(cancelling(self.ledger, request_id))[0]
        if row["state"] in TERMINAL:
            assert word == "ended"
            assert steady(self.ledger.dump()) == steady(before)
            return
        free = "unknown" if row["state"] == State.UNKNOWN or row.get("doubt") == "1" else "cancelled"
        assert word == ("asked" if row["state"] in HELD else free)
        self.world.permission.cancelled.add(request_id)

    def requeue(self, draw: Draw) -> None:
        """Only what ended without an effect; its history stays."""
        request_id = self.some_row(draw, "dead", "cancelled", "failed") or self.some_row(draw, *State)
        if request_id is None:
            return
        row, before = self.ledger.row(request_id), self.ledger.dump()
        word = self.ledger.run(requeueing(self.ledger, request_id))[0]
        if row["state"] in TERMINAL - {State.COMPLETED}:
            assert word == "requeued"
            self.world.permission.cancelled.discard(request_id)
            assert {name: row[name] for name in row if name[0] == "h"}.items() <= self.ledger.row(request_id).items()
        else:
            assert word == ("completed" if row["state"] == State.COMPLETED else "open")
            assert steady(self.ledger.dump()) == steady(before)

    def pause(self, draw: Draw) -> None:
        target = f"queue:{draw(QUEUES)}" if draw(st.booleans()) else f"tool:{draw(TOOLS)}"
        on = draw(st.sampled_from([True, False, False]))
        if not on and self.world.permission.paused:
            target = draw(st.sampled_from(sorted(self.world.permission.paused)))
        self.ledger.run(pausing(target, on=on))
        self._note(self.world.permission.paused, target, on=on)

    def strike(self, draw: Draw) -> None:
        on, value = draw(st.sampled_from([True, False, False])), draw(st.sampled_from([1, 1, 2]))
        request_id = self.some_row(draw, *State)
        if request_id is None:
            return
        tool = self.tools[request_id].partition("/")[0]
        self.ledger.run(striking(tool, "value", value, on=on))
        self._note(self.world.permission.struck, f"{tool}:{facet('value', value)}", on=on)

    def _note(self, orders: set[str], order: str, *, on: bool) -> None:
        if on:
            orders.add(order)
        else:
            orders.discard(order)

    def tell(self, draw: Draw) -> None:
        """Progress moves nothing, whoever tells it."""
        attempt = self.attempt(draw)
        if attempt is None:
            return
        row = self.ledger.row(attempt.id)
        told = self.ledger.run(telling((attempt.id, attempt.fence), session=attempt.session))[1]
        mine = (row["fence"], row["session"], row["state"]) == (attempt.fence, attempt.session, "attempting")
        assert told == ("told" if mine else "stale")
        assert {**self.ledger.row(attempt.id), "progress": ""} == {**row, "progress": ""}

    # ── the end: nothing waits for ever ──────────────────────────────────────────────────────────────────────────────

    def calm_down(self) -> None:
        """Faults end, orders are lifted; from then on turns alone claim all that is ready, without a sweep (Q2)."""
        for target in sorted(self.world.permission.paused):
            self.ledger.run(pausing(target, on=False))
        for tool in KINDS:
            for value in (1, 2):
                self.ledger.run(striking(tool, "value", value, on=False))
        self.ledger.now_ms += 3 * TTL_MS
        for name in GRACES:
            self.expire(name)
        self.ledger.open("calm")
        over: list[EndedItem] = []
        for _ in range(CALM_TURNS):
            assert self.ledger.renew("calm") == "renewed"
            granted = grants(self.ledger.run(self.ledger.turning(3, *over, session="calm", queues=("default", "mail"))))
            over = [ended(one.id, one.fence, "failed", body=b"") for one in granted]
            if not (over or self._left()):
                return
            self.ledger.now_ms += CALM_MS
        assert self._left() == []

    def _left(self) -> list[dict[str, str]]:
        rows = [self.ledger.row(request_id) for request_id in sorted(self.tools)]
        return [row for row in rows if row.get("state") in {"ready", "delayed", *HELD} and row.get("queued") != "0"]
