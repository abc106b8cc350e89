"""Where calls stand and who handed them off, said once around many calls; it travels in context variables."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

from ..ledger.identity import Scope


@dataclass(frozen=True, slots=True)
class Handoff:
    """The transition that handed the calls off. It grants nothing and names nothing: it is for audit.

    Attributes:
        parent_request_id: that transition.
        handoff_id: which hand-off of it.
    """

    parent_request_id: str
    handoff_id: str = ""


SCOPE: ContextVar[Scope | None] = ContextVar("mycelium_scope", default=None)
HANDOFF: ContextVar[Handoff | None] = ContextVar("mycelium_handoff", default=None)


@contextmanager
def execution_scope(scope: Scope) -> Generator[None, None, None]:
    """Say for all calls of the block where they stand in their agent's work; what a call says itself comes first."""
    token = SCOPE.set(scope)
    try:
        yield
    finally:
        SCOPE.reset(token)


@contextmanager
def handoff_scope(parent_request_id: str, *, handoff_id: str = "") -> Generator[None, None, None]:
    """Record with all calls of the block which transition handed them off, as a supervisor does to its sub-agent."""
    token = HANDOFF.set(Handoff(parent_request_id, handoff_id))
    try:
        yield
    finally:
        HANDOFF.reset(token)
