"""kill -9 of the worker, of its tool host and of the server, each at every point in the life of an attempt."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

import pytest
from chaos import tools
from chaos.stage import MARK, TTL_S, TURN, Gate, Stage, Worker, load_scripts, runs, staged, until, until_async

from kit.proxy import Arm, FaultProxy
from kit.servers import RealServer
from mycelium.ledger.states import Boundary, BoundaryMode, State

StartProxy = Callable[[str], Awaitable[FaultProxy]]

AUTOMATIC = (tools.look, tools.put, tools.charge, tools.charge_asked)
EXPLICIT = (tools.charge_marked, tools.charge_marked_asked)
MANY = 60
"""More calls of one script than a worker makes before it is killed."""
LANES = 2
"""Turns that a worker has in flight."""


class Point(StrEnum):
    BEFORE_CLAIM = "before claim"
    """The turns of the worker do not get to the server."""
    AFTER_CLAIM = "after claim"
    """Its marks do not get to the server; what needs none runs."""
    AFTER_MARK = "after mark"
    """The marks are written, and their replies do not come."""
    AFTER_EFFECT = "after the effect"
    """Every effect has happened, and no tool has returned."""
    AFTER_SETTLE = "after settle"
    """The settlements are written, and their replies do not come."""


class Target(StrEnum):
    WORKER = "worker"
    HOST = "host"
    SERVER = "server"


@dataclass
class Scene:
    """One worker behind a proxy, with one job of each tool brought to one point."""

    stage: Stage
    proxy: FaultProxy
    worker: Worker
    gate: Gate
    held: list[Arm]
    settled: set[str] = field(default_factory=set)

    @property
    def jobs(self) -> list[str]:
        return list(self.stage.keys)

    def hold_calls(self, script: bytes) -> None:
        self.held = [self.proxy.cut_before(script, nth=nth) for nth in range(1, MANY)]

    def hold_replies(self, script: bytes) -> None:
        self.held = [self.proxy.hold(script, nth=nth) for nth in range(1, MANY)]

    def release(self) -> None:
        """No more faults; what hangs on one goes by a new connection."""
        self.proxy._arms.clear()
        for arm in self.held:
            arm.released.set()
        self.proxy.cut()

    async def bring_to(self, point: Point) -> None:
        match point:
            case Point.BEFORE_CLAIM:
                self.hold_calls(TURN)
                await self.submit()
                await until(self.held[0].fired.is_set)
            case Point.AFTER_CLAIM:
                self.hold_calls(MARK)
                await self.submit()
                await until_async(self.claimed)
                await until(self.held[0].fired.is_set)
            case Point.AFTER_MARK:
                self.hold_replies(MARK)
                await self.submit()
                await until_async(self.marked)
            case Point.AFTER_EFFECT:
                await self.submit()
                await until(lambda: len(self.stage.effects) == len(self.jobs))
            case Point.AFTER_SETTLE:
                await self.submit()
                await until(lambda: len(self.stage.effects) == len(self.jobs))
                self.hold_replies(TURN)
                self.gate.open()
                await until_async(self.settled_as_far_as_can_be)

    async def settled_as_far_as_can_be(self) -> bool:
        """All of it, or what two turns took along: a worker has no third one in flight."""
        records = await self.stage.records()
        self.settled = {key for key, record in records.items() if record.state is State.COMPLETED}
        held = sum(arm.fired.is_set() for arm in self.held)
        return len(self.settled) == len(records) or (held >= LANES and bool(self.settled))

    async def submit(self) -> None:
        """As one batch: all are claimed by one turn."""
        chosen = EXPLICIT if "explicit" in self.stage.namespace else AUTOMATIC
        await asyncio.gather(*[self.stage.submit(tool, tool.name, gate=self.gate.path) for tool in chosen])

    async def claimed(self) -> bool:
        return await self.stage.in_state(self.jobs, State.CLAIMED, State.ATTEMPTING)

    async def marked(self) -> bool:
        records = await self.stage.records()
        return all(
            r.boundary is not Boundary.NOT_CROSSED or self.stage.keys[k].binding.boundary_mode is BoundaryMode.NONE
            for k, r in records.items()
        )


class MakeScene:
    """Makes the two scenes of a test on one server: they share the blow, not the namespace."""

    def __init__(self, server: RealServer, place: Path, start_proxy: StartProxy, rest: AsyncExitStack) -> None:
        self._server, self._place, self._start_proxy, self._rest = server, place, start_proxy, rest

    async def __call__(self, group: str) -> Scene:
        proxy = await self._start_proxy(self._server.url)
        stage = await self._rest.enter_async_context(staged(self._server.url, group, self._place / group))
        worker = await stage.start(proxy.url)
        return Scene(stage, proxy, worker, stage.gate(), [])


@pytest.fixture
async def make_scene(durable_server: RealServer, tmp_path: Path, start_proxy: StartProxy) -> AsyncIterator[MakeScene]:
    async with AsyncExitStack() as rest:
        yield MakeScene(durable_server, tmp_path, start_proxy, rest)


async def strike(target: Target, scenes: list[Scene], server: RealServer) -> None:
    match target:
        case Target.WORKER:
            hosts = [host for scene in scenes for host in scene.worker.hosts]
            for scene in scenes:
                scene.worker.kill()
            await asyncio.gather(*(scene.worker.exited() for scene in scenes))
            # A tool host that outlived its worker could still cause an effect that nobody holds a lease for.
            await until(lambda: not any(map(runs, hosts)), 1)
        case Target.HOST:
            for scene in scenes:
                os.kill(scene.worker.hosts[0], signal.SIGKILL)
        case Target.SERVER:
            server.kill()


async def recover(target: Target, scenes: list[Scene], server: RealServer) -> None:
    for scene in scenes:
        scene.release()
        if target is Target.WORKER:
            scene.stage.spawn()
    if target is Target.SERVER:
        await server.restart_async()
    for scene in scenes:
        scene.gate.open()


@pytest.mark.parametrize("point", Point)
@pytest.mark.parametrize("target", Target)
async def test_kill_minus_nine(target: Target, point: Point, make_scene: MakeScene, durable_server: RealServer) -> None:
    await load_scripts(durable_server.url)
    scenes = list(await asyncio.gather(make_scene("automatic"), make_scene("explicit")))
    await asyncio.gather(*(scene.bring_to(point) for scene in scenes))
    old = [scene.worker.session for scene in scenes]
    await strike(target, scenes, durable_server)
    struck_s = time.monotonic()
    await recover(target, scenes, durable_server)
    if target is not Target.HOST:
        left_s = 2 * TTL_S - (time.monotonic() - struck_s)
        await asyncio.gather(*(s.stage.none_left_of(session, left_s) for s, session in zip(scenes, old, strict=True)))
    await asyncio.gather(*(scene.stage.ended(15) for scene in scenes))
    for scene in scenes:
        await judge(target, point, scene)


async def judge(target: Target, point: Point, scene: Scene) -> None:
    records = await scene.stage.check()
    for key, record in records.items():
        if key in {"charge_asked", "look", "put"} or key in scene.settled:
            assert record.state is State.COMPLETED, (key, record)
        else:
            # Failed: a tool that marks for itself was told that it must not begin.
            assert record.state in {State.COMPLETED, State.UNKNOWN, State.FAILED}, (key, record)
        if point is Point.BEFORE_CLAIM or (point is Point.AFTER_CLAIM and stays_unmarked(target, key)):
            assert record.state is State.COMPLETED, (key, record)


def stays_unmarked(target: Target, key: str) -> bool:
    """What is unmarked is unsent, so that it simply runs again.

    A server that comes back may have forgotten a mark; and a mark that a dead host had asked for may still get through.
    """
    return target is Target.WORKER or (target is Target.HOST and not key.startswith("charge_marked"))
