"""One attempt as the control process knows it, from the grant to its settlement."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from enum import StrEnum

from ...leases.session import Session
from ...ledger.binding import Binding
from ...ledger.states import Boundary
from ...ledger.turn import Grant
from ..job_options import RunTerms


class Phase(StrEnum):
    """How far the control process has brought an attempt."""

    GRANTED = "granted"
    """Held; nothing was asked for it yet."""
    MARKING = "marking"
    """Its mark is on the way; its host knows nothing of it."""
    RUNNING = "running"
    """Its host has it: the body may have begun."""
    ENDED = "ended"
    """Its settlement is queued or recorded."""


@dataclass(slots=True, eq=False)
class Attempt:
    """One attempt. Compared by being the same object: nothing in it is an identity but its fence.

    Attributes:
        grant: what the store granted.
        binding: the declared facts of its tool, as the hosts know it.
        session: the session that holds it; its marks and settlements go under it, whatever session is current by then.
        phase: how far it is.
        boundary: how far the effect may have come, as far as its host was ever allowed.
        ref: the provider's handle, once recorded.
        mark_missed: a mark that its tool asked for got no answer from the store: the tool could not start its effect.
        host: name of the host that has a slot for it; empty before.
        alone: it runs in a process of its own.
        terms: what its caller said of how it runs.
        due_s: the instant of the holder's clock at which the deadline of its transition passes.
        timeout_s: seconds that its body may take, once it is started.
        cancelled: somebody asked for its cancel.
        gone: the process that ran it has ended: nothing of it can still send.
    """

    grant: Grant
    binding: Binding
    session: Session
    phase: Phase = Phase.GRANTED
    boundary: Boundary = Boundary.NOT_CROSSED
    ref: str = ""
    mark_missed: bool = False
    host: str = ""
    alone: bool = False
    terms: RunTerms = field(default_factory=RunTerms)
    due_s: float = math.inf
    timeout_s: float = 0.0
    cancelled: bool = False
    gone: bool = False
