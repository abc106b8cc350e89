"""Calls of repair for each of its reply words."""

from __future__ import annotations

from kit.claims import claimed, repairing
from kit.ledger import MC, Ledger, ended
from kit.script_cases import AUTO, IDEM, case
from mycelium.leases.scripts import Command

FILLED = ("boundary", "class", "mode", "keep", "keep_result", "n", "attempts", "fails", "deaths", "max_attempts")
"""Fields that a row may lose and be healed of, beside its fence and its session."""


@case("ledger", "repaired", second="whole")  # what it lacked is there by now
def _repair__of_all_that_can_be_filled_in(ledger: Ledger) -> Command:
    fence = claimed(ledger, AUTO, boundary=MC).fence
    ledger.settle(ended("r1", fence, "unknown", boundary=MC))
    ledger.edit("HSET", ledger.keys.row("r1"), "attempts", "1", "first", "?")
    ledger.edit("HDEL", ledger.keys.row("r1"), *(field for field in FILLED if field != "attempts"))
    return repairing(AUTO)


@case("ledger", "repaired", second="whole")  # (the same)
def _repair__of_a_held_row_without_its_fence(ledger: Ledger) -> Command:
    claimed(ledger, AUTO, boundary=MC)
    ledger.edit("HDEL", ledger.keys.row("r1"), "fence")
    return repairing(AUTO)


@case("ledger", "repaired", second="whole")  # (the same)
def _repair__of_a_held_row_without_its_holder(ledger: Ledger) -> Command:
    claimed(ledger, IDEM, boundary=MC)
    ledger.edit("HDEL", ledger.keys.row("r1"), "session")
    ledger.edit("DEL", ledger.keys.held("s1"))
    return repairing(IDEM)


@case("ledger", "repaired", second="whole")  # (the same)
def _repair__under_another_id(ledger: Ledger) -> Command:
    claimed(ledger, AUTO, dispatch_id="d1")
    claimed(ledger, AUTO, "r2", dispatch_id="d1")
    ledger.edit("HDEL", ledger.keys.row("r1"), "mode")
    return repairing(AUTO, "r2")


@case("ledger", "whole", refusal=True)
def _repair__whole(ledger: Ledger) -> Command:
    claimed(ledger, AUTO)
    return repairing(AUTO)


@case("ledger", "missing", refusal=True)
def _repair__missing(ledger: Ledger) -> Command:
    return repairing(AUTO, "r9")


@case("ledger", "hopeless", refusal=True)
def _repair__without_a_state(ledger: Ledger) -> Command:
    claimed(ledger, AUTO)
    ledger.edit("HDEL", ledger.keys.row("r1"), "state")
    return repairing(AUTO)


@case("ledger", "hopeless", refusal=True)
def _repair__of_another_type(ledger: Ledger) -> Command:
    ledger.edit("SET", ledger.keys.row("r1"), "x")
    return repairing(AUTO)
