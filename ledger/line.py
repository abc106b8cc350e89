"""Where a ready job waits: a queue, one of five priorities, its tool, and the tenant that it is for."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum

from ..leases.errors import BadCallError, SettingsError

DEFAULT_QUEUE = "default"
MAX_TENANT_BYTES = 128
_QUEUE = re.compile(r"[a-z0-9][a-z0-9_.-]{0,63}")


class Priority(StrEnum):
    """How soon a job is taken, from the first to the last; the last ones wait a bounded number of claims (aging)."""

    CRITICAL = "critical"
    """Before all others."""
    HIGH = "high"
    """Before what is normal."""
    NORMAL = "normal"
    """What a job is that says nothing."""
    LOW = "low"
    """After what is normal."""
    BACKGROUND = "background"
    """After all others."""

    @property
    def level(self) -> int:
        """Its place, from 0 for the first."""
        return _LEVELS[self]


_LEVELS = {priority: level for level, priority in enumerate(Priority)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One line of ready jobs. Lines of one queue, priority and tool are served in turn: one job of each tenant a round.

    Attributes:
        tool: the tool's name.
        queue: which workers may take it.
        priority: how soon it is taken within its queue.
        tenant: for whom it is; empty: for nobody in particular.
    """

    tool: str
    queue: str = DEFAULT_QUEUE
    priority: Priority = Priority.NORMAL
    tenant: str = ""

    @property
    def name(self) -> str:
        """As the row and the key of the line have it."""
        return f"{self.queue}:{self.priority.level}:{self.tool}:{self.tenant}"


def checked_queue(queue: object) -> str:
    """Give back the name of a queue that can be one.

    Raises:
        SettingsError: it is not 1 to 64 of `a-z 0-9 _ . -`, a letter or digit first.
    """
    if isinstance(queue, str) and _QUEUE.fullmatch(queue):
        return queue
    what = f"{queue!r} is not a queue's name."
    raise SettingsError(what, next_step="Use 1 to 64 of a-z, 0-9, '_', '.', '-', a letter or digit first.")


def checked_tenant(tenant: object) -> str:
    """Give back the name of a tenant that can be one.

    Raises:
        BadCallError: it is not printable text of at most 128 bytes.
    """
    if isinstance(tenant, str) and tenant.isprintable() and len(tenant.encode()) <= MAX_TENANT_BYTES:
        return tenant
    what = f"A tenant is printable text of at most {MAX_TENANT_BYTES} bytes."
    raise BadCallError(what, next_step="Nothing was submitted. Correct the tenant.")
