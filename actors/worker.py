"""A worker: the tree of its actors, declared in one place, and its life from start to exit code."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import random
import signal
import socket
from contextlib import suppress
from functools import partial

from ..leases.clock import BootClock, Clock
from ..leases.errors import ActorStoppedError, MyceliumError
from ..leases.store import Store, StoreSettings, open_store
from ..ledger.receipts import receipts_to
from ..reconcilers.resolve import ResolveSettings
from .host import Host
from .lease_manager import LeaseManager
from .marks import Marks
from .messages import Drain
from .receipts import Receipts
from .reconciler import ReconcilerActor
from .runtime import ActorSystem, ChildSpec, Strategy, supervise
from .settings import WorkerSettings
from .sweeper import Sweeper
from .turns import Turns

log = logging.getLogger(__name__)

EXIT_OK = 0
EXIT_FAILED = 1

_STOP_SLACK_S = 5.0


def tree(store: Store, settings: WorkerSettings, clock: Clock, rng: random.Random) -> ChildSpec:
    """Declare the worker.

    The four parts of `control` hold one session between them: none of them is of use without the others, so they fall
    together, and what the session held runs out with it. The sweeper, the reconciler and the follower of receipts hold
    nothing.

    Raises:
        SettingsError: receipts are to go where they cannot, or there is no key for them.
    """
    session = settings.session
    mailbox = 64 + 16 * settings.hosts * settings.slots
    hosts = supervise(
        "hosts",
        [
            ChildSpec(
                f"host-{number}",
                partial(Host, store, settings, rng),
                capacity=mailbox,
                stop_within_s=_STOP_SLACK_S,
                start_within_s=60.0,
                ends="its process is killed",
            )
            for number in range(1, settings.hosts + 1)
        ],
    )
    control = supervise(
        "control",
        [
            ChildSpec(
                "lease_manager",
                partial(LeaseManager, store, session, clock, _name(settings), _info(settings)),
                stop_within_s=session.ttl_s,
                ends="its session runs out",
            ),
            ChildSpec("marks", partial(Marks, store), capacity=mailbox),
            ChildSpec("turns", partial(Turns, store, settings, clock, rng), capacity=mailbox),
            hosts,
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
    # Stopped in reverse: control first, while there is still somebody to tell of hosts that end; receipts last.
    return supervise("worker", [*_receipts(store, settings), reconciler, sweeper, control])


def _receipts(store: Store, settings: WorkerSettings) -> list[ChildSpec]:
    if settings.receipts is None:
        return []
    # Made here, so that an address or a key that is none keeps the worker from starting.
    writer = receipts_to(settings.receipts)(store)
    return [ChildSpec("receipts", partial(Receipts, store, writer), stop_within_s=2 * _STOP_SLACK_S)]


async def run_worker(settings: WorkerSettings) -> int:
    """Run one worker until it is told to stop, or cannot go on.

    SIGTERM and SIGINT drain it: it claims nothing more, gives back what has not begun, waits for the rest up to the
    grace, and releases its session last. A second one ends the grace at once.

    Returns:
        0 after an orderly stop; 1 when a part of it failed too often.

    Raises:
        MyceliumError: it could not start: the server, the tools or the settings.
    """
    store = await open_store(
        settings.url,
        namespace=settings.namespace,
        settings=StoreSettings(renew_timeout_s=settings.session.call_timeout_s),
    )
    try:
        return await _serve(store, settings)
    finally:
        await store.aclose()


async def _serve(store: Store, settings: WorkerSettings) -> int:
    rng = random.Random()  # noqa: S311 - jitter, no secret
    system = ActorSystem(tree(store, settings, BootClock(), rng), rng=rng)
    stop = asyncio.Event()
    hurry = asyncio.Event()

    def told() -> None:
        (hurry if stop.is_set() else stop).set()

    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, told)
    running = asyncio.create_task(system.run())
    stopped = asyncio.create_task(stop.wait())
    try:
        await asyncio.wait({running, stopped}, return_when=asyncio.FIRST_COMPLETED)
        if running.done():
            return _failed(running)
        # Told to stop while it starts, there may be no turns to drain, and the start ends with the stop.
        with suppress(ActorStoppedError):
            await _drain(system, settings, hurry)
        await system.stop()
        with suppress(ActorStoppedError):
            await running
    finally:
        stopped.cancel()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.remove_signal_handler(number)
    return EXIT_OK


def _failed(running: asyncio.Task[object]) -> int:
    """A failure to start is the caller's to show; a failure later is told in the log, loudly, and by the exit code."""
    error = running.exception()
    if isinstance(error, MyceliumError):
        raise error
    if error is not None:
        log.critical("the worker stops: %s", type(error).__name__, exc_info=error)
    return EXIT_FAILED


async def _drain(system: ActorSystem, settings: WorkerSettings, hurry: asyncio.Event) -> None:
    log.info("stopping: nothing new is claimed; what is marked gets %g s", settings.grace_s)
    turns = system.find("/worker/control/turns")
    drain = Drain(settings.grace_s)
    turns.tell(drain)
    hurried = asyncio.create_task(hurry.wait())
    idle = asyncio.create_task(drain.idle.wait())
    limit_s = settings.grace_s + _STOP_SLACK_S
    await asyncio.wait({hurried, idle}, timeout=limit_s, return_when=asyncio.FIRST_COMPLETED)
    if hurry.is_set() and not drain.idle.is_set():
        turns.tell(Drain(0.0, drain.idle))
        await asyncio.wait({idle}, timeout=_STOP_SLACK_S)
    for task in (hurried, idle):
        task.cancel()


def _name(settings: WorkerSettings) -> str:
    return settings.name or f"{socket.gethostname()}-{os.getpid()}"


def _info(settings: WorkerSettings) -> bytes:
    """What people may want to know of a worker; nothing of it is ever compared."""
    info = {
        "pid": os.getpid(),
        "host": socket.gethostname(),
        "hosts": settings.hosts,
        "slots": settings.hosts * settings.slots,
        "app": settings.app,
    }
    return json.dumps(info).encode()
