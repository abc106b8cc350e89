"""Ledgers in process with short times."""

from __future__ import annotations

from mycelium.actors.inprocess.action_ledger import ActionLedger
from mycelium.actors.inprocess.settings import LedgerSettings
from mycelium.leases.session import SessionSettings

TTL_S = 1.0
GRACE_S = 0.4
QUICK = SessionSettings(ttl_s=TTL_S, renew_every_s=0.2, call_timeout_s=0.2, margin_s=0.2, grace_s=GRACE_S)


def open_ledger(url: str, namespace: str) -> ActionLedger:
    """Open one."""
    settings = LedgerSettings(session=QUICK, poll_timeout_s=15.0, poll_s=0.1)
    return ActionLedger(url, namespace=namespace, settings=settings)
