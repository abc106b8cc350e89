"""Calls of the script that keeps a worker's tree of actors, for each of its reply words."""

from __future__ import annotations

from kit.ledger import Ledger
from kit.script_cases import case
from mycelium.leases.scripts import Command
from mycelium.ledger.trees import tell_script


@case("ledger", "told")
def _tell_tree__told(ledger: Ledger) -> Command:
    del ledger
    return tell_script(session="s1", every_ms=5000, keep_ms=120_000, body="[]")


@case("ledger", "gone", refusal=True)
def _tell_tree__gone(ledger: Ledger) -> Command:
    del ledger
    return tell_script(session="s2", every_ms=5000, keep_ms=120_000, body="[]")
