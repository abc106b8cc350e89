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
    from .actors.context import CallContext, current_call
    from .actors.effect import record_external_operation, side_effect
    from .actors.tool import AsyncTool, Call, SyncTool, Tool, UndeclaredEffectWarning, tool
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
    from .ledger.states import Boundary, BoundaryMode, EffectClass, State
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
    "EffectClass": "ledger.states",
    "IdentityConflictError": "leases.errors",
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
    "ReplyLostError": "leases.errors",
    "ResultTimeoutError": "leases.errors",
    "ServerBinaryMissingError": "leases.errors",
    "ServerError": "leases.errors",
    "ServerUnavailableError": "leases.errors",
    "ServerUnfitError": "leases.errors",
    "SettingsError": "leases.errors",
    "State": "ledger.states",
    "SyncTool": "actors.tool",
    "Tool": "actors.tool",
    "ToolDeclarationError": "leases.errors",
    "UndeclaredEffectWarning": "actors.tool",
    "UnknownToolError": "leases.errors",
    "Verdict": "reconcilers.verdict",
    "VerdictWord": "reconcilers.verdict",
    "current_call": "actors.context",
    "record_external_operation": "actors.effect",
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
    "EffectClass",
    "IdentityConflictError",
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
    "ReplyLostError",
    "ResultTimeoutError",
    "ServerBinaryMissingError",
    "ServerError",
    "ServerUnavailableError",
    "ServerUnfitError",
    "SettingsError",
    "State",
    "SyncTool",
    "Tool",
    "ToolDeclarationError",
    "UndeclaredEffectWarning",
    "UnknownToolError",
    "Verdict",
    "VerdictWord",
    "current_call",
    "record_external_operation",
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
