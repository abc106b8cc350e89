"""The face of Mycelium: `from mycelium import …` gives every public name and loads its module only when asked for it.

Nothing is imported here at import time: test runners and type checkers also load this file under the name of the folder
that the repository was cloned into, and nothing may load twice because of it.

A new public name gets three lines: one in the block for type checkers, one in `_HOMES`, one in `__all__`. tests/house
compares the three.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .actors.client import Client, ClientSettings, connect
    from .actors.context import CallContext, current_call
    from .actors.effect import record_external_operation, side_effect
    from .actors.job import Job
    from .actors.settings import WorkerSettings
    from .actors.submissions import Submission
    from .actors.sync import SyncClient, SyncJob, connect_sync
    from .actors.tool import AsyncTool, Call, SyncTool, Tool, UndeclaredEffectWarning, tool
    from .actors.worker import run_worker
    from .leases.errors import (
        BadArgumentsError,
        BadCallError,
        BoundaryError,
        IdentityConflictError,
        JobCancelledError,
        JobDeadError,
        JobFailedError,
        JobNotFoundError,
        JobUnknownError,
        MyceliumError,
        NotExecuted,
        OutcomeError,
        PayloadTooLargeError,
        ReplyLostError,
        ResultTimeoutError,
        ServerBinaryMissingError,
        ServerError,
        ServerUnavailableError,
        ServerUnfitError,
        SettingsError,
        ToolDeclarationError,
        UnknownToolError,
    )
    from .ledger.record import Record
    from .ledger.states import Boundary, BoundaryMode, EffectClass, State
    from .ledger.submit import Retention
    from .reconcilers.protocol import AsyncReconciler, Lookup, Reconciler
    from .reconcilers.verdict import Verdict, VerdictWord

_HOMES = {
    "AsyncReconciler": "reconcilers.protocol",
    "AsyncTool": "actors.tool",
    "BadArgumentsError": "leases.errors",
    "BadCallError": "leases.errors",
    "Boundary": "ledger.states",
    "BoundaryError": "leases.errors",
    "BoundaryMode": "ledger.states",
    "Call": "actors.tool",
    "CallContext": "actors.context",
    "Client": "actors.client",
    "ClientSettings": "actors.client",
    "EffectClass": "ledger.states",
    "IdentityConflictError": "leases.errors",
    "Job": "actors.job",
    "JobCancelledError": "leases.errors",
    "JobDeadError": "leases.errors",
    "JobFailedError": "leases.errors",
    "JobNotFoundError": "leases.errors",
    "JobUnknownError": "leases.errors",
    "Lookup": "reconcilers.protocol",
    "MyceliumError": "leases.errors",
    "NotExecuted": "leases.errors",
    "OutcomeError": "leases.errors",
    "PayloadTooLargeError": "leases.errors",
    "Reconciler": "reconcilers.protocol",
    "Record": "ledger.record",
    "ReplyLostError": "leases.errors",
    "ResultTimeoutError": "leases.errors",
    "Retention": "ledger.submit",
    "ServerBinaryMissingError": "leases.errors",
    "ServerError": "leases.errors",
    "ServerUnavailableError": "leases.errors",
    "ServerUnfitError": "leases.errors",
    "SettingsError": "leases.errors",
    "State": "ledger.states",
    "Submission": "actors.submissions",
    "SyncClient": "actors.sync",
    "SyncJob": "actors.sync",
    "SyncTool": "actors.tool",
    "Tool": "actors.tool",
    "ToolDeclarationError": "leases.errors",
    "UndeclaredEffectWarning": "actors.tool",
    "UnknownToolError": "leases.errors",
    "Verdict": "reconcilers.verdict",
    "VerdictWord": "reconcilers.verdict",
    "WorkerSettings": "actors.settings",
    "connect": "actors.client",
    "connect_sync": "actors.sync",
    "current_call": "actors.context",
    "record_external_operation": "actors.effect",
    "run_worker": "actors.worker",
    "side_effect": "actors.effect",
    "tool": "actors.tool",
}

__all__ = [
    "AsyncReconciler",
    "AsyncTool",
    "BadArgumentsError",
    "BadCallError",
    "Boundary",
    "BoundaryError",
    "BoundaryMode",
    "Call",
    "CallContext",
    "Client",
    "ClientSettings",
    "EffectClass",
    "IdentityConflictError",
    "Job",
    "JobCancelledError",
    "JobDeadError",
    "JobFailedError",
    "JobNotFoundError",
    "JobUnknownError",
    "Lookup",
    "MyceliumError",
    "NotExecuted",
    "OutcomeError",
    "PayloadTooLargeError",
    "Reconciler",
    "Record",
    "ReplyLostError",
    "ResultTimeoutError",
    "Retention",
    "ServerBinaryMissingError",
    "ServerError",
    "ServerUnavailableError",
    "ServerUnfitError",
    "SettingsError",
    "State",
    "Submission",
    "SyncClient",
    "SyncJob",
    "SyncTool",
    "Tool",
    "ToolDeclarationError",
    "UndeclaredEffectWarning",
    "UnknownToolError",
    "Verdict",
    "VerdictWord",
    "WorkerSettings",
    "connect",
    "connect_sync",
    "current_call",
    "record_external_operation",
    "run_worker",
    "side_effect",
    "tool",
]


def __getattr__(name: str) -> object:
    """Load the module that a public name lives in, and keep the name here."""
    home = _HOMES.get(name)
    if home is None:
        message = f"module 'mycelium' has no public name {name!r}"
        raise AttributeError(message)
    found: object = getattr(importlib.import_module(f"mycelium.{home}"), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return [*__all__]
