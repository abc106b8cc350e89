"""A worker: the tree of its actors, declared in one place, and its life from start to exit code."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import random
import socket
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from importlib.metadata import version

from ..leases.clock import BootClock, Clock
from ..leases.errors import ActorStoppedError, MyceliumError
from ..leases.store import Store, StoreSettings, open_store
from ..ledger.receipts import receipts_to
from ..reconcilers.resolve import ResolveSettings
from .exits import WorkerExit
from .health import Health
from .host import SOLO, Host
from .hosts.host import HostProcess, MakesHost
from .lease_manager import LeaseManager
from .marks import Marks
from .messages import Drain
from .orders import Orders, signals_to
from .orphans import collect_orphans
from .progress import ProgressTeller
from .receipts import Receipts
from .reconciler import ReconcilerActor
from .runtime import ActorSystem, ChildSpec, Strategy, supervise
from .scheduler import scheduler_spec
from .settings import WorkerSettings
from .sweeper import Sweeper
from .tree_teller import TreeTeller
from .turns import Turns

log = logging.getLogger(__name__)

_STOP_SLACK_S = 5.0


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
            stop_within_s=_STOP_SLACK_S,
            start_within_s=60.0,
            ends="its process is killed",
        )
        for name in names
    ]


def _lease_manager(store: Store, settings: WorkerSettings, clock: Clock, orders: Orders | None) -> LeaseManager:
    info = _info(settings, quiet=orders is not None and orders.quiet)
    return LeaseManager(store, settings.session, clock, _name(settings), info)


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
    return [ChildSpec("receipts", partial(Receipts, store, writer), stop_within_s=2 * _STOP_SLACK_S)]


async def run_worker(settings: WorkerSettings) -> WorkerExit:
    """Run one worker until it is told to stop, has nothing left to do (`burst`), or cannot go on.

    SIGTERM and SIGINT drain it: it claims nothing more, gives back what has not begun, waits for the rest up to the
    grace, and releases its session last. A second one ends the grace at once. SIGTSTP and SIGUSR1 let it take nothing
    more and go on with what runs; SIGUSR2 lets it take jobs again. As process 1 it collects what it inherits.

    Returns:
        The exit code for its process: see `WorkerExit`.

    Raises:
        MyceliumError: it could not start: the server, the tools or the settings.
    """
    orders = Orders(burst=settings.burst, info=lambda quiet: _info(settings, quiet=quiet))
    orphans = asyncio.create_task(collect_orphans())
    orphans.add_done_callback(_tell_loop)
    try:
        with signals_to(orders):
            store = await _open(settings, orders)
            if store is None:
                return WorkerExit.STOPPED
            try:
                return await _serve(store, settings, orders)
            finally:
                await store.aclose()
    finally:
        orphans.cancel()


def _tell_loop(task: asyncio.Task[None]) -> None:
    """What fails beside the tree is as bad as what fails in it: the loop's handler stops everything."""
    if not task.cancelled() and (error := task.exception()) is not None:
        told = {"message": "a task beside the tree has failed", "exception": error, "task": task}
        task.get_loop().call_exception_handler(told)


async def _open(settings: WorkerSettings, orders: Orders) -> Store | None:
    """Reach the server; None: told to stop before it was reached."""
    times = StoreSettings(renew_timeout_s=settings.session.call_timeout_s)
    opening = asyncio.create_task(open_store(settings.url, namespace=settings.namespace, settings=times))
    stopped = asyncio.create_task(orders.stop.wait())
    await asyncio.wait({opening, stopped}, return_when=asyncio.FIRST_COMPLETED)
    stopped.cancel()
    if opening.done():
        return opening.result()
    opening.cancel()
    with suppress(asyncio.CancelledError, MyceliumError):
        await (await opening).aclose()
    return None


async def _serve(store: Store, settings: WorkerSettings, orders: Orders) -> WorkerExit:
    rng = random.Random()  # noqa: S311 - jitter, no secret
    system = ActorSystem(tree(store, settings, BootClock(), rng, orders), rng=rng)
    orders.serve(system)
    running = asyncio.create_task(system.run(owns_loop=True))
    ends = {asyncio.create_task(event.wait()) for event in (orders.stop, orders.done)}
    await asyncio.wait({running, *ends}, return_when=asyncio.FIRST_COMPLETED)
    for end in ends:
        end.cancel()
    if running.done():
        return _failed(running)
    orderly = await _drain(system, running, settings, orders)
    await system.stop()
    with suppress(ActorStoppedError):
        await running
    if orderly:
        return WorkerExit.STOPPED
    log.warning("stopped with calls cut off: see `mycelium transitions list --state unknown`")
    return WorkerExit.CUT_OFF


def _failed(running: asyncio.Task[object]) -> WorkerExit:
    """A failure to start is the caller's to show; a failure later is told in the log, loudly, and by the exit code."""
    error = running.exception()
    if isinstance(error, MyceliumError):
        raise error
    if error is not None:
        log.critical("the worker stops: %s", type(error).__name__, exc_info=error)
    return WorkerExit.FAILED


async def _drain(system: ActorSystem, running: asyncio.Task[object], settings: WorkerSettings, orders: Orders) -> bool:
    """Wait until nothing is left, or the grace is over; False: something was cut off, or may have been."""
    if orders.stop.is_set():
        log.info("stopping: nothing new is claimed; what is marked gets %g s", settings.grace_s)
    else:
        log.info("stopping: there is nothing left to do")
    drain = Drain(settings.grace_s)
    if not orders.drain(drain):
        return True  # told to stop while it starts: nobody claims yet, and the start ends with the stop
    with suppress(ActorStoppedError):
        system.find("/worker/health").tell(drain)
    hurried = asyncio.create_task(orders.hurry.wait())
    idle = asyncio.create_task(drain.idle.wait())
    limit_s = settings.grace_s + _STOP_SLACK_S
    await asyncio.wait({running, hurried, idle}, timeout=limit_s, return_when=asyncio.FIRST_COMPLETED)
    if orders.hurry.is_set() and not drain.idle.is_set():
        orders.drain(Drain(0.0, drain.idle, drain.cut_off))
        await asyncio.wait({running, idle}, timeout=_STOP_SLACK_S, return_when=asyncio.FIRST_COMPLETED)
    for task in (hurried, idle):
        task.cancel()
    return drain.idle.is_set() and not drain.cut_off.is_set()


def _name(settings: WorkerSettings) -> str:
    return settings.name or f"{socket.gethostname()}-{os.getpid()}"


def _info(settings: WorkerSettings, *, quiet: bool) -> bytes:
    """What people may want to know of a worker; nothing of it is ever compared."""
    info = {
        "pid": os.getpid(),
        "host": socket.gethostname(),
        "hosts": settings.hosts,
        "slots": settings.hosts * settings.slots,
        "app": settings.app,
        "queues": [str(share) for share in settings.queues],
        "version": version("mycelium"),
        "quiet": quiet,
    }
    return json.dumps(info).encode()
