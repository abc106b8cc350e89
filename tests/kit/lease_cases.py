"""Calls of the scripts of the floor below the ledger, for each of their reply words."""

from __future__ import annotations

from kit.ledger import TTL_MS, Ledger
from kit.script_cases import AUTO, case
from mycelium.leases.epoch import found
from mycelium.leases.scripts import Command
from mycelium.leases.session import close_session, describe_session, open_session, renew_session


def _run_id(ledger: Ledger) -> str:
    return ledger.row_of_meta()["run_id"]


@case("leases", "founded", second="adopted")  # the same epoch and fence: only the word tells that it was done
def _found__founded(ledger: Ledger) -> Command:
    run_id = _run_id(ledger)
    ledger.drop()
    return found(run_id=run_id)


@case("leases", "adopted", refusal=True)
def _found__adopted(ledger: Ledger) -> Command:
    return found(run_id=_run_id(ledger))


@case("leases", "advanced", second="adopted")  # (the same)
def _found__advanced(ledger: Ledger) -> Command:
    run_id = _run_id(ledger)
    ledger.edit("HSET", ledger.keys.meta(), "run_id", "another")
    return found(run_id=run_id)


@case("leases", "schema", refusal=True)
def _found__schema(ledger: Ledger) -> Command:
    ledger.edit("HSET", ledger.keys.meta(), "schema", "0")
    return found(run_id=_run_id(ledger))


@case("leases", "opened")
def _open_session__opened(ledger: Ledger) -> Command:
    return open_session(session="s2", epoch=1, boot="b", ttl_ms=TTL_MS, grace_ms=0, name="w", info="{}")


@case("leases", "epoch", refusal=True)
def _open_session__epoch(ledger: Ledger) -> Command:
    return open_session(session="s2", epoch=2, boot="b", ttl_ms=TTL_MS, grace_ms=0, name="w", info="{}")


@case("leases", "taken", refusal=True)
def _open_session__taken(ledger: Ledger) -> Command:
    return open_session(session="s1", epoch=1, boot="c", ttl_ms=TTL_MS, grace_ms=0, name="w", info="{}")


@case("leases", "renewed")
def _renew_session__renewed(ledger: Ledger) -> Command:
    return renew_session(session="s1", epoch=1, ttl_ms=2 * TTL_MS)


@case("leases", "lost", refusal=True)
def _renew_session__lost(ledger: Ledger) -> Command:
    return renew_session(session="s2", epoch=1, ttl_ms=TTL_MS)


@case("leases", "epoch", refusal=True)
def _renew_session__epoch(ledger: Ledger) -> Command:
    return renew_session(session="s1", epoch=2, ttl_ms=TTL_MS)


@case("leases", "told")
def _describe_session__told(ledger: Ledger) -> Command:
    return describe_session(session="s1", info='{"quiet": true}')


@case("leases", "gone", refusal=True)
def _describe_session__gone(ledger: Ledger) -> Command:
    del ledger
    return describe_session(session="s2", info="{}")


@case("leases", "closed", second="gone")  # the row that could remember is what was deleted
def _close_session__closed(ledger: Ledger) -> Command:
    return close_session(session="s1")


@case("leases", "holding", refusal=True)
def _close_session__holding(ledger: Ledger) -> Command:
    ledger.granted(AUTO)
    return close_session(session="s1")


@case("leases", "gone", refusal=True)
def _close_session__gone(ledger: Ledger) -> Command:
    return close_session(session="s2")
