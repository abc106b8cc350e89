"""One call, checked and named, before anything is asked of the server; and what its claim came to."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, cast

import pydantic
from pydantic_core import to_jsonable_python

from ...ledger.submit import Intent
from ...reconcilers.protocol import Adapter
from ..outcome import Outcome
from .attempt import InlineAttempt


@dataclass(frozen=True, slots=True)
class Prepared:
    """One call of this process.

    Attributes:
        intent: its identity, declaration and place.
        values: validated arguments by name; the provider's key is among them only if the caller gave it.
        reconciler: the adapter that asks its provider, or None.
        defer_unknown: whether a read whose outcome is unknown is refused instead of run again.
        by_hand: its body is run by somebody else, who records the decision.
        poll_timeout_s: how long another holder is waited for; None: for ever.
        returns: reads a stored result back as what the function declares to return; None: it declares nothing.
    """

    intent: Intent
    values: dict[str, object]
    reconciler: Adapter | None = None
    defer_unknown: bool = False
    by_hand: bool = False
    poll_timeout_s: float | None = None
    returns: pydantic.TypeAdapter[Any] | None = None

    def __repr__(self) -> str:
        # Arguments may be secrets of the caller's, and a repr ends up in logs.
        return f"<prepared call of {self.intent.tool!r}>"

    def arguments(self) -> dict[str, object]:
        """The arguments as JSON values, for an adapter."""
        stored = self.intent.identity.args
        told: object = json.loads(stored) if stored else to_jsonable_python(self.values, fallback=str)
        return cast("dict[str, object]", told) if isinstance(told, dict) else {}

    def stored(self, returned: Returned) -> Any:  # noqa: ANN401 - what the function declares to return
        """The stored result, as the function declares it; as a JSON value where it cannot be read back so.

        Raises:
            OutcomeError: it completed, and its result was not kept, or not for so long.
        """
        value = returned.value()
        if self.returns is None or returned.outcome.body is None:
            return value
        try:
            return self.returns.validate_json(returned.outcome.body)
        except pydantic.ValidationError:
            return value


@dataclass(frozen=True, slots=True)
class Returned:
    """The effect was seen already: nothing runs.

    Attributes:
        outcome: the row's outcome, with the stored result.
    """

    outcome: Outcome

    def value(self) -> object:
        """The stored result, as a JSON value.

        Raises:
            OutcomeError: it completed, and its result was not kept, or not for so long.
        """
        return self.outcome.result()


Begun = InlineAttempt | Returned
