"""What a host that runs its bodies itself holds in its hands: a claimed call, or the result of an earlier one."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from ...leases.errors import LedgerError
from ...ledger.states import State
from .attempt import InlineAttempt
from .prepared import Returned


@dataclass(frozen=True, slots=True)
class LedgerEntry:
    """One claim, as `ActionLedger.claim` gives it. Every write on its behalf carries its fence.

    Attributes:
        request_id: the transition; another one than was asked for where its effect has a row already.
        effect_id: its dedupe identity; empty where the call was completed before.
        fence: digits; empty where the call was completed before.
        attempt: number of this attempt, from 1; 0 where the call was completed before.
        state: `claimed`: the caller may record its decision, and then run the body; `completed`: it must not.
        idempotency_key: what the provider gets as its key; empty: the tool declares none.
    """

    request_id: str
    effect_id: str
    fence: str
    attempt: int
    state: State
    idempotency_key: str
    _held: InlineAttempt | None = field(repr=False)
    _returned: Returned | None = field(repr=False)

    @property
    def completed(self) -> bool:
        """Whether the effect was seen already, so that nothing may run."""
        return self._returned is not None

    @property
    def result(self) -> Any:  # noqa: ANN401 - what the tool returned, as a JSON value
        """The stored result of an earlier call.

        Raises:
            LedgerError: the call is claimed, so that there is none yet.
            OutcomeError: it completed, and its result was not kept, or not for so long.
        """
        if self._returned is None:
            what = f"{self.request_id!r} has no result yet: it is the caller's to run."
            raise LedgerError(what, state=self.state, next_step="Record the decision, run the body, and complete it.")
        return self._returned.value()

    @property
    def held(self) -> InlineAttempt:
        """The attempt.

        Raises:
            LedgerError: there is none: the call was completed before, or was claimed by the process that this one was
                forked from.
        """
        if self._held is None:
            what = f"{self.request_id!r} was completed before; this claim holds nothing."
            raise LedgerError(what, state=self.state, next_step="Use its result.")
        if self._held.forked:
            what = f"{self.request_id!r} was claimed before this process forked: it is the parent's to settle."
            raise LedgerError(what, state=self.state, next_step="Nothing was changed. Claim in this process.")
        return self._held


def entry_of(begun: InlineAttempt | Returned) -> LedgerEntry:
    """The entry of what a claim came to."""
    if isinstance(begun, Returned):
        return LedgerEntry(begun.outcome.request_id, "", "", 0, State.COMPLETED, "", None, begun)
    shown = begun.shown
    return LedgerEntry(
        shown.request_id, shown.effect_id, shown.fence, shown.attempts, shown.state, begun.key, begun, None
    )
