"""Host actors with real processes, where their names are those of a worker's tree; turns only keep what they hear."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import TypeVar, cast

import msgspec

from kit.hosting import soon
from mycelium.actors.health.vitals import HostVitals
from mycelium.actors.runtime import Actor, ActorSystem, ChildSpec, supervise
from mycelium.actors.worker.attempt import Attempt, Phase
from mycelium.actors.worker.host import Host
from mycelium.actors.worker.messages import Ran, Start, TellVitals
from mycelium.actors.worker.settings import WorkerSettings
from mycelium.leases.session import Session
from mycelium.leases.store import Store, open_store
from mycelium.ledger.binding import Binding
from mycelium.ledger.states import BoundaryMode, EffectClass
from mycelium.ledger.turn import Grant

T = TypeVar("T")
HOSTS = "/worker/control/hosts"


class Collector(Actor[object]):
    """In the place of an actor that the hosts talk to."""

    def __init__(self, heard: asyncio.Queue[object]) -> None:
        self._heard = heard

    async def receive(self, message: object) -> object:
        self._heard.put_nowait(message)
        return None


class Trusted:
    """In the place of a session."""

    trusted_until_s = float("inf")

    def trusted(self) -> bool:
        return True


def attempt_of(
    tool: str, fence: str = "1", *, host: str = "host-1", timeout_s: float = 60.0, args: object = None
) -> Attempt:
    """An attempt as turns would give it to a host."""
    body = args if isinstance(args, bytes) else msgspec.json.encode(args or {})
    grant = Grant(
        request_id="r",
        fence=fence,
        attempt=1,
        tool=tool,
        queue="default",
        effect_class=EffectClass.READ,
        boundary_mode=BoundaryMode.NONE,
        effect_id="e",
        age_ms=0,
        left_ms=None,
        run="",
        key="",
        args=body,
    )
    binding = Binding(effect_class=EffectClass.READ, boundary_mode=BoundaryMode.NONE)
    session = cast("Session", Trusted())
    return Attempt(grant, binding, session, phase=Phase.RUNNING, host=host, timeout_s=timeout_s)


class HostStage:
    """Started hosts, and what they tell.

    Attributes:
        system: the actors.
        turns: what turns hear.
        reconciler: what the reconciler hears.
        progress: what the keeper of progress hears.
    """

    def __init__(self) -> None:
        self.turns: asyncio.Queue[object] = asyncio.Queue()
        self.reconciler: asyncio.Queue[object] = asyncio.Queue()
        self.progress: asyncio.Queue[object] = asyncio.Queue()
        self.system: ActorSystem

    async def hear(self, kind: type[T]) -> T:
        """The next thing that turns hear, which is of this kind."""
        told = await soon(self.turns.get())
        assert isinstance(told, kind), told
        return told

    def start(self, attempt: Attempt) -> Attempt:
        """Give an attempt to its host."""
        self.tell(attempt.host, Start(attempt))
        return attempt

    def tell(self, host: str, message: object) -> None:
        """Tell a host something."""
        self.system.find(f"{HOSTS}/{host}").tell(message)

    async def vitals(self, host: str) -> HostVitals:
        """Ask a host how it stands."""
        return cast("HostVitals", await self.system.find(f"{HOSTS}/{host}").ask(TellVitals(), timeout_s=30))

    async def pid_in(self, host: str = "host-1", tool: str = "pid") -> int:
        """Ask a tool in which process it runs."""
        self.start(attempt_of(tool, "99", host=host))
        ran = await self.hear(Ran)
        return msgspec.json.decode(ran.done.body, type=int)

    def tree(self, store: Store, settings: WorkerSettings, names: Sequence[str]) -> ChildSpec:
        """The part of a worker's tree that hosts know of."""
        rng = random.Random(7)
        hosts = [
            ChildSpec(
                name,
                partial(Host, store, settings, rng, solo=name.startswith("solo-")),
                start_within_s=60.0,
                stop_within_s=10.0,
            )
            for name in names
        ]
        parts = [
            ChildSpec("turns", partial(Collector, self.turns)),
            ChildSpec("progress", partial(Collector, self.progress)),
            supervise("hosts", hosts),
        ]
        return supervise(
            "worker", [ChildSpec("reconciler", partial(Collector, self.reconciler)), supervise("control", parts)]
        )


@asynccontextmanager
async def hosts_on_stage(
    url: str, namespace: str, names: Sequence[str] = ("host-1",), **settings: object
) -> AsyncGenerator[HostStage]:
    """Hosts of these names, gone afterwards."""
    made: dict[str, object] = {"app": "kit.isolated_tools", "url": url, "hosts": 1, "slots": 3, **settings}
    stage = HostStage()
    store = await open_store(url, namespace=namespace)
    try:
        tree = stage.tree(store, WorkerSettings(**made), names)  # type: ignore[arg-type]
        async with ActorSystem(tree) as stage.system:
            yield stage
    finally:
        await store.aclose()
