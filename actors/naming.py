"""What a caller says of one call beside its arguments: what names it, where it stands, and where it came from."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TypedDict

from ..leases.errors import BadCallError
from ..ledger.about import About
from ..ledger.binding import Binding
from ..ledger.canon import canonical, pick
from ..ledger.identity import Identity, Scope, identify, request_id_from
from ..ledger.submit import Retention
from .arguments import Checked
from .scopes import HANDOFF, SCOPE

MAX_HINT_BYTES = 1024
_SHORTEST_KEPT = timedelta(seconds=1)
_TEXTS = (
    "dispatch_id",
    "thread_id",
    "run_id",
    "node",
    "tool_call_id",
    "parent_request_id",
    "handoff_id",
    "decision_id",
    "state_ref",
)


class NameOptions(TypedDict, total=False):
    """What may be said of one call beside its arguments: see `Naming`."""

    request_id: str | None
    dispatch_id: str | None
    thread_id: str | None
    run_id: str | None
    node: str | None
    step: int | None
    ordinal: int
    tool_call_id: str | None
    parent_request_id: str | None
    handoff_id: str | None
    decision_id: str | None
    state_ref: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Naming:
    """The name of one call, and its place.

    Attributes:
        request_id: the host-owned identity of the intended effect, such as `charge-order:ORD-1`.
        dispatch_id: the host's own id of this dispatch, stable over its replays and unique in its scope.
        thread_id: the conversation.
        run_id: the agent's run.
        node: the node of the agent's graph.
        step: the model turn.
        ordinal: which one of several equal calls of one step, from 0.
        tool_call_id: the model's own id of the call: a hint for people, never an identity.
        parent_request_id: the transition that handed this call off: for audit.
        handoff_id: which hand-off of that one: for audit.
        decision_id: the host's own decision that led to the call: for audit.
        state_ref: the state of the agent that the call was decided on: for audit.
    """

    request_id: str | None = None
    dispatch_id: str | None = None
    thread_id: str | None = None
    run_id: str | None = None
    node: str | None = None
    step: int | None = None
    ordinal: int = 0
    tool_call_id: str | None = None
    parent_request_id: str | None = None
    handoff_id: str | None = None
    decision_id: str | None = None
    state_ref: str | None = None

    def check(self) -> None:
        """Refuse what is no name.

        Raises:
            BadCallError: a text is blank, too long or not text, or a number is none.
        """
        for name in _TEXTS:
            _check_text(name, getattr(self, name))
        numbers: dict[str, object] = {"step": self.step, "ordinal": self.ordinal}
        for name, value in numbers.items():
            whole = isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 53
            if value is not None and not whole:
                raise wrong(f"{name} is not a whole number from 0")

    def identity(self, tool: str, binding: Binding, checked: Checked, *, namespace: str) -> Identity:
        """Name the effect of one checked call.

        Raises:
            BadCallError: nothing names it, or a name is none.
        """
        request_id, named_by = self.request_id, binding.request_id_from
        if request_id is None and named_by is not None:
            request_id = request_id_from(tool, named_by, checked.values.get(named_by))
        return identify(
            tool,
            binding.effect_class,
            checked.args,
            namespace=namespace,
            request_id=request_id,
            dispatch_id=self.dispatch_id,
            scope=self.scope(),
            destination=b"" if binding.destination is None else canonical(pick(checked.values, binding.destination)),
            agent_id=binding.agent_id,
            policy_version=binding.policy_version,
        )

    def scope(self) -> Scope:
        """Where the call stands: what it says itself, else what is said around it."""
        around = SCOPE.get() or Scope()
        return Scope(
            thread_id=self.thread_id or around.thread_id,
            run_id=self.run_id or around.run_id,
            node=self.node or around.node,
            step=around.step if self.step is None else self.step,
            ordinal=self.ordinal or around.ordinal,
        )

    def about(self, binding: Binding) -> About:
        """What the row says of it."""
        place, handoff = self.scope(), HANDOFF.get()
        return About(
            run_id=place.run_id or "",
            thread_id=place.thread_id or "",
            node=place.node or "",
            step=place.step,
            tool_call_id=self.tool_call_id or "",
            dispatch_id=self.dispatch_id or "",
            agent_id=binding.agent_id,
            policy_version=binding.policy_version,
            parent_request_id=self.parent_request_id or (handoff.parent_request_id if handoff else ""),
            handoff_id=self.handoff_id or (handoff.handoff_id if handoff else ""),
            decision_id=self.decision_id or "",
            state_ref=self.state_ref or "",
        )


def _check_text(name: str, value: object) -> None:
    if value is None:
        return
    if not isinstance(value, str):
        raise wrong(f"{name} is a {type(value).__name__}, not text")
    if not value.strip():
        raise wrong(f"{name} is blank")
    try:
        size = len(value.encode("utf-8"))
    except UnicodeEncodeError:
        raise wrong(f"{name} has a lone surrogate, which is not text") from None
    if size > MAX_HINT_BYTES:
        raise wrong(f"{name} is longer than {MAX_HINT_BYTES} bytes")


def check_retention(retention: object, binding: Binding) -> None:
    """Refuse a retention in which a repeat could be sent anew (E11).

    Raises:
        BadCallError: it is none, or too short.
    """
    if not isinstance(retention, Retention):
        raise wrong(f"retention is a {type(retention).__name__}, not a Retention")
    # The server refuses to keep something for no time, and would do so in the middle of a settlement.
    if retention.row < _SHORTEST_KEPT or retention.result < _SHORTEST_KEPT:
        raise wrong("retention keeps row or result for less than a second")
    if binding.key_window_s is not None and retention.row.total_seconds() < binding.key_window_s:
        raise wrong(
            "retention keeps the row for less than the provider's key window, so that a repeat could be sent anew"
        )


def wrong(fault: str) -> BadCallError:
    """Refuse a call for what is said of it."""
    return BadCallError(f"The call cannot be taken: {fault}.", next_step="Nothing was submitted. Correct the call.")
