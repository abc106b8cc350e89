"""No error anywhere in the control process leaves a worker that looks alive and takes nothing.

For every method of every actor of the tree: a real worker runs jobs, the method fails once at its next call, and from
then on either jobs end as ever, those that were on their way included, or the worker has failed loudly.
"""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import itertools
import logging
import os
import random
import signal
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from chaos import tools
from chaos.stage import HERE, SESSION, Stage, children, plain, until

from mycelium.actors.hosts.deathwatch import DeathWatch
from mycelium.actors.hosts.host import HostProcess
from mycelium.actors.runtime import Actor, ActorSystem
from mycelium.actors.worker.host import Host
from mycelium.actors.worker.hosted import Hosted
from mycelium.actors.worker.life import run_worker
from mycelium.actors.worker.messages import Drain
from mycelium.actors.worker.reconciler import ReconcilerActor
from mycelium.actors.worker.settings import WorkerSettings
from mycelium.actors.worker.tree import tree
from mycelium.leases.clock import BootClock
from mycelium.leases.errors import EscalationError
from mycelium.leases.session import SessionSettings
from mycelium.leases.store import open_store

ACTORS: list[type] = [
    actor
    for actor in Actor.__subclasses__()
    if actor.__module__.startswith("mycelium.actors.") and ".runtime" not in actor.__module__
]
"""All that the module of the worker brings along."""
CALLBACKS = ((HostProcess, "_died"), (HostProcess, "_take"), (HostProcess, "_watch"), (DeathWatch, "_readable"))
"""What the event loop calls in no actor's turn."""

Site = tuple[type, str]
AT = "/worker"
_ENDS_ONLY = {"stopping", "restarting"}
"""Hooks of an end: what they raise is logged, and the life is over all the same."""
_IDLE_HERE = {"Health", "Scheduler", "ProgressTeller", "Receipts"}
"""Actors that these jobs give nothing to do; of no other actor's life does theirs decide."""
_NOT_MET_HERE = {
    *("fell_silent", "answers", "on_busy", "on_answers", "_tell_busy", "_replace", "_tell_changed", "_vitals"),
    *("on_progress", "cancel", "_cancel_forgotten", "_describe"),
}
"""What is called in a life that these trials do not bring about: busy and worn hosts, progress, cancels, an epoch."""


_OUTSIDE = ("_end_grace", "_give_up_on_server")
"""Methods of the turns that are callbacks."""


def _sites(owner: type) -> list[Site]:
    """The methods of a class that are called while it lives: tasks, handlers, ticks and callbacks.

    Of hosts it is every method: their lives end alone, and attempts must not be forgotten half-way. Elsewhere it makes
    no difference where within a task or a handler it fails: all that it knew goes with its life.
    """
    methods = {name: method for name, method in vars(owner).items() if inspect.isfunction(method)}
    ways_in = {name for name, method in methods.items() if inspect.iscoroutinefunction(method) or name in _OUTSIDE}
    names = [name for name in methods if owner in {Host, Hosted} or name in ways_in]
    left_out = {"__init__", *_ENDS_ONLY, *_NOT_MET_HERE}
    return [(owner, name) for name in names if name not in left_out and owner.__name__ not in _IDLE_HERE]


SITES = [*[site for owner in (*ACTORS, Hosted) for site in _sites(owner)], *CALLBACKS]


class Defect(Exception):  # noqa: N818 - what nobody expected
    """An error that no code handles."""


class Fault:
    """Strikes once, when it is armed."""

    def __init__(self) -> None:
        self.armed = False
        self.struck = False

    def strike(self) -> None:
        if self.armed and not self.struck:
            self.struck = True
            raise Defect


def _failing(method: Callable[..., Any], fault: Fault) -> Callable[..., Any]:
    """A method that fails before it has done anything; inside its guard, if it has one."""
    whole = getattr(method, "__wrapped__", None)
    if whole is not None:
        failing = _failing(whole, fault)

        def within(self: Any, *args: Any) -> None:  # noqa: ANN401 - an actor, or what belongs to one
            (self if isinstance(self, Actor) else self.owner).guard(failing)(self, *args)

        return within
    if inspect.iscoroutinefunction(method):

        async def later(*args: Any, **kwargs: Any) -> Any:  # noqa: ANN401 - whatever the method takes and gives
            fault.strike()
            return await method(*args, **kwargs)

        return later

    def now(*args: Any, **kwargs: Any) -> Any:  # noqa: ANN401 - (the same)
        fault.strike()
        return method(*args, **kwargs)

    return now


class Run:
    """A worker in this process, and jobs for it."""

    def __init__(self, stage: Stage, system: ActorSystem) -> None:
        self.stage = stage
        self.system = system
        self.running = asyncio.ensure_future(system.run(owns_loop=True))
        self._rounds = itertools.count(1)

    @property
    def failed(self) -> bool:
        return self.running.done() and self.running.exception() is not None

    async def jobs(self) -> list[str]:
        """One of each kind: a read, a write, one that marks by itself, and one whose provider can be asked."""
        number, stage = next(self._rounds), self.stage
        kinds = (tools.look, tools.charge, tools.charge_marked, tools.charge_asked)
        return [await stage.submit(tool, f"{number}-{tool.name}") for tool in kinds]

    async def all_ended(self) -> None:
        """Wait until every job has ended, or the worker has failed loudly."""
        over = asyncio.ensure_future(self.stage.ended(30.0))
        await asyncio.wait({over, self.running}, return_when=asyncio.FIRST_COMPLETED)
        if not self.running.done():
            await over
        over.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await over
        assert self.failed or not self.running.done()

    async def shake(self) -> None:
        """Bring about what a worker meets in its life: a host that dies under a call, a lost session, restarts."""
        gate = self.stage.gate()
        held = await self.stage.submit(tools.charge_asked, f"held-{next(self._rounds)}", gate=gate.path)
        await until(lambda: self.failed or self.stage.effects[held])
        for pid in children(os.getpid()):
            os.kill(pid, signal.SIGKILL)
        await self.all_ended()

    async def ask_a_provider(self) -> None:
        """Let a call time out whose provider can be asked; no host begins anew, so nobody is told of hosts again."""
        await self.stage.submit(tools.charge_marked_asked, f"slow-{next(self._rounds)}", seconds=2.5)
        await self.all_ended()

    async def lose_session(self) -> None:
        sessions = self.stage.client.store.keys.sessions()
        async with plain(self.stage.url) as direct:
            for session in await direct.zrange(sessions, 0, -1):
                await direct.zadd(sessions, {session: 1})
        await self.jobs()
        await self.all_ended()

    async def wait_for(self, fault: Fault) -> None:
        """Nothing happens but what comes by itself now and then."""
        with contextlib.suppress(AssertionError):
            await until(lambda: fault.struck or self.failed, 2.0)
        await self.jobs()
        await self.all_ended()

    async def fails_as_it_drains(self, fault: Fault) -> bool:
        """Tell it to take nothing more; what fails then ends it at once, or begins anew."""
        self.system.find(f"{AT}/control/turns").tell(Drain(0.1))
        with contextlib.suppress(AssertionError):
            await until(lambda: fault.struck, 2.0)
        if fault.struck:
            await self.jobs()
            await self.all_ended()
        return fault.struck

    async def restart(self, *paths: str) -> None:
        """Cancel the tasks of actors, as nobody should."""
        for task in asyncio.all_tasks():
            if task.get_name() in paths:
                task.cancel()
        await self.jobs()
        await self.all_ended()


def _settings(stage: Stage, **changes: Any) -> WorkerSettings:  # noqa: ANN401 - fields of the settings
    return WorkerSettings(
        app="chaos.tools",
        url=stage.url,
        namespace=stage.namespace,
        hosts=1,
        slots=4,
        session=SessionSettings(**SESSION),
        poll_s=0.2,
        presumed_dead_s=0.5,
        reconcile_timeout_s=0.5,
        **changes,
    )


@asynccontextmanager
async def working(stage: Stage, settings: WorkerSettings) -> AsyncGenerator[Run]:
    """A worker that has done jobs already."""
    store = await open_store(stage.url, namespace=stage.namespace)
    try:
        run = Run(stage, ActorSystem(tree(store, settings, BootClock(), random.Random(7))))
        try:
            await run.jobs()
            await run.all_ended()
            assert not run.running.done()
            yield run
        finally:
            with contextlib.suppress(EscalationError, Defect):
                await run.system.stop()
                await run.running
    finally:
        await store.aclose()


@pytest.fixture(autouse=True)
def _tools_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    path = os.pathsep.join([str(HERE.parent), *filter(None, [os.environ.get("PYTHONPATH")])])
    monkeypatch.setenv("PYTHONPATH", path)
    monkeypatch.setenv("MYCELIUM_RECEIPT_KEY", "k1:" + "ab" * 32)


# A worker that fails loudly leaves it to the system to collect the exit status of a host.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("site", SITES, ids=lambda site: f"{site[0].__name__}.{site[1]}")
async def test_after_an_error_anywhere_jobs_end_as_ever_or_the_worker_fails_loudly(
    site: Site, stage: Stage, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    owner, name = site
    fault = Fault()
    monkeypatch.setattr(owner, name, _failing(vars(owner)[name], fault))
    async with working(stage, _settings(stage, receipts=str(tmp_path / "receipts"))) as run:
        caplog.clear()
        fault.armed = True
        trials = (
            run.shake,
            run.lose_session,
            lambda: run.restart(f"{AT}/control/turns"),
            lambda: run.restart(f"{AT}/reconciler", f"{AT}/sweeper", f"{AT}/tree_teller"),  # a fourth is a storm
            lambda: run.wait_for(fault),
        )
        await run.jobs()
        if owner is ReconcilerActor:
            await run.wait_for(fault)  # before a host begins anew, and tells of itself again
        for trial in trials:
            await run.all_ended()
            if fault.struck or run.failed:
                break
            await trial()
        assert fault.struck or not run.failed
        if not fault.struck and await run.fails_as_it_drains(fault):
            return
        if not fault.struck:
            pytest.skip(f"{name} is not reached in these trials")
        if not run.failed:
            await run.jobs()
            if owner is ReconcilerActor:
                await run.ask_a_provider()
            await run.shake()
        assert [record for record in caplog.records if record.levelno >= logging.WARNING]


async def test_a_worker_whose_loop_takes_an_error_stops_in_order_and_says_so(
    stage: Stage, caplog: pytest.LogCaptureFixture
) -> None:
    def fail() -> None:
        raise Defect

    worker = asyncio.ensure_future(run_worker(_settings(stage)))
    await stage.submit(tools.look, "a")
    await stage.ended(30.0)
    asyncio.get_running_loop().call_soon(fail)
    with pytest.raises(EscalationError, match="Defect"):
        await asyncio.wait_for(worker, 30.0)
    assert "Defect" in next(record for record in caplog.records if record.levelno == logging.CRITICAL).getMessage()
    assert not await stage.client.store.calls.read("ZCARD", stage.client.store.keys.sessions())
