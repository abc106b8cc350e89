"""Calls of the script that moves schedules on, for each of its reply words."""

from __future__ import annotations

from kit.ledger import NOON_MS, Ledger
from kit.script_cases import case
from mycelium.leases.scripts import Command
from mycelium.ledger.schedules import StepItem, advance_script

NEW, KNOWN = StepItem("new 0 3 * * * UTC", "0", "0"), "known every 0:05:00"


def _known(ledger: Ledger) -> None:
    ledger.edit("HSET", ledger.keys.schedules(), KNOWN, f"{NOON_MS} {NOON_MS}")


@case("ledger", "ok")
def _advance_if_later__two(ledger: Ledger) -> Command:
    _known(ledger)
    return advance_script(step=[NEW, StepItem(KNOWN, str(NOON_MS + 300_000), str(NOON_MS + 300_000))])


@case("ledger", "ok", refusal=True)
def _advance_if_later__never_back(ledger: Ledger) -> Command:
    _known(ledger)
    return advance_script(step=[StepItem(KNOWN, str(NOON_MS - 300_000), str(NOON_MS - 300_000))])
