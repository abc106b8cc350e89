"""How public failures of worker pools are run: a part of their numbers, or all with `MYCELIUM_FAILURES_FULL=1`."""

from __future__ import annotations

import os
from typing import Any

from chaos.stage import Stage, Worker

FULL = os.environ.get("MYCELIUM_FAILURES_FULL", "") not in {"", "0"}

TTL_S = 1.0
BRISK = {"ttl_s": TTL_S, "renew_every_s": 0.2, "call_timeout_s": 0.2, "margin_s": 0.2}
"""A session whose end is soon noticed."""


def scaled(part: int, whole: int) -> int:
    """The number for this run."""
    return whole if FULL else part


async def start(stage: Stage, **changes: Any) -> Worker:  # noqa: ANN401 - settings of a worker
    """Start a worker that has the tools of these failures, and a brisk session."""
    told: dict[str, Any] = {"app": "chaos.failure_tools", "session": BRISK, **changes}
    return await stage.start(**told)
