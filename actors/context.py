"""What the running tool call is; it travels in a context variable, into threads as well."""

from __future__ import annotations

import asyncio
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Protocol

from ..leases.errors import LeaseError
from ..ledger.states import EffectClass


@dataclass(frozen=True, slots=True)
class CallContext:
    """The call that is running here.

    Attributes:
        request_id: the transition.
        effect_id: the dedupe identity of the effect.
        attempt: number of this attempt, from 1.
        fence: its fence, as digits.
        tool: the tool's name.
        idempotency_key: what to send to the provider as its key; the same for every attempt of this effect.
        deadline_s: seconds left until the attempt's timeout, at the moment of asking.
    """

    request_id: str
    effect_id: str
    attempt: int
    fence: str
    tool: str
    idempotency_key: str
    deadline_s: float


class RunningCall(Protocol):
    """The attempt that a tool body runs under, as its host knows it."""

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        """The loop that marks are sent from."""
        ...

    @property
    def effect_class(self) -> EffectClass:
        """What kind of effect the running tool is declared with."""
        ...

    def needs_mark(self) -> bool:
        """Whether an effect that starts now needs a mark first.

        Raises:
            BoundaryError: no effect may start here.
        """
        ...

    def mark_within_s(self) -> float:
        """How many seconds a mark may be waited for."""
        ...

    def describe(self) -> CallContext:
        """The call as its tool may see it."""
        ...

    async def mark(self, ref: str | None) -> None:
        """Write `maybe_crossed` (and a provider's reference) durably.

        Raises:
            BoundaryError: refused, unreachable, or the attempt has ended.
        """
        ...

    def note(self, ref: str) -> None:
        """Keep a provider's reference, to travel with the settlement as well."""
        ...

    def crossed(self) -> None:
        """Note that the external call returned; it is written with the settlement."""
        ...

    def progress(self, done: float, total: float | None, note: str) -> None:
        """Tell how far the body has come; from any thread, and without waiting."""
        ...


RUNNING: ContextVar[RunningCall | None] = ContextVar("mycelium_running_call", default=None)


def current_call() -> CallContext:
    """Tell which call is running here.

    Raises:
        LeaseError: no call is; the tool's function was called directly.
    """
    running = RUNNING.get()
    if running is None:
        what = "No tool call is running here."
        raise LeaseError(what, next_step="Ask only inside a tool that a worker runs.")
    return running.describe()
