"""The scheduler in its tree: it learns the schedules from hosts, sleeps until something is due, and wakes up for it."""

from __future__ import annotations

import random
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from datetime import timedelta

from kit.clock import FakeClock
from kit.schedules import NOON, LocalClock, jobs, ping, set_clock, store_at
from mycelium.actors.runtime import Actor, ActorSystem, ChildSpec, supervise
from mycelium.actors.schedules.declaration import schedule
from mycelium.actors.schedules.facts import ScheduleFacts
from mycelium.actors.worker.messages import HostReady, TellReady
from mycelium.actors.worker.scheduler import LONGEST_PAUSE_S, scheduler_spec
from mycelium.leases.store import Store

HOURLY = {"hourly": schedule("hourly", ping, every=timedelta(hours=1)).facts}


class ReadyHost(Actor[TellReady]):
    """A host that tells its schedules to whoever asks."""

    def __init__(self, schedules: Mapping[str, ScheduleFacts]) -> None:
        self.schedules = schedules

    async def receive(self, message: TellReady) -> object:
        self.find(message.path).tell(HostReady(self.ref.name, 1, {}, schedules=self.schedules))
        return None


class Stage:
    """A worker's tree with one host, on a clock that goes for this machine and the server alike."""

    def __init__(self, store: Store, schedules: Mapping[str, ScheduleFacts]) -> None:
        self.store = store
        self.host = ReadyHost(schedules)
        self.clock = FakeClock()
        self.step_s = 10.0
        self._begun = self.clock.now
        hosts = supervise("hosts", [ChildSpec("host-1", lambda: self.host)])
        scheduler = scheduler_spec(store, LocalClock(), random.Random(7))
        root = supervise("worker", [supervise("control", [hosts]), scheduler])
        self.system = ActorSystem(root, timer=self.clock, rng=random.Random(7))

    async def pass_time(self, seconds: float) -> None:
        """Step by step, with a reading of the server in each, so that what goes over the wire has its time."""
        until = self.clock.now + seconds
        while self.clock.now < until:
            await self.clock.advance(min(self.step_s, until - self.clock.now))
            set_clock(self.store, NOON + timedelta(seconds=self.clock.now - self._begun))
            for _ in range(5):
                await self.store.calls.read("PING")


@asynccontextmanager
async def stage(url: str, namespace: str, schedules: Mapping[str, ScheduleFacts]) -> AsyncGenerator[Stage]:
    async with store_at(url, namespace) as store:
        opened = Stage(store, schedules)
        async with opened.system:
            yield opened


async def test_it_makes_the_jobs_of_the_schedules_that_hosts_have(url: str, namespace: str) -> None:
    async with stage(url, namespace, HOURLY) as worker:
        await worker.pass_time(3 * 3600 + 60)
        assert await jobs(worker.store) == [f"schedule:hourly:2026-06-01T{hour}:00:00Z" for hour in (13, 14, 15)]


async def test_it_asks_the_hosts_at_once(url: str, namespace: str) -> None:
    often = {"often": schedule("often", ping, every=timedelta(seconds=10)).facts}
    async with stage(url, namespace, often) as worker:
        worker.step_s = 1.0
        await worker.pass_time(LONGEST_PAUSE_S * 0.8)
        assert await jobs(worker.store) == [f"schedule:often:2026-06-01T12:00:{second}Z" for second in (10, 20)]


async def test_it_takes_up_the_schedules_of_a_host_that_was_replaced(url: str, namespace: str) -> None:
    async with stage(url, namespace, {}) as worker:
        await worker.pass_time(3600 + 60)
        assert await jobs(worker.store) == []
        worker.host.schedules = HOURLY
        await worker.pass_time(2 * LONGEST_PAUSE_S)
        await worker.pass_time(3600)
        assert await jobs(worker.store) == ["schedule:hourly:2026-06-01T14:00:00Z"]


async def test_one_that_failed_learns_the_schedules_anew(url: str, namespace: str) -> None:
    async with stage(url, namespace, HOURLY) as worker:
        await worker.pass_time(60)
        worker.system.find("/worker/scheduler").tell("nothing that it knows")
        await worker.pass_time(3600)
        assert await jobs(worker.store) == ["schedule:hourly:2026-06-01T13:00:00Z"]


async def test_without_schedules_it_asks_the_server_nothing(url: str, namespace: str) -> None:
    async with stage(url, namespace, {}) as worker:
        await worker.store.aclose()
        await worker.clock.advance(10 * LONGEST_PAUSE_S)
        assert worker.system.find("/worker/scheduler").path == "/worker/scheduler"
