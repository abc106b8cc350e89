"""Public failures between a pool and its server: one that comes back, one that is asked too much, one of a cluster."""

from __future__ import annotations

import asyncio
import signal
import socket
from functools import partial
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Any

from chaos import failure_tools as tools
from chaos.scale import FULL, TTL_S, scaled, start
from chaos.stage import SEED, Stage, plain, staged, until, until_async
from cli.test_worker_health import address_of, readiness_reason

from kit.fixtures import StartServer
from kit.servers import RealServer
from mycelium.actors.health.vitals import Unready
from mycelium.actors.submissions import Submission
from mycelium.leases.errors import MyceliumError
from mycelium.ledger.cancel import CancelReply
from mycelium.ledger.states import State

AWAY_S = tuple(Random(SEED).uniform(1.0, 30.0) for _ in range(10)) if FULL else (0.5, 2.0)
"""For so long the server is away, one time after the other."""
BACK_S = 5.0
"""Jobs are taken so soon after it is back."""
IDLE = scaled(3, 20)
IDLE_S = scaled(3, 60)
WAITING = scaled(1000, 100_000)
SLOW_US = 10_000
MOST_A_SECOND = 5.0
"""Commands that an idle worker may send."""


# ── a server that comes back ─────────────────────────────────────────────────────────────────────────────────────────


async def test_20_a_server_that_comes_and_goes_leaves_nobody_who_looks_alive_and_takes_nothing(
    durable_server: RealServer, tmp_path: Path
) -> None:
    """Case 20: an idle worker and a busy one: unready while the server is away, and at work again soon after."""
    async with (
        staged(durable_server.url, "idle", tmp_path / "idle") as idle,
        staged(durable_server.url, "busy", tmp_path / "busy") as busy,
    ):
        workers = await asyncio.gather(*[start(stage, health_port=0) for stage in (idle, busy)])
        addresses = [await address_of(worker, "/health/ready") for worker in workers]
        took: list[float] = []
        for number, away_s in enumerate(AWAY_S):
            gate = busy.gate()
            held = await busy.submit(tools.charge, f"held-{number}", gate=gate.path)
            await until(partial(done, busy, held))
            durable_server.kill()
            if away_s >= 2 * TTL_S:
                await until_async(partial(all_unready, addresses), away_s + 5)
            await asyncio.sleep(away_s)
            await durable_server.restart_async()
            gate.open()
            for stage in (idle, busy):
                key = await stage.submit(tools.charge, f"after-{number}")
                took.append(await until_async(partial(stage.in_state, [key], State.COMPLETED), BACK_S))
            await until_async(partial(all_ready, addresses), BACK_S)
        print(f"jobs taken at most {max(took):.2f} s after the server was back")  # noqa: T201 - a figure
        for stage in (idle, busy):
            await stage.ended(10)
            await stage.check()
        assert [worker.process.poll() for worker in workers] == [None, None]


def done(stage: Stage, key: str) -> bool:
    return stage.effects[key] == 1


async def all_unready(addresses: list[str]) -> bool:
    away = {Unready.STORE_AWAY, Unready.NO_SESSION, Unready.UNTRUSTED}
    return {await readiness_reason(address) for address in addresses} <= away


async def all_ready(addresses: list[str]) -> bool:
    return {await readiness_reason(address) for address in addresses} == {None}


async def test_38_what_a_server_forgot_of_a_call_that_was_out_is_not_run_again(
    start_server: StartServer, tmp_path: Path
) -> None:
    """Case 38: killed and back with an older snapshot, it is in another epoch: what was held in it is unknown.

    What had not been taken at the time of the snapshot, nobody can tell from what was never taken: see X5.
    """
    server = start_server(tmp_path / "data", config={"appendonly": "no"})
    async with staged(server.url, "forgetful", tmp_path / "stage") as stage, plain(server.url) as direct:
        worker = await start(stage)
        gate = stage.gate()
        kinds = (tools.charge, tools.charge_marked, tools.put)
        keys = [await stage.submit(kind, kind.name, gate=gate.path) for kind in kinds]
        await until(lambda: stage.effects.total() == len(keys))
        before = await stage.records()
        await direct.execute_command("SAVE")
        gate.open()
        await stage.ended(10)
        assert {record.state for record in (await stage.check()).values()} == {State.COMPLETED}
        server.kill()
        await server.restart_async()
        await until(lambda: worker.log.count("opened in epoch") == 2)
        await stage.ended(10)
        records = await stage.check()
        assert {key: record.state for key, record in records.items()} == {
            "charge": State.UNKNOWN,
            "charge_marked": State.UNKNOWN,
            "put": State.COMPLETED,
        }
        assert int(records["put"].fence) > max(int(record.fence) for record in before.values()) + 1


# ── a server that is asked too much ──────────────────────────────────────────────────────────────────────────────────


async def test_26_109_an_idle_pool_asks_little_whatever_waits(start_server: StartServer, tmp_path: Path) -> None:
    """Cases 26, 109: no sweep and no poll depends on the backlog, and none comes from everybody at once."""
    server = start_server(config={"slowlog-log-slower-than": str(SLOW_US), "slowlog-max-len": "1000"})
    async with plain(server.url) as direct, staged(server.url, "idle", tmp_path / "idle") as stage:
        later = [
            Submission(tools.charge.bind(book=stage.book, key=f"k{n}"), request_id=f"k{n}", delay_s=3600.0)
            for n in range(WAITING)
        ]
        assert not [job for job in await stage.client.submit_many(later) if isinstance(job, MyceliumError)]
        await asyncio.gather(*[start(stage, session={}, poll_s=1.0) for _ in range(IDLE)])
        await direct.slowlog_reset()
        before = await sent(direct)
        await asyncio.sleep(IDLE_S)
        a_second = (await sent(direct) - before) / IDLE / IDLE_S
        slow = await direct.slowlog_get(1000)
        print(f"{a_second:.2f} commands a second and worker; above 10 ms: {len(slow)}")  # noqa: T201 - a figure
        assert a_second < MOST_A_SECOND
        if FULL:
            # On a machine that does nothing else: whoever is not scheduled is slow as well.
            assert not slow
            await direct.aclose()
            await server.restart_async()
            print(f"commands in each second after a restart: {await after_restart(server.url)}")  # noqa: T201


async def sent(direct: Any) -> int:  # noqa: ANN401 - the library's annotations have gaps
    """Script calls so far: whatever a worker sends is one."""
    stats = await direct.info("commandstats")
    return sum(stats.get(f"cmdstat_{name}", {"calls": 0})["calls"] for name in ("eval", "evalsha"))


async def after_restart(url: str) -> list[int]:
    async with plain(url) as direct:
        counts = [await sent(direct)]
        for _ in range(20):
            await asyncio.sleep(1)
            counts.append(await sent(direct))
    return [later - earlier for earlier, later in pairwise(counts)]


# ── a server of a cluster ────────────────────────────────────────────────────────────────────────────────────────────


async def test_27_a_server_of_a_cluster_that_has_all_slots_is_as_good_as_any(
    start_server: StartServer, tmp_path: Path
) -> None:
    """Case 27: each way in which a job can go, the death of a worker among them, on a cluster-enabled server."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        bus = str(probe.getsockname()[1])
    server = start_server(tmp_path / "data", config={"cluster-enabled": "yes", "cluster-port": bus})
    async with plain(server.url) as direct:
        await direct.execute_command("CLUSTER", "ADDSLOTSRANGE", 0, 16383)
        await until_async(partial(in_order, direct))
    async with staged(server.url, "clustered", tmp_path / "stage") as stage:
        doomed = await start(stage)
        gate = stage.gate()
        held = [await stage.submit(kind, f"held-{kind.name}", gate=gate.path) for kind in (tools.charge, tools.put)]
        held.append(await stage.submit(tools.charge_asked, "held-asked", gate=gate.path))
        await until(lambda: stage.effects.total() == len(held))
        doomed.kill()
        living = await start(stage)
        gate.open()
        for kind in (tools.watch, tools.put, tools.charge, tools.charge_marked, tools.charge_asked, tools.refuse):
            await stage.submit(kind, kind.name)
        await stage.submit(tools.charge_and_hang, "hangs")
        cancelled = await stage.client.submit(
            tools.charge.bind(book=stage.book, key="later"), request_id="later", delay_s=3600.0
        )
        assert (await cancelled.cancel()).word is CancelReply.CANCELLED
        await stage.ended(15)
        records = await stage.records()
        found = {key: record.state for key, record in records.items()}
        unknown = {key for key, state in found.items() if state is State.UNKNOWN}
        assert unknown == {"held-charge", "hangs"}, found
        assert {key for key, state in found.items() if state is State.FAILED} == {"refuse"}
        assert {record.state for key, record in records.items() if key not in {*unknown, "refuse"}} == {State.COMPLETED}
        assert {stage.effects[key] for key in records if key not in {"refuse", "held-put"}} == {1}
        living.kill(signal.SIGTERM)
        assert await living.exited() == 0


async def in_order(direct: Any) -> bool:  # noqa: ANN401 - (the same)
    return bool((await direct.execute_command("CLUSTER INFO"))["cluster_state"] == "ok")
