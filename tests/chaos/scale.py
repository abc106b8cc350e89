"""How much of the public failures of worker pools one run takes: a part, or all with `MYCELIUM_FAILURES_FULL=1`."""

from __future__ import annotations

import os

FULL = os.environ.get("MYCELIUM_FAILURES_FULL", "") not in {"", "0"}

TTL_S = 1.0
BRISK = {"ttl_s": TTL_S, "renew_every_s": 0.2, "call_timeout_s": 0.2, "margin_s": 0.2}
"""A session whose end is soon noticed."""


def scaled(part: int, whole: int) -> int:
    """The number for this run."""
    return whole if FULL else part
