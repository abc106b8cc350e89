"""The face of Mycelium: `from mycelium import …` gives every public name and loads its module only when asked for it.

Nothing is imported here at import time: test runners and type checkers also load this file under the name of the folder
that the repository was cloned into, and nothing may load twice because of it.

A new public name stands in three places: the block for type checkers, `_HOMES` and `__all__`. tests/house compares the
three.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .actors.client import Client, ClientSettings, connect
    from .actors.context import CallContext, current_call
    from .actors.effect import record_external_operation, side_effect
    from .actors.inprocess.action_ledger import ActionLedger
    from .actors.inprocess.decorators import default_ledger, ledger, ledger_sync
    from .actors.inprocess.entry import LedgerEntry
    from .actors.inprocess.settings import LedgerSettings
    from .actors.inprocess.tasks import task_ledger, task_ledger_sync
    from .actors.job import Job
    from .actors.progress_call import progress
    from .actors.retry_after import retry_after_s
    from .actors.schedules.declaration import Schedule, schedule
    from .actors.scopes import execution_scope, handoff_scope
    from .actors.submissions import Submission
    from .actors.sync import SyncClient, SyncJob, connect_sync
    from .actors.terms import Isolation
    from .actors.tool import AsyncTool, Call, SyncTool, Tool, UndeclaredEffectWarning, tool
    from .actors.worker.life import run_worker
    from .actors.worker.settings import WorkerSettings
    from .leases.errors import (
        ArgsDriftError,
        BadArgumentsError,
        BadCallError,
        BoundaryError,
        DeadlinePassedError,
        IdentityConflictError,
        JobCancelledError,
        JobDeadError,
        JobFailedError,
        JobNotFoundError,
        JobUnknownError,
        LedgerAlreadyResolvedError,
        LedgerDeniedError,
        LedgerError,
        LedgerHardBlockError,
        LedgerOutcomeAlreadySetError,
        LedgerPollTimeoutError,
        LedgerReleaseRefusedError,
        LedgerSoftBlockError,
        LedgerWorkerAliveError,
        MissingRequestIdentityError,
        MyceliumError,
        NotExecuted,
        OutcomeError,
        OutcomeUnrecordedError,
        OwnerLostError,
        PayloadTooLargeError,
        ReceiptError,
        ReplyLostError,
        ResultTimeoutError,
        Retry,
        ServerBinaryMissingError,
        ServerError,
        ServerUnavailableError,
        ServerUnfitError,
        SessionLostError,
        SettingsError,
        Snooze,
        ToolCapabilityDeclarationError,
        ToolDeclarationError,
        UnknownToolError,
    )
    from .leases.session import SessionSettings
    from .leases.store import Store, StoreSettings, open_store
    from .ledger.about import About
    from .ledger.authorize import OperatorAction, OperatorAuthorizer, StaticTokenOperatorAuthorizer
    from .ledger.binding import Binding
    from .ledger.cancel import Cancelled, CancelReply
    from .ledger.cause import Cause
    from .ledger.decision import (
        Decision,
        DecisionIntent,
        DecisionSnapshot,
        PredicateVerdict,
        register_decision_predicate,
    )
    from .ledger.identity import Scope
    from .ledger.limits import Concurrency, Rate
    from .ledger.line import Priority
    from .ledger.listing import Listed, list_transitions, look_at
    from .ledger.mark_dead import mark_dead
    from .ledger.progress import Progress
    from .ledger.receipts.keys import ReceiptKeys, ReceiptSigner
    from .ledger.receipts.receipt import Receipt
    from .ledger.receipts.sinks import ReceiptSink, sink_of
    from .ledger.receipts.writer import OnFailure, ReceiptWriter, receipts_to
    from .ledger.record import Record
    from .ledger.release import Verified, release
    from .ledger.requeue import requeue
    from .ledger.ruling import Ruling, Why
    from .ledger.states import (
        Boundary,
        BoundaryMode,
        Capability,
        Drift,
        EffectClass,
        Gate,
        Liveness,
        RetryPermission,
        Spendability,
        State,
    )
    from .ledger.submit import Retention
    from .ledger.views import EffectState, TerminalOutcome, effect_state, terminal_outcome
    from .reconcilers.protocol import AsyncReconciler, Lookup, Reconciler
    from .reconcilers.verdict import Verdict, VerdictWord

_HOMES = {
    "About": "ledger.about",
    "ActionLedger": "actors.inprocess.action_ledger",
    "ArgsDriftError": "leases.errors",
    "AsyncReconciler": "reconcilers.protocol",
    "AsyncTool": "actors.tool",
    "BadArgumentsError": "leases.errors",
    "BadCallError": "leases.errors",
    "Binding": "ledger.binding",
    "Boundary": "ledger.states",
    "BoundaryError": "leases.errors",
    "BoundaryMode": "ledger.states",
    "Call": "actors.tool",
    "CallContext": "actors.context",
    "CancelReply": "ledger.cancel",
    "Cancelled": "ledger.cancel",
    "Capability": "ledger.states",
    "Cause": "ledger.cause",
    "Client": "actors.client",
    "ClientSettings": "actors.client",
    "Concurrency": "ledger.limits",
    "DeadlinePassedError": "leases.errors",
    "Decision": "ledger.decision",
    "DecisionIntent": "ledger.decision",
    "DecisionSnapshot": "ledger.decision",
    "Drift": "ledger.states",
    "EffectClass": "ledger.states",
    "EffectState": "ledger.views",
    "Gate": "ledger.states",
    "IdentityConflictError": "leases.errors",
    "Isolation": "actors.terms",
    "Job": "actors.job",
    "JobCancelledError": "leases.errors",
    "JobDeadError": "leases.errors",
    "JobFailedError": "leases.errors",
    "JobNotFoundError": "leases.errors",
    "JobUnknownError": "leases.errors",
    "LedgerAlreadyResolvedError": "leases.errors",
    "LedgerDeniedError": "leases.errors",
    "LedgerEntry": "actors.inprocess.entry",
    "LedgerError": "leases.errors",
    "LedgerHardBlockError": "leases.errors",
    "LedgerOutcomeAlreadySetError": "leases.errors",
    "LedgerPollTimeoutError": "leases.errors",
    "LedgerReleaseRefusedError": "leases.errors",
    "LedgerSettings": "actors.inprocess.settings",
    "LedgerSoftBlockError": "leases.errors",
    "LedgerWorkerAliveError": "leases.errors",
    "Listed": "ledger.listing",
    "Liveness": "ledger.states",
    "Lookup": "reconcilers.protocol",
    "MissingRequestIdentityError": "leases.errors",
    "MyceliumError": "leases.errors",
    "NotExecuted": "leases.errors",
    "OnFailure": "ledger.receipts.writer",
    "OperatorAction": "ledger.authorize",
    "OperatorAuthorizer": "ledger.authorize",
    "OutcomeError": "leases.errors",
    "OutcomeUnrecordedError": "leases.errors",
    "OwnerLostError": "leases.errors",
    "PayloadTooLargeError": "leases.errors",
    "PredicateVerdict": "ledger.decision",
    "Priority": "ledger.line",
    "Progress": "ledger.progress",
    "Rate": "ledger.limits",
    "Receipt": "ledger.receipts.receipt",
    "ReceiptError": "leases.errors",
    "ReceiptKeys": "ledger.receipts.keys",
    "ReceiptSigner": "ledger.receipts.keys",
    "ReceiptSink": "ledger.receipts.sinks",
    "ReceiptWriter": "ledger.receipts.writer",
    "Reconciler": "reconcilers.protocol",
    "Record": "ledger.record",
    "ReplyLostError": "leases.errors",
    "ResultTimeoutError": "leases.errors",
    "Retention": "ledger.submit",
    "Retry": "leases.errors",
    "RetryPermission": "ledger.states",
    "Ruling": "ledger.ruling",
    "Schedule": "actors.schedules.declaration",
    "Scope": "ledger.identity",
    "ServerBinaryMissingError": "leases.errors",
    "ServerError": "leases.errors",
    "ServerUnavailableError": "leases.errors",
    "ServerUnfitError": "leases.errors",
    "SessionLostError": "leases.errors",
    "SessionSettings": "leases.session",
    "SettingsError": "leases.errors",
    "Snooze": "leases.errors",
    "Spendability": "ledger.states",
    "State": "ledger.states",
    "StaticTokenOperatorAuthorizer": "ledger.authorize",
    "Store": "leases.store",
    "StoreSettings": "leases.store",
    "Submission": "actors.submissions",
    "SyncClient": "actors.sync",
    "SyncJob": "actors.sync",
    "SyncTool": "actors.tool",
    "TerminalOutcome": "ledger.views",
    "Tool": "actors.tool",
    "ToolCapabilityDeclarationError": "leases.errors",
    "ToolDeclarationError": "leases.errors",
    "UndeclaredEffectWarning": "actors.tool",
    "UnknownToolError": "leases.errors",
    "Verdict": "reconcilers.verdict",
    "VerdictWord": "reconcilers.verdict",
    "Verified": "ledger.release",
    "Why": "ledger.ruling",
    "WorkerSettings": "actors.worker.settings",
    "connect": "actors.client",
    "connect_sync": "actors.sync",
    "current_call": "actors.context",
    "default_ledger": "actors.inprocess.decorators",
    "effect_state": "ledger.views",
    "execution_scope": "actors.scopes",
    "handoff_scope": "actors.scopes",
    "ledger": "actors.inprocess.decorators",
    "ledger_sync": "actors.inprocess.decorators",
    "list_transitions": "ledger.listing",
    "look_at": "ledger.listing",
    "mark_dead": "ledger.mark_dead",
    "open_store": "leases.store",
    "progress": "actors.progress_call",
    "receipts_to": "ledger.receipts.writer",
    "record_external_operation": "actors.effect",
    "register_decision_predicate": "ledger.decision",
    "release": "ledger.release",
    "requeue": "ledger.requeue",
    "retry_after_s": "actors.retry_after",
    "run_worker": "actors.worker.life",
    "schedule": "actors.schedules.declaration",
    "side_effect": "actors.effect",
    "sink_of": "ledger.receipts.sinks",
    "task_ledger": "actors.inprocess.tasks",
    "task_ledger_sync": "actors.inprocess.tasks",
    "terminal_outcome": "ledger.views",
    "tool": "actors.tool",
}

# Packed, so that the face fits into one file of the usual length.
# fmt: off
__all__ = [
    "About", "ActionLedger", "ArgsDriftError", "AsyncReconciler", "AsyncTool", "BadArgumentsError", "BadCallError",
    "Binding", "Boundary", "BoundaryError", "BoundaryMode", "Call", "CallContext", "CancelReply", "Cancelled",
    "Capability", "Cause", "Client", "ClientSettings", "Concurrency", "DeadlinePassedError", "Decision",
    "DecisionIntent", "DecisionSnapshot", "Drift", "EffectClass", "EffectState", "Gate", "IdentityConflictError",
    "Isolation", "Job", "JobCancelledError", "JobDeadError", "JobFailedError", "JobNotFoundError", "JobUnknownError",
    "LedgerAlreadyResolvedError", "LedgerDeniedError", "LedgerEntry", "LedgerError", "LedgerHardBlockError",
    "LedgerOutcomeAlreadySetError", "LedgerPollTimeoutError", "LedgerReleaseRefusedError", "LedgerSettings",
    "LedgerSoftBlockError", "LedgerWorkerAliveError", "Listed", "Liveness", "Lookup", "MissingRequestIdentityError",
    "MyceliumError", "NotExecuted", "OnFailure", "OperatorAction", "OperatorAuthorizer", "OutcomeError",
    "OutcomeUnrecordedError", "OwnerLostError", "PayloadTooLargeError", "PredicateVerdict", "Priority", "Progress",
    "Rate", "Receipt", "ReceiptError", "ReceiptKeys", "ReceiptSigner", "ReceiptSink", "ReceiptWriter", "Reconciler",
    "Record", "ReplyLostError", "ResultTimeoutError", "Retention", "Retry", "RetryPermission", "Ruling", "Schedule",
    "Scope", "ServerBinaryMissingError", "ServerError", "ServerUnavailableError", "ServerUnfitError",
    "SessionLostError", "SessionSettings", "SettingsError", "Snooze", "Spendability", "State",
    "StaticTokenOperatorAuthorizer", "Store", "StoreSettings", "Submission", "SyncClient", "SyncJob", "SyncTool",
    "TerminalOutcome", "Tool", "ToolCapabilityDeclarationError", "ToolDeclarationError", "UndeclaredEffectWarning",
    "UnknownToolError", "Verdict", "VerdictWord", "Verified", "Why", "WorkerSettings", "connect", "connect_sync",
    "current_call", "default_ledger", "effect_state", "execution_scope", "handoff_scope", "ledger", "ledger_sync",
    "list_transitions", "look_at", "mark_dead", "open_store", "progress", "receipts_to", "record_external_operation",
    "register_decision_predicate", "release", "requeue", "retry_after_s", "run_worker", "schedule", "side_effect",
    "sink_of", "task_ledger", "task_ledger_sync", "terminal_outcome", "tool",
]
# fmt: on


def __getattr__(name: str) -> object:
    """Load the module that a public name lives in, and keep the name here."""
    home = _HOMES.get(name)
    if home is None:
        message = f"module 'mycelium' has no public name {name!r}"
        raise AttributeError(message)
    found: object = getattr(importlib.import_module(f"mycelium.{home}"), name)
    # `ledger` is a package too, and its import has put it here: called, it is the decorator.
    return globals().setdefault(name, found)


def __dir__() -> list[str]:
    return [*__all__]
