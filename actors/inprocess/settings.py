"""What can be set of a ledger that is used in process."""

from __future__ import annotations

from dataclasses import dataclass, field

from ...leases.errors import SettingsError
from ...leases.session import SessionSettings
from ...leases.store import StoreSettings
from ...ledger.receipts import MakeWriter
from ...ledger.states import Drift
from ...ledger.submit import Retention


def _session() -> SessionSettings:
    session = SessionSettings()
    # A lapse alone is no evidence of death: what a holder held is taken from it after twice the TTL.
    return SessionSettings(grace_s=session.ttl_s)


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerSettings:
    """Durations in seconds.

    Attributes:
        session: TTL, interval, margin and grace of this process's session. The grace is how long after a lapse a holder
            is not taken for dead; 0 gives what it held away at the lapse.
        store: how the server is spoken to.
        poll_timeout_s: how long a call waits for another holder; None: for ever.
        poll_s: the longest pause between two looks; messages only make it shorter.
        retention: how long rows and results are kept.
        max_args_bytes: the limit on canonical arguments.
        max_result_bytes: a result above so many bytes is not kept: its transition is completed, with a marker in its
            place.
        on_args_drift: what happens when the same dispatch comes with other arguments.
        require_request_id: whether a tool with an effect needs a request id, or an argument that names it: a call id
            that a framework made up is then no identity.
        reconcile_timeout_s: how long one question to a provider may take.
        receipts: where the receipts of this ledger go, as `receipts_to` says it; None: this process writes none.

    Raises:
        SettingsError: a duration or limit is not positive.
    """

    session: SessionSettings = field(default_factory=_session)
    store: StoreSettings = field(default_factory=StoreSettings)
    poll_timeout_s: float | None = 300.0
    poll_s: float = 1.0
    retention: Retention = field(default_factory=Retention)
    max_args_bytes: int = 1 << 20
    max_result_bytes: int = 1 << 20
    on_args_drift: Drift = Drift.SOFT
    require_request_id: bool = False
    reconcile_timeout_s: float = 10.0
    receipts: MakeWriter | None = None

    def __post_init__(self) -> None:
        """Refuse what cannot work."""
        for name in ("poll_timeout_s", "poll_s", "max_args_bytes", "max_result_bytes", "reconcile_timeout_s"):
            value = getattr(self, name)
            if value is not None and not value > 0:
                raise SettingsError(f"{name} is {value}.", next_step=f"Give {name} a positive value.")
        if self.on_args_drift not in set(Drift):
            what = f"on_args_drift is {self.on_args_drift!r}."
            raise SettingsError(what, next_step=f"Choose one of: {', '.join(Drift)}.")
        object.__setattr__(self, "on_args_drift", Drift(self.on_args_drift))
