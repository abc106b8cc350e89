"""What an operator can set of a worker, checked together before anything starts."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from ...leases.errors import SettingsError
from ...leases.session import SessionSettings
from ..hosts.host import MAX_RESULT_BYTES
from .queues import DEFAULT_QUEUES, QueueShare, checked_shares

LEAST_HOST_MB = 64
"""A host takes about 50 MB before it runs anything."""
_MOST_PORT = 65535
_ABOVE_0 = (
    "hosts",
    "slots",
    "poll_s",
    "overdue_s",
    "max_result_bytes",
    "presumed_dead_s",
    "reconcile_timeout_s",
    "recycle_jobs",
)
_LONGEST_S = 7 * 86400.0
_MOST: Mapping[str, float] = {
    "hosts": 256,
    "solo": 256,
    "slots": 10_000,
    "poll_s": 60.0,
    "max_result_bytes": math.inf,
    "recycle_jobs": math.inf,
}
"""What is above it is a slip: no machine has so many processes, and without a bell the poll makes progress (Q5)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerSettings:
    """One worker: a control process and its tool hosts. Durations in seconds.

    Attributes:
        app: where the tools are: `package.module` or `package.module:attribute`.
        url: the server; None: the embedded server in its default directory.
        namespace: the namespace of every key.
        name: what people call this worker; never compared with anything.
        hosts: how many tool hosts, each a process.
        slots: how many attempts one host runs at once.
        solo: how many more processes run the tools that want one to themselves, one attempt at a time.
        queues: which queues it takes from, with their weights and how many slots each may take.
        burst: it ends when it finds nothing more to do.
        session: TTL, interval, call timeout and margin of the worker's session.
        grace_s: how long marked attempts get at shutdown.
        poll_s: how long a worker that no bell wakes waits between two looks.
        overdue_s: how long after its timeout an attempt may be silent before its host is ended.
        host_memory_mb: a host above so many megabytes is ended; None: no limit.
        recycle_jobs: a host that has run so many attempts is replaced when nothing runs in it; None: never.
        recycle_memory_mb: a host above so many megabytes is replaced when nothing runs in it; None: never.
        max_result_bytes: a result above so many bytes is not kept: its transition is completed, with a marker in its
            place.
        presumed_dead_s: so long after a session lapsed its holder is taken for unable to send; None: twice the TTL.
        reconcile_timeout_s: how long one question to an adapter may take.
        receipts: where receipts go: a file, `redis:` or `postgresql://…`, signed with MYCELIUM_RECEIPT_KEY; None: this
            worker writes none.
        health_port: where /health/live and /health/ready are served; 0: any free port; None: nowhere.
        metrics_port: where /metrics is served, as above; it may be the same port.
        http_host: the address that both listen at.

    Raises:
        SettingsError: a value is out of its range, or two contradict each other.
    """

    app: str
    url: str | None = None
    namespace: str = "mycelium"
    name: str = ""
    hosts: int = 2
    slots: int = 16
    solo: int = 2
    queues: tuple[QueueShare, ...] = DEFAULT_QUEUES
    burst: bool = False
    session: SessionSettings = field(default_factory=SessionSettings)
    grace_s: float = 25.0
    poll_s: float = 1.0
    overdue_s: float = 5.0
    host_memory_mb: int | None = None
    recycle_jobs: int | None = None
    recycle_memory_mb: int | None = None
    max_result_bytes: int = 1 << 20
    presumed_dead_s: float | None = None
    reconcile_timeout_s: float = 10.0
    receipts: str | None = field(default=None, repr=False)
    health_port: int | None = None
    metrics_port: int | None = None
    http_host: str = "127.0.0.1"

    def __post_init__(self) -> None:
        """Refuse what cannot work."""
        for name in _ABOVE_0:
            value = getattr(self, name)
            if value is not None and not 0 < value <= _MOST.get(name, _LONGEST_S):
                most = _MOST.get(name, _LONGEST_S)
                raise SettingsError(f"{name} is {value}.", next_step=f"Give {name} a value above 0, at most {most:g}.")
        for name in ("grace_s", "solo"):
            value = getattr(self, name)
            if not 0 <= value <= _MOST.get(name, _LONGEST_S):
                most = _MOST.get(name, _LONGEST_S)
                raise SettingsError(f"{name} is {value:g}.", next_step=f"Give {name} 0 to {most:g}.")
        if self.max_result_bytes > MAX_RESULT_BYTES:
            what = f"max_result_bytes is {self.max_result_bytes:,}."
            raise SettingsError(what, next_step=f"Give max_result_bytes at most {MAX_RESULT_BYTES:,}.")
        checked_shares(self.queues)
        self._check_memory()
        self._check_ports()

    def _check_memory(self) -> None:
        for name in ("host_memory_mb", "recycle_memory_mb"):
            value = getattr(self, name)
            if value is not None and value < LEAST_HOST_MB:
                what = f"{name} is {value}; a host takes about 50 MB before it runs anything."
                raise SettingsError(what, next_step=f"Give {name} {LEAST_HOST_MB} or more.")
        limit, soft = self.host_memory_mb, self.recycle_memory_mb
        if limit is not None and soft is not None and soft >= limit:
            what = f"recycle_memory_mb {soft} is not below host_memory_mb {limit}: no host would ever be replaced."
            raise SettingsError(what, next_step="Lower recycle_memory_mb, or raise host_memory_mb.")

    def _check_ports(self) -> None:
        for name in ("health_port", "metrics_port"):
            port = getattr(self, name)
            if port is not None and not 0 <= port <= _MOST_PORT:
                raise SettingsError(f"{name} is {port}.", next_step=f"Give {name} 1 to {_MOST_PORT}, or 0 for any.")

    @property
    def store_patience_s(self) -> float:
        """Seconds for which the store may leave the turns of a worker with free slots unanswered."""
        return 5.0 + 3 * self.poll_s

    @property
    def death_s(self) -> float:
        """Seconds after which a holder whose session lapsed is taken for unable to send."""
        return 2 * self.session.ttl_s if self.presumed_dead_s is None else self.presumed_dead_s
