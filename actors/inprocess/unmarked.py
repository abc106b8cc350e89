"""Says that a tool which marks its effect for itself has not done so."""

from __future__ import annotations

import functools
import logging

from ...ledger.states import Boundary, BoundaryMode
from ...ledger.submit import Intent

log = logging.getLogger(__name__)


def warn_if_unmarked(intent: Intent, came_to: Boundary) -> None:
    """Say once for each tool that it returned without a mark: a crash in its effect would look like none.

    A line in the log and no warning: where warnings are errors it would be raised after the effect.
    """
    if intent.binding.boundary_mode is BoundaryMode.EXPLICIT and came_to is Boundary.NOT_CROSSED:
        _warn(intent.tool)


@functools.cache
def _warn(tool: str) -> None:
    log.warning(
        "the tool %r declares boundary='explicit' and returned without side_effect(): if it dies in its effect, it "
        "runs again; wrap the external call, or leave the boundary to the runtime",
        tool,
    )
