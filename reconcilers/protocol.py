"""What an adapter is: read-only code that asks one provider what became of one call.

An adapter runs in a tool host with a time limit, and it may be asked the same question many times, also in parallel: it
must never cause an effect. What raises, takes too long or answers with anything but a `Verdict` counts as "unknown".
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

from .verdict import Verdict


@dataclass(frozen=True, slots=True)
class Lookup:
    """The call that is in doubt.

    Attributes:
        request_id: the transition.
        effect_id: the dedupe identity of the effect.
        tool: the tool's name.
        idempotency_key: what the tool sent to the provider as its key, if it has one; else None.
        external_operation_ref: what `record_external_operation` stored; else None.
        arguments: the call's arguments as JSON values, defaults filled in.
        unknown_since_s: seconds since the last moment at which the call can have been sent.
        attempt: number of the attempt that is in doubt, from 1.
    """

    request_id: str
    effect_id: str
    tool: str
    # Arguments and keys may be secrets of the caller's, and a repr ends up in logs.
    idempotency_key: str | None = field(repr=False)
    external_operation_ref: str | None
    arguments: dict[str, object] = field(repr=False)
    unknown_since_s: float
    attempt: int


@runtime_checkable
class Reconciler(Protocol):
    """An adapter that blocks; it runs in a thread.

    Attributes:
        lag_s: seconds after which an effect that exists is certain to be visible in a look-up.
    """

    lag_s: float

    def reconcile(self, lookup: Lookup, /) -> Verdict:
        """Ask the provider."""
        ...


@runtime_checkable
class AsyncReconciler(Protocol):
    """An adapter that awaits; where an adapter has both methods, this one is used.

    Attributes:
        lag_s: seconds after which an effect that exists is certain to be visible in a look-up.
    """

    lag_s: float

    async def reconcile_async(self, lookup: Lookup, /) -> Verdict:
        """Ask the provider."""
        ...


Adapter = Reconciler | AsyncReconciler
