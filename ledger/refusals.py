"""What a caller is told when its call is refused for the identity that it names: the same sentences in every way in."""

from __future__ import annotations

from ..leases.errors import ArgsDriftError, IdentityConflictError, JobNotFoundError, LedgerHardBlockError
from .states import Drift


def not_on_record(namespace: str, request_id: str, next_step: str) -> JobNotFoundError:
    """Nothing is on record under the request id."""
    return JobNotFoundError(f"No job {request_id!r} is on record in namespace {namespace!r}.", next_step=next_step)


def conflicting(request_id: str, state: str) -> IdentityConflictError:
    """The request id names another effect (K3)."""
    what = f"Request id {request_id!r} is already the identity of another effect: another tool, class or arguments."
    next_step = "Nothing was dispatched for it. Use a new request id for a new intent, or repeat the first call."
    return IdentityConflictError(what, state=state, next_step=next_step)


def drifted(tool: str, first: str, state: str, drift: Drift) -> ArgsDriftError | LedgerHardBlockError:
    """The dispatch was used before with other arguments: softly, for the caller to correct, or hard, for a person."""
    what = f"The same dispatch of {tool!r} is on record with other arguments, as {first!r}."
    if drift is Drift.HARD:
        next_step = "Nothing was dispatched. A person has to look how the arguments of a replay came to change."
        return LedgerHardBlockError(what, state=state, next_step=next_step, request_id=first, why="args_drift")
    next_step = "Nothing was dispatched. Repeat it with the first arguments, or give a new dispatch id for a new call."
    return ArgsDriftError(what, state=state, next_step=next_step)
