"""The life of a worker: from its start to its exit code."""

from __future__ import annotations

import asyncio
import logging
import random
from contextlib import suppress

from ...leases.clock import BootClock
from ...leases.errors import ActorStoppedError, MyceliumError
from ...leases.store import Store, StoreSettings, open_store
from ..runtime import ActorSystem
from .exits import WorkerExit
from .messages import Drain
from .orders import Orders, signals_to
from .orphans import collect_orphans
from .settings import WorkerSettings
from .tree import STOP_SLACK_S, info, tree

log = logging.getLogger(__name__)


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
    orders = Orders(burst=settings.burst, info=lambda quiet: info(settings, quiet=quiet))
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
    log.info(
        "worker of %s at %s, namespace %s: queues %s, %d hosts of %d slots",
        settings.app,
        store.address,
        settings.namespace,
        ",".join(map(str, settings.queues)),
        settings.hosts,
        settings.slots,
    )
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
    limit_s = settings.grace_s + STOP_SLACK_S
    await asyncio.wait({running, hurried, idle}, timeout=limit_s, return_when=asyncio.FIRST_COMPLETED)
    if orders.hurry.is_set() and not drain.idle.is_set():
        orders.drain(Drain(0.0, drain.idle, drain.cut_off))
        await asyncio.wait({running, idle}, timeout=STOP_SLACK_S, return_when=asyncio.FIRST_COMPLETED)
    for task in (hurried, idle):
        task.cancel()
    return drain.idle.is_set() and not drain.cut_off.is_set()
