"""The tree of a worker's actors, declared in one place."""

from __future__ import annotations

import json
import os
import random
import socket
from collections.abc import Callable, Sequence
from functools import partial
from importlib.metadata import version

from ...leases.clock import Clock
from ...leases.store import Store
from ...ledger.receipts import receipts_to
from ...reconcilers.resolve import ResolveSettings
from ..hosts.host import HostProcess, MakesHost
from ..runtime import ChildSpec, Strategy, supervise
from .health import Health
from .host import SOLO, Host
from .lease_manager import LeaseManager
from .marks import Marks
from .orders import Orders
from .progress import ProgressTeller
from .receipts import Receipts
from .reconciler import ReconcilerActor
from .scheduler import scheduler_spec
from .settings import WorkerSettings
from .sweeper import Sweeper
from .tree_teller import TreeTeller
from .turns import Turns

STOP_SLACK_S = 5.0
"""Seconds that a part has to end, beyond any grace."""


def tree(  # noqa: PLR0913, PLR0917 - what a worker is made of
    store: Store,
    settings: WorkerSettings,
    clock: Clock,
    rng: random.Random,
    orders: Orders | None = None,
    make_process: MakesHost = HostProcess,
) -> ChildSpec:
    """Declare the worker.

    The four parts of `control` hold one session between them: none of them is of use without the others, so they fall
    together, and what the session held runs out with it. The sweeper, the reconciler, the follower of receipts and
    whoever tells of the worker's health hold nothing.

    Raises:
        SettingsError: receipts are to go where they cannot, or there is no key for them.
    """
    session = settings.session
    mailbox = 64 + 16 * settings.hosts * settings.slots
    hosts = _hosts(settings, partial(Host, store, settings, rng, make_process), mailbox)
    control = supervise(
        "control",
        [
            ChildSpec(
                "lease_manager",
                partial(_lease_manager, store, settings, clock, orders),
                stop_within_s=session.ttl_s,
                ends="its session runs out",
            ),
            ChildSpec("marks", partial(Marks, store), capacity=mailbox),
            ChildSpec("progress", partial(ProgressTeller, store), capacity=mailbox),
            ChildSpec("turns", partial(_turns, store, settings, clock, rng, orders), capacity=mailbox),
            supervise("hosts", hosts),
        ],
        strategy=Strategy.ONE_FOR_ALL,
    )
    sweeper = ChildSpec("sweeper", partial(Sweeper, store, min(session.renew_every_s, 2.0)))
    reconciler = ChildSpec(
        "reconciler",
        partial(
            ReconcilerActor,
            store,
            ResolveSettings(presumed_dead_s=settings.death_s, put_off_s=settings.reconcile_timeout_s + 5.0),
            every_s=settings.poll_s,
            timeout_s=settings.reconcile_timeout_s,
            rng=rng,
        ),
        capacity=mailbox,
    )
    # Stopped in reverse: control before those who are told of hosts that end, and what tells people last.
    telling = [ChildSpec("tree_teller", partial(TreeTeller, store)), *_health(store, settings, hosts)]
    parts = [reconciler, sweeper, control, scheduler_spec(store, clock, rng)]
    return supervise("worker", [*telling, *_receipts(store, settings), *parts])


def _hosts(settings: WorkerSettings, make: Callable[..., Host], mailbox: int) -> list[ChildSpec]:
    names = [*(f"host-{n + 1}" for n in range(settings.hosts)), *(f"{SOLO}{n + 1}" for n in range(settings.solo))]
    return [
        ChildSpec(
            name,
            partial(make, solo=name.startswith(SOLO)),
            capacity=mailbox,
            stop_within_s=STOP_SLACK_S,
            start_within_s=60.0,
            ends="its process is killed",
        )
        for name in names
    ]


def _lease_manager(store: Store, settings: WorkerSettings, clock: Clock, orders: Orders | None) -> LeaseManager:
    told = info(settings, quiet=orders is not None and orders.quiet)
    return LeaseManager(store, settings.session, clock, _name(settings), told)


def _turns(store: Store, settings: WorkerSettings, clock: Clock, rng: random.Random, orders: Orders | None) -> Turns:
    if orders is not None:
        orders.repeat()
    return Turns(store, settings, clock, rng)


def _health(store: Store, settings: WorkerSettings, hosts: Sequence[ChildSpec]) -> list[ChildSpec]:
    if settings.health_port is None and settings.metrics_port is None:
        return []
    return [ChildSpec("health", partial(Health, store, settings, [spec.name for spec in hosts]))]


def _receipts(store: Store, settings: WorkerSettings) -> list[ChildSpec]:
    if settings.receipts is None:
        return []
    # Made here, so that an address or a key that is none keeps the worker from starting.
    writer = receipts_to(settings.receipts)(store)
    return [ChildSpec("receipts", partial(Receipts, store, writer), stop_within_s=2 * STOP_SLACK_S)]


def _name(settings: WorkerSettings) -> str:
    return settings.name or f"{socket.gethostname()}-{os.getpid()}"


def info(settings: WorkerSettings, *, quiet: bool) -> bytes:
    """What people may want to know of a worker; nothing of it is ever compared."""
    told = {
        "pid": os.getpid(),
        "host": socket.gethostname(),
        "hosts": settings.hosts,
        "slots": settings.hosts * settings.slots,
        "app": settings.app,
        "queues": [str(share) for share in settings.queues],
        "version": version("mycelium"),
        "quiet": quiet,
    }
    return json.dumps(told).encode()
