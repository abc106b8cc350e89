"""How much of a public failure's numbers one run takes: a part, or all with `MYCELIUM_FAILURES_FULL=1` (an hour)."""

from __future__ import annotations

import os

FULL = os.environ.get("MYCELIUM_FAILURES_FULL", "") not in {"", "0"}


def scaled(part: int, whole: int) -> int:
    """The number for this run."""
    return whole if FULL else part
