"""What a caller says of one call beside its arguments: what names it, where it stands, and where it came from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import TypedDict

from ..leases.errors import BadArgumentsError, BadCallError
from ..ledger.about import About
from ..ledger.binding import Binding
from ..ledger.canon import canonical, pick
from ..ledger.identity import Identity, Scope, identify, request_id_from
from ..ledger.submit import Retention
from .arguments import Checked
from .labels import number_fault, plain_text, text_fault
from .scopes import HANDOFF, SCOPE

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
    ordinal: int | None
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
        ordinal: which one of several equal calls of one step, from 0; None: what the scope around says, else 0.
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
    ordinal: int | None = None
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
        faults = [text_fault(name, getattr(self, name)) for name in _TEXTS]
        for fault in (*faults, number_fault("step", self.step), number_fault("ordinal", self.ordinal)):
            if fault:
                raise wrong(fault)

    def identity(self, tool: str, binding: Binding, checked: Checked, *, namespace: str) -> Identity:
        """Name the effect of one checked call.

        Raises:
            BadCallError: nothing names it, or a name is none; or the provider's key that came with it is not text.
        """
        _check_key(binding, checked)
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
            ordinal=around.ordinal if self.ordinal is None else self.ordinal,
        )

    def about(self, binding: Binding) -> About:
        """What the row says of it."""
        place, handoff = self.scope(), HANDOFF.get()
        return About(
            run_id=plain_text(place.run_id),
            thread_id=plain_text(place.thread_id),
            node=plain_text(place.node),
            step=None if place.step is None else int(place.step),
            tool_call_id=plain_text(self.tool_call_id),
            dispatch_id=plain_text(self.dispatch_id),
            agent_id=binding.agent_id,
            policy_version=binding.policy_version,
            parent_request_id=plain_text(self.parent_request_id or (handoff.parent_request_id if handoff else None)),
            handoff_id=plain_text(self.handoff_id or (handoff.handoff_id if handoff else None)),
            decision_id=plain_text(self.decision_id),
            state_ref=plain_text(self.state_ref),
        )


def _check_key(binding: Binding, checked: Checked) -> None:
    key = None if binding.key_param is None else checked.values.get(binding.key_param)
    if not isinstance(key, str):
        return
    try:
        key.encode()
    except UnicodeEncodeError:
        fits = False
    else:
        fits = True
    if not fits:
        # Not while that error is handled: it holds the key.
        what = f"The argument {binding.key_param!r} has a lone surrogate, which is not text."
        raise BadArgumentsError(what, next_step="Nothing was dispatched. Pass a key that is text.")


def key_of(binding: Binding, values: Mapping[str, object]) -> str:
    """The provider's key that the caller chose; empty: none."""
    return str(values.get(binding.key_param) or "") if binding.key_param is not None else ""


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


def is_a(value: object, kind: type) -> bool:
    """Whether a value is of a kind that its type promises: callers without a type checker hand in anything."""
    return isinstance(value, kind)


def wrong(fault: str) -> BadCallError:
    """Refuse a call for what is said of it."""
    return BadCallError(f"The call cannot be taken: {fault}.", next_step="Nothing was submitted. Correct the call.")
