"""How one job waits and runs, as its caller says: checked, and written as the ledger takes it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypedDict, cast

import msgspec

from ..leases.errors import MyceliumError
from ..ledger.binding import Binding
from ..ledger.facets import facets_of
from ..ledger.instant import MOST_S, When, instant
from ..ledger.limits import MAX_LIMITS, Concurrency, Limit, Rate, fill_limits
from ..ledger.line import Line, Priority, checked_queue, checked_tenant
from .labels import text_fault
from .naming import is_a, wrong
from .terms import Terms

MAX_LABELS = 16
MAX_LABEL_NAME = 64


class RunTerms(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """How an attempt of one job runs, where its caller says otherwise than its tool.

    Attributes:
        timeout_s: seconds that one attempt may take.
        idle_timeout_s: seconds without progress after which an attempt is past its time.
    """

    timeout_s: float | None = None
    idle_timeout_s: float | None = None

    def body(self) -> str:
        """As it is stored; empty when there is nothing to say."""
        encoded = msgspec.json.encode(self).decode()
        return "" if encoded == "{}" else encoded

    @classmethod
    def read(cls, body: str) -> RunTerms:
        """Read what was stored; what cannot be read says nothing, so that its tool's declaration holds."""
        try:
            return msgspec.json.decode(body, type=cls) if body else cls()
        except ValueError:
            return cls()


class WaitOptions(TypedDict, total=False):
    """What may be said of how one job waits and runs: see `Waits`."""

    queue: str | None
    priority: Priority | str | None
    tenant: str
    delay_s: float
    at: datetime | None
    start_by: When | None
    deadline: When | None
    timeout_s: float | None
    idle_timeout_s: float | None
    limits: Sequence[Limit]
    labels: Mapping[str, str] | None


# Without slots: two parents with slots cannot be joined into one submission.
@dataclass(frozen=True, kw_only=True)
class Waits:
    """How one job waits and runs.

    Attributes:
        queue: the queue that it waits in; None: as its tool is declared.
        priority: how soon it is taken within the queue; None: as its tool is declared.
        tenant: for whom it is: tenants of one queue, priority and tool are served in turn.
        delay_s: seconds before it may run.
        at: when it may run, in place of `delay_s`.
        start_by: a job that has not started by then is cancelled.
        deadline: a job is refused or cancelled once this has passed, and an attempt that still runs is past its time.
        timeout_s: seconds that one attempt may take; None: as its tool is declared.
        idle_timeout_s: seconds without progress after which an attempt is past its time; None: as its tool is declared.
        limits: what the fleet shares, beside those of its tool.
        labels: words for people and listings; never part of what the call is.
    """

    queue: str | None = None
    priority: Priority | str | None = None
    tenant: str = ""
    delay_s: float = 0.0
    at: datetime | None = None
    start_by: When | None = None
    deadline: When | None = None
    timeout_s: float | None = None
    idle_timeout_s: float | None = None
    limits: Sequence[Limit] = ()
    labels: Mapping[str, str] | None = None

    def on_record(self, tool: str, terms: Terms, binding: Binding, values: Mapping[str, object]) -> dict[str, Any]:
        """Check it and write it as the fields of an intent.

        Args:
            tool: the tool's name.
            terms: how the jobs of the tool wait and run.
            binding: what effect the tool has.
            values: the checked arguments.

        Raises:
            BadCallError: something of it cannot be; nothing was submitted.
        """
        if self.at is not None and self.delay_s:
            raise wrong("it has both delay_s and at: say once when it may run")
        self._check_times(binding)
        return {
            "line": self._line(tool, terms),
            "limits": fill_limits(self._limits(terms), values),
            "facets": facets_of(values),
            "due": instant("at", self.at) if self.at is not None else instant("delay_s", self.delay_s),
            "start_by": instant("start_by", self.start_by),
            "deadline": instant("deadline", self.deadline),
            "run": RunTerms(timeout_s=self.timeout_s, idle_timeout_s=self.idle_timeout_s).body(),
        }

    def checked_labels(self) -> dict[str, str]:
        """Give back labels that can be some.

        Raises:
            BadCallError: they are not names with texts, or too many.
        """
        said: object = {} if self.labels is None else self.labels
        labels = dict(cast("Mapping[object, object]", said)) if is_a(said, Mapping) else None
        if labels is None or len(labels) > MAX_LABELS:
            raise wrong(f"labels is not a mapping of at most {MAX_LABELS} names to texts")
        checked: dict[str, str] = {}
        for name, value in labels.items():
            if not (isinstance(name, str) and name.isprintable() and 0 < len(name.encode()) <= MAX_LABEL_NAME):
                raise wrong(f"a label has no name of 1 to {MAX_LABEL_NAME} printable bytes")
            if not isinstance(value, str) or text_fault("a label", value):
                raise wrong(text_fault("a label", value) or "a label is not text")
            checked[name] = value
        return checked

    def _line(self, tool: str, terms: Terms) -> Line:
        try:
            return Line(
                tool=tool,
                queue=checked_queue(terms.queue if self.queue is None else self.queue),
                priority=terms.priority if self.priority is None else Priority(self.priority),
                tenant=checked_tenant(self.tenant),
            )
        except MyceliumError as error:
            raise wrong(error.what.rstrip(".")) from None
        except ValueError:
            raise wrong(f"priority is none of: {', '.join(Priority)}") from None

    def _limits(self, terms: Terms) -> tuple[Limit, ...]:
        said: object = self.limits
        limits = tuple(cast("Sequence[object]", said)) if isinstance(said, (list, tuple)) else None
        if limits is None or len(limits) > MAX_LIMITS:
            raise wrong(f"limits are not at most {MAX_LIMITS} of Concurrency and Rate")
        if not all(isinstance(limit, (Concurrency, Rate)) for limit in limits):
            raise wrong("limits has something that is neither a Concurrency nor a Rate")
        if len(terms.limits) + len(limits) > MAX_LIMITS:
            raise wrong(f"its tool has {len(terms.limits)} limits, and {MAX_LIMITS} hold together at the most")
        return (*terms.limits, *cast("tuple[Limit, ...]", limits))

    def _check_times(self, binding: Binding) -> None:
        for name in ("timeout_s", "idle_timeout_s"):
            seconds = getattr(self, name)
            if seconds is None:
                continue
            if isinstance(seconds, bool) or not isinstance(seconds, (int, float)) or not 0 < seconds <= MOST_S:
                raise wrong(f"{name} is not a number of seconds above 0, and at most ten years")
        if binding.key_window_s is not None and (self.timeout_s or 0) >= binding.key_window_s:
            raise wrong("timeout_s is not below the key window of its tool, inside which an attempt must have ended")
