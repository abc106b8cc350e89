"""Where calls stand and who handed them off, said once around many calls; it travels in context variables."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TypedDict, Unpack, cast

from ..leases.errors import BadCallError
from ..ledger.identity import Scope
from .labels import number_fault, text_fault


class Place(TypedDict, total=False):
    """Where calls stand: see `Scope`."""

    thread_id: str | None
    run_id: str | None
    node: str | None
    step: int | None
    ordinal: int


@dataclass(frozen=True, slots=True)
class Handoff:
    """The transition that handed the calls off. It grants nothing and names nothing: it is for audit.

    Attributes:
        parent_request_id: that transition.
        handoff_id: which hand-off of it; empty: not said.
    """

    parent_request_id: str
    handoff_id: str = ""


SCOPE: ContextVar[Scope | None] = ContextVar("mycelium_scope", default=None)
HANDOFF: ContextVar[Handoff | None] = ContextVar("mycelium_handoff", default=None)


@contextmanager
def execution_scope(scope: Scope | None = None, **place: Unpack[Place]) -> Generator[None, None, None]:
    """Say for all calls of the block where they stand in their agent's work; what a call says itself comes first.

    Args:
        scope: the place as a whole.
        **place: or part by part: `execution_scope(run_id="run-7", step=3)`.

    Raises:
        BadCallError: it is no place, or a part of it is blank, too long or of another type.
    """
    token = SCOPE.set(_checked(scope, place))
    try:
        yield
    finally:
        SCOPE.reset(token)


@contextmanager
def handoff_scope(parent_request_id: str, *, handoff_id: str = "") -> Generator[None, None, None]:
    """Record with all calls of the block which transition handed them off, as a supervisor does to its sub-agent.

    Raises:
        BadCallError: the transition is missing, or one of the two is blank, too long or not text.
    """
    if cast("object", parent_request_id) is None:
        raise _refused("hand-off", "parent_request_id is missing")
    # An empty hand-off id is its default: nothing was said.
    for name, value in (("parent_request_id", parent_request_id), ("handoff_id", handoff_id or None)):
        if fault := text_fault(name, value):
            raise _refused("hand-off", fault)
    token = HANDOFF.set(Handoff(parent_request_id, handoff_id or ""))
    try:
        yield
    finally:
        HANDOFF.reset(token)


def _checked(scope: Scope | None, place: Place) -> Scope:
    if scope is not None and place:
        raise _refused("scope", "it is given both as a Scope and part by part")
    if scope is None:
        unknown = [name for name in place if name not in Place.__annotations__]
        if unknown:
            raise _refused("scope", f"it has parts that no scope has; these are {', '.join(Place.__annotations__)}")
        scope = Scope(**place)
    if not isinstance(cast("object", scope), Scope):
        raise _refused("scope", f"it is a {type(scope).__name__}, not a Scope")
    if cast("object", scope.ordinal) is None:
        raise _refused("scope", "ordinal is not a whole number from 0")
    faults = [text_fault(name, getattr(scope, name)) for name in ("thread_id", "run_id", "node")]
    for fault in (*faults, number_fault("step", scope.step), number_fault("ordinal", scope.ordinal)):
        if fault:
            raise _refused("scope", fault)
    return scope


def _refused(what: str, fault: str) -> BadCallError:
    return BadCallError(f"The {what} cannot be used: {fault}.", next_step="No call was taken in it. Correct it.")
