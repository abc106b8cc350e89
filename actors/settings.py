"""What an operator can set of a worker, checked together before anything starts."""

from __future__ import annotations

from dataclasses import dataclass, field

from ..leases.errors import SettingsError
from ..leases.session import SessionSettings


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
        session: TTL, interval, call timeout and margin of the worker's session.
        grace_s: how long marked attempts get at shutdown.
        poll_s: how long a worker that no bell wakes waits between two looks.
        overdue_s: how long after its timeout an attempt may be silent before its host is ended.
        host_memory_mb: a host above so many megabytes is ended; None: no limit.
        max_result_bytes: a result above so many bytes is not kept: its transition is completed, with a marker in its
            place.
        presumed_dead_s: so long after a session lapsed its holder is taken for unable to send; None: twice the TTL.
        reconcile_timeout_s: how long one question to an adapter may take.
        receipts: where receipts go: a file, `redis:` or `postgresql://…`, signed with MYCELIUM_RECEIPT_KEY; None: this
            worker writes none.

    Raises:
        SettingsError: a value is out of its range, or two contradict each other.
    """

    app: str
    url: str | None = None
    namespace: str = "mycelium"
    name: str = ""
    hosts: int = 2
    slots: int = 16
    session: SessionSettings = field(default_factory=SessionSettings)
    grace_s: float = 25.0
    poll_s: float = 1.0
    overdue_s: float = 5.0
    host_memory_mb: int | None = None
    max_result_bytes: int = 1 << 20
    presumed_dead_s: float | None = None
    reconcile_timeout_s: float = 10.0
    receipts: str | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        """Refuse what cannot work."""
        for name in ("hosts", "slots", "poll_s", "overdue_s", "max_result_bytes", "reconcile_timeout_s"):
            if getattr(self, name) <= 0:
                raise SettingsError(f"{name} is {getattr(self, name)}.", next_step=f"Give {name} a positive value.")
        if self.grace_s < 0:
            raise SettingsError(f"grace_s is {self.grace_s:g}.", next_step="Give grace_s 0 or more seconds.")
        if self.host_memory_mb is not None and self.host_memory_mb < 64:  # noqa: PLR2004 - said in the message
            what = f"host_memory_mb is {self.host_memory_mb}; a host takes about 50 MB before it runs anything."
            raise SettingsError(what, next_step="Give host_memory_mb 64 or more.")

    @property
    def death_s(self) -> float:
        """Seconds after which a holder whose session lapsed is taken for unable to send."""
        return 2 * self.session.ttl_s if self.presumed_dead_s is None else self.presumed_dead_s
