"""A whole worker in the process of a test: the same actors, scripts and rules, with a clock and faults at hand."""

from __future__ import annotations

import asyncio
import random
import uuid
from collections.abc import AsyncGenerator, Generator, Iterable
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any, Final

from ..actors.client import Client, ClientSettings, Tools
from ..actors.hosts.host import HostSettings
from ..actors.hosts.listener import HostListener
from ..actors.load import App
from ..actors.runtime import ActorSystem
from ..actors.schedules.declaration import Schedule
from ..actors.submissions import tools_by_name
from ..actors.worker.messages import Quiet, TakeAgain, TellWhenDone, Wake
from ..actors.worker.queues import QueueShare, parse_queues
from ..actors.worker.settings import WorkerSettings
from ..actors.worker.tree import tree
from ..leases.errors import ActorStoppedError, ResultTimeoutError, SettingsError
from ..leases.session import SessionSettings
from ..leases.store import Store, StoreSettings, open_store
from ..ledger.line import DEFAULT_QUEUE
from ..ledger.replies import items, text
from ..ledger.sessions import list_sessions
from ..ledger.sweep import expire
from .clock import FakeClock
from .host import InMemoryHost
from .rest import Rest
from .servers import fake_server, private_server

SESSION: Final = SessionSettings(ttl_s=86400.0, renew_every_s=14400.0, call_timeout_s=5.0, margin_s=3600.0)
"""A day: a jump over weeks would otherwise stop at every few seconds to renew."""
STEPS = 32
"""In so many steps time is moved, if nothing falls due in between."""
_ROUNDS = 1000
_SPREAD_S = 0.5
"""So long after the due time of a schedule all workers have woken up for it."""
# A holder counts as dead as soon as in production, whatever the length of the session.
_DEFAULTS: Final[dict[str, Any]] = {
    "app": "tests",
    "hosts": 1,
    "poll_s": 0.2,
    "session": SESSION,
    "presumed_dead_s": 30.0,
}
_SERVERS = {"embedded": private_server, "fakeredis": fake_server}


class _Even(random.Random):
    """Chance without jitter: what is drawn from a range is its middle, so that retries come when they always do."""

    def uniform(self, a: float, b: float) -> float:
        return (a + b) / 2


@dataclass(slots=True)
class _Hosts:
    """The hosts of one worker, as its actors make them."""

    app: App
    made: list[InMemoryHost] = field(default_factory=list[InMemoryHost])

    def make(self, spec: str, slots: int, listener: HostListener, settings: HostSettings) -> InMemoryHost:
        self.made = [host for host in self.made if host.exited is None]
        self.made.append(InMemoryHost(self.app, spec, slots, listener, settings))
        return self.made[-1]


class InMemoryWorker:
    """One worker, while its block runs. Made by `in_memory_worker`, never directly.

    It works by itself, as any worker does: what is submitted runs. `run_until_idle` waits for it, `paused` keeps it
    from taking anything, and only `advance` makes anything fall due.

    Attributes:
        client: submits calls to it, by the same clock.
        clock: what time it is, for all of it.
        store: the server, as the worker sees it: for `list_transitions(worker.store)` and the like.
        url: the server's URL, for programs of their own.
        namespace: the namespace of its keys.
    """

    def __init__(  # noqa: PLR0913 - made in one place only
        self,
        system: ActorSystem,
        store: Store,
        client: Client,
        *,
        clock: FakeClock,
        settings: WorkerSettings,
        hosts: _Hosts,
    ) -> None:
        self.client = client
        self.clock = clock
        self.store = store
        self.url = store.url
        self.namespace = store.keys.namespace
        self._system = system
        self._settings = settings
        self._hosts = hosts
        self._rest = Rest(system, (store, client.store), lambda: hosts.made)
        self._stuck: set[object] = set()
        self._life: asyncio.Task[object] = asyncio.create_task(system.run())

    @property
    def running(self) -> list[str]:
        """Request ids of the calls whose bodies run now."""
        return [run.request_id for host in self._hosts.made for run in host.runs.values()]

    # ── letting it work ──────────────────────────────────────────────────────────────────────────────────────────────

    async def run_until_idle(self, *, timeout_s: float = 30.0) -> None:
        """Wait until all that is ready has run, and all that can be asked now was asked. Time is not moved.

        Args:
            timeout_s: real seconds that one call may run.

        Raises:
            ResultTimeoutError: a call still runs.
            ActorError: the worker has stopped, or a part of it failed too often.
        """
        self._stuck.clear()
        await self._settle(timeout_s, strict=True)

    async def advance(
        self, by: timedelta | float, *, step: timedelta | float | None = None, patience_s: float = 1.0
    ) -> None:
        """Move the time, and let happen what falls due: delayed jobs, retries, time-outs, askings.

        Before each step all that runs is waited for, so that what ends by itself does not meet its time-out.

        Args:
            by: how far, as a timedelta or in seconds.
            step: how far at once, where no job falls due; None: a 32nd of the whole.
            patience_s: real seconds after which a call that still runs is left to its time-out.

        Raises:
            SettingsError: a number is not above 0.
            ActorError: the worker has stopped, or a part of it failed too often.
        """
        left_s = _seconds("by", by)
        step_s = min(left_s / STEPS if step is None else _seconds("step", step), self._longest_step_s())
        self._stuck.clear()
        await self._settle(patience_s)
        while left_s > 0:
            due_s = await self._due_in_s()
            # A millisecond is the least that the scripts can tell apart.
            jump_s = min(left_s, max(min(step_s, due_s), 0.001))
            self.clock.jump(jump_s)
            left_s = round(left_s - jump_s, 6)
            await self._settle(patience_s)

    @contextmanager
    def paused(self) -> Generator[None, None, None]:
        """Keep it from taking anything while the block runs; what runs goes on."""
        self._tell("/worker/control/turns", Quiet())
        try:
            yield
        finally:
            self._tell("/worker/control/turns", TakeAgain())

    # ── faults ───────────────────────────────────────────────────────────────────────────────────────────────────────

    async def kill_host(self) -> None:
        """End the tool host under whatever runs, as a crash would. Returns when its next process takes calls.

        What was marked is unknown then, and what was not is ready again. A cancelled coroutine sees the cancellation,
        which one in a killed process would not; a thread goes on to its end, and can mark nothing.
        """
        for host in [host for host in self._hosts.made if host.lives]:
            host.kill()
        await self._rest.quiet()
        pause_s = 0.1
        while not any(host.lives for host in self._hosts.made):
            self._raise_failure()
            self.clock.jump(pause_s)
            pause_s *= 2
            await self._rest.quiet()
        await self._settle(0.0)

    async def lose_session(self) -> None:
        """Have the server end the worker's session, as if its renewals had not come through for a whole TTL.

        Another worker has then taken what it held: what was marked is unknown, and nothing says that the old attempt is
        over. The worker hears of it, cancels what runs, and opens the next session.
        """
        mine = [line for line in await list_sessions(self.store) if line.name == self._settings.name]
        for line in mine:
            later_ms = line.deadline_ms + round(self._settings.session.grace_s * 1000) + 1
            settings = replace(self.store.settings, now_ms=later_ms)
            elsewhere = await open_store(self.url, namespace=self.namespace, settings=settings)
            try:
                await expire(elsewhere, line.session_id)
            finally:
                await elsewhere.aclose()
        await self._settle(1.0)

    # ── how ──────────────────────────────────────────────────────────────────────────────────────────────────────────

    async def _settle(self, patience_s: float, *, strict: bool = False) -> None:
        """Ring every bell until nothing moves any more, and what runs has ended or had its chance."""
        for _ in range(_ROUNDS):
            before = await self._moves()
            self._ring()
            await self._rest.quiet()
            while waits := self._rest.bodies - self._stuck:
                self._raise_failure()
                if not await self._rest.changed(patience_s):
                    if strict:
                        raise self._still_running(patience_s)
                    self._stuck |= waits
                await self._rest.quiet()
            if await self._moves() == before:
                return
        what = f"Something still moved after {_ROUNDS} looks."
        raise ResultTimeoutError(what, next_step="Look for a tool that runs again at once, without end.")

    def _ring(self) -> None:
        self._raise_failure()
        for path in ("/worker/sweeper", "/worker/reconciler"):
            self._tell(path, Wake())
        # Told to say when there is nothing to do, it looks whether there is.
        self._tell("/worker/control/turns", TellWhenDone(asyncio.Event()))

    def _tell(self, path: str, message: object) -> None:
        # Between two lives of a part there may be nobody; the next one looks by itself.
        with suppress(ActorStoppedError):
            self._system.find(path).tell(message)

    async def _moves(self) -> object:
        """The number of the last script call that moved anything."""
        return await self.store.calls.read("HGET", self.store.keys.meta(), "seq")

    async def _due_in_s(self) -> float:
        """Seconds until a job is due, or made by a schedule, or an unknown one is asked about."""
        keys = self.store.keys
        now_ms = self.clock.now_ms
        lines = [keys.delayed(), keys.expiring(), keys.gates(), *(keys.unknown(tool) for tool in self._hosts.app.tools)]
        reads = [
            self.store.calls.read("ZRANGEBYSCORE", line, f"({now_ms}", "+inf", "WITHSCORES", "LIMIT", 0, 1)
            for line in lines
        ]
        found = [items(reply) for reply in await asyncio.gather(*reads)]
        due_s = [(float(text(pair[1])) - now_ms) / 1000 for pair in found if pair]
        now = self.clock.now
        nexts = [schedule.facts.rule.after(now) for schedule in self._hosts.app.schedules.values()]
        due_s += [(due - now).total_seconds() + _SPREAD_S for due in nexts if due is not None]
        return min(due_s, default=float("inf"))

    def _longest_step_s(self) -> float:
        session = self._settings.session
        return (session.ttl_s - session.margin_s - session.renew_every_s) / 2

    def _raise_failure(self) -> None:
        if self._life.done():
            self._life.result()
            raise ActorStoppedError("The worker has stopped.", next_step="See the log for what stopped it.")

    def _still_running(self, timeout_s: float) -> ResultTimeoutError:
        what = f"{', '.join(self.running) or 'A reconciler'} still runs after {timeout_s:g} s."
        return ResultTimeoutError(
            what, next_step="Let go of what it waits for, or advance() past its timeout.", state="attempting"
        )

    async def stop(self) -> None:
        """Called at the end of the block: stop every part, and cancel what runs.

        Raises:
            ActorError: it had stopped before, or a part of it had failed too often.
        """
        failed = self._life.done()
        await self._system.stop()
        await asyncio.wait({self._life})
        if failed:
            self._raise_failure()


@asynccontextmanager
async def in_memory_worker(
    tools: Tools,
    *,
    schedules: Iterable[Schedule] = (),
    server: str = "embedded",
    namespace: str | None = None,
    **settings: Any,  # noqa: ANN401 - the fields of WorkerSettings, which checks them
) -> AsyncGenerator[InMemoryWorker, None]:
    """Run a worker in this process, on this loop, while the block runs.

    Args:
        tools: what it can run.
        schedules: when it calls tools by itself.
        server: `embedded`: a real server in memory, for this worker only; `fakeredis`; or the URL of one that is there.
        namespace: the namespace of its keys; None: one that nobody else has.
        **settings: fields of `WorkerSettings`, as `slots=1`. The session is a day long if none is given. It takes from
            the queues that its tools and schedules declare, or from `queues`, as `-Q` has it: `"mail:3@10,default"`.

    Raises:
        SettingsError: a setting is out of its range, fakeredis is not installed, or the loop's time cannot be moved.
        BadCallError: something among `tools` is no tool.
        ServerError: the server cannot be reached, or may not hold a ledger.
    """
    known = tools_by_name(tools)
    name = f"in-memory-{uuid.uuid4().hex[:8]}"
    app = App(known, {each.name: each for each in schedules})
    fields: dict[str, Any] = {**_DEFAULTS, "name": name, "queues": _queues_of(app), **settings}
    if isinstance(fields["queues"], str):
        fields["queues"] = parse_queues(fields["queues"])
    chosen = WorkerSettings(**fields)
    loop = asyncio.get_running_loop()
    clock = FakeClock()
    async with AsyncExitStack() as ends:
        ends.callback(loop.set_task_factory, loop.get_task_factory())
        url = ends.enter_context(_SERVERS[server]()) if server in _SERVERS else server
        ends.enter_context(clock.over(loop))
        times = StoreSettings(renew_timeout_s=chosen.session.call_timeout_s, now_ms=clock.now_ms)
        at = {"url": url, "namespace": namespace or f"test-{uuid.uuid4().hex[:12]}"}
        store = await ends.enter_async_context(_closing(await open_store(**at, settings=times)))
        other = await ends.enter_async_context(_closing(await open_store(**at, settings=times)))
        client = Client(other, tools=known, settings=ClientSettings(poll_s=chosen.poll_s, store=times))
        ends.push_async_callback(client.aclose)
        clock.rules(store)
        clock.rules(other)
        hosts, rng = _Hosts(app), _Even()
        system = ActorSystem(tree(store, chosen, clock, rng, make_process=hosts.make), rng=rng)
        await system.start()
        worker = InMemoryWorker(system, store, client, clock=clock, settings=chosen, hosts=hosts)
        ends.push_async_callback(worker.stop)
        yield worker


def _queues_of(app: App) -> tuple[QueueShare, ...]:
    declared = {tool.terms.queue for tool in app.tools.values()}
    declared |= {each.facts.intent.line.queue for each in app.schedules.values() if each.facts.intent.line is not None}
    return tuple(QueueShare(name) for name in sorted(declared | {DEFAULT_QUEUE}))


@asynccontextmanager
async def _closing(store: Store) -> AsyncGenerator[Store, None]:
    try:
        yield store
    finally:
        await store.aclose()


def _seconds(name: str, value: timedelta | float) -> float:
    seconds = value.total_seconds() if isinstance(value, timedelta) else float(value)
    if not 0 < seconds < float("inf"):
        raise SettingsError(f"{name} is {seconds:g} seconds.", next_step="Time only goes forward: give more than 0.")
    return seconds
