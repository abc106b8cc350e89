"""Says that a tool which marks its effect for itself has not done so."""

from __future__ import annotations

import functools
import warnings

from ...ledger.states import Boundary, BoundaryMode
from ...ledger.submit import Intent


class UnmarkedEffectWarning(UserWarning):
    """A tool that marks its effect for itself returned without a mark: a crash in its effect would look like none."""


def warn_if_unmarked(intent: Intent, came_to: Boundary) -> None:
    """Say it once for each tool."""
    if intent.binding.boundary_mode is BoundaryMode.EXPLICIT and came_to is Boundary.NOT_CROSSED:
        _warn(intent.tool)


@functools.cache
def _warn(tool: str) -> None:
    said = (
        f"the tool {tool!r} declares boundary='explicit' and returned without side_effect(): if it dies in its effect, it "
        "runs again; wrap the external call, or leave the boundary to the runtime"
    )
    warnings.warn(said, UnmarkedEffectWarning, stacklevel=5)
