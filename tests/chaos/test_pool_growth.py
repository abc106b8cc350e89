"""Public failures of pools that grow: keys and memory of the server, memory of the worker, series of its metrics."""

from __future__ import annotations

import asyncio
import os
import re
import signal
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

from chaos import failure_tools as tools
from chaos.scale import scaled, start
from chaos.stage import Stage, plain, staged, until, until_async
from cli.test_worker_health import address_of, ask
from prometheus_client.parser import text_string_to_metric_families

from kit.fixtures import StartServer
from mycelium.actors.submissions import Submission
from mycelium.actors.tool import tool
from mycelium.leases.errors import JobNotFoundError, MyceliumError
from mycelium.ledger.states import TERMINAL, State
from mycelium.ledger.submit import Retention

WAVE = scaled(300, 25_000)
"""Jobs of one wave; the second leaves as much behind as the first."""
BRIEF = Retention(row=timedelta(seconds=1), result=timedelta(seconds=1))
JOBS = scaled(2000, 50_000)
"""Jobs of the warm-up, and then of what is measured."""
MOST_GROWTH = 2 << 20
"""Bytes by which a process may differ after as many jobs more; at full numbers that is below a hundred a job."""
NAMES = scaled(100, 500)
DEATHS = scaled(2, 50)
COMPLETED = "mycelium_worker_settlements_total[('verb', 'completed')]"
WAITING = "mycelium_worker_waiting_jobs[]"


async def wave(stage: Stage, name: str, jobs: int, retention: Retention = BRIEF) -> None:
    """Submit so many small jobs, and wait until the last has ended."""
    for first in range(0, jobs, 1000):
        some = range(first, min(jobs, first + 1000))
        calls = [Submission(tools.count_one.bind(n=n), request_id=f"{name}-{n}", retention=retention) for n in some]
        assert not [job for job in await stage.client.submit_many(calls) if isinstance(job, MyceliumError)]
        await until_async(partial(none_open, stage), 120)


async def none_open(stage: Stage) -> bool:
    counted = await stage.counted()
    return not set(counted) - TERMINAL


# ── the server ───────────────────────────────────────────────────────────────────────────────────────────────────────


async def test_106_what_ended_leaves_nothing_behind_but_what_is_kept_on_purpose(
    start_server: StartServer, tmp_path: Path
) -> None:
    """Case 106: after the retention, keys and memory are as before; a record inside its window answers all the same."""
    server = start_server()
    async with plain(server.url) as direct, staged(server.url, "kept", tmp_path / "stage") as stage:
        await start(stage, solo=0, hosts=2)
        kept = await stage.submit(tools.charge, "kept")
        sizes: list[tuple[int, int]] = []
        for number in range(3):
            await wave(stage, f"wave-{number}", WAVE)
            await until_async(partial(gone, stage, f"wave-{number}-{WAVE - 1}"))
            sizes.append(await size(direct, stage))
        print(f"keys and bytes after each wave of {WAVE} jobs: {sizes}")  # noqa: T201 - figures
        (keys, used), *_, (keys_later, used_later) = sizes
        assert keys_later == keys
        assert used_later - used < 10 * WAVE, "ten bytes a job are no record of any"
        joined = await stage.client.submit(tools.charge.bind(book=stage.book, key=kept), request_id=kept)
        assert (joined.created, await joined.result(5), stage.effects[kept]) == (False, kept, 1)


async def gone(stage: Stage, key: str) -> bool:
    try:
        await stage.record(key)
    except JobNotFoundError:
        return True
    return False


async def size(direct: Any, stage: Stage) -> tuple[int, int]:  # noqa: ANN401 - the library's annotations have gaps
    """Keys, and bytes without the event stream, which has a cap of its own."""
    async for _ in direct.scan_iter(count=1000):
        pass  # what is past its time goes when it is met
    events = await direct.memory_usage(stage.client.store.keys.events(), samples=0)
    await direct.execute_command("MEMORY", "PURGE")
    return await direct.dbsize(), (await direct.info("memory"))["used_memory"] - events


# ── the worker ───────────────────────────────────────────────────────────────────────────────────────────────────────


async def test_110_a_worker_that_ran_many_jobs_is_as_small_as_before(start_server: StartServer, tmp_path: Path) -> None:
    """Case 110: neither the control process nor a tool host keeps anything of a job that is over."""
    server = start_server()
    async with staged(server.url, "small", tmp_path / "stage") as stage:
        worker = await start(stage, solo=0)
        processes = {"control": worker.pid, "host": worker.hosts[0]}
        await wave(stage, "warm-up", JOBS)
        before = {name: resident(pid) for name, pid in processes.items()}
        await wave(stage, "measured", JOBS)
        grown = {name: resident(pid) - before[name] for name, pid in processes.items()}
        print(f"after {JOBS} jobs: {before}; after as many more: {grown}")  # noqa: T201 - figures
        assert worker.hosts == [processes["host"]]
        assert all(size < MOST_GROWTH for size in grown.values()), grown


def resident(pid: int) -> int:
    return int(Path(f"/proc/{pid}/statm").read_text(encoding="ascii").split()[1]) * os.sysconf("SC_PAGE_SIZE")


# ── its metrics ──────────────────────────────────────────────────────────────────────────────────────────────────────


async def series(address: str) -> dict[str, float]:
    """Every series by its name and labels, but those of the process itself and times."""
    status, body = await ask(address, "/metrics")
    assert status == 200
    return {
        f"{sample.name}{sorted(sample.labels.items())}": float(sample.value)
        for family in text_string_to_metric_families(body)
        for sample in family.samples
        if not sample.name.endswith("_created")
    }


def hostile(book: str) -> None:
    del book


async def test_111_no_name_that_anybody_made_up_becomes_a_series(stage: Stage) -> None:
    """Case 111: made-up tools, errors, ids and queues, and hosts that die, add no series, and no counter goes back."""
    worker = await start(stage, solo=0, metrics_port=0)
    address = await address_of(worker, "/metrics")
    await wave(stage, "first", 1)
    before = await series(address)
    for number in range(NAMES):
        made_up = tool(effect_class="read", name=f"hostile_{number}")(hostile)
        await stage.client.submit(made_up.bind(book="b"), request_id=f"made-up-{number}", start_by=0.01)
        fails = tools.fail_by_name.bind(book="b", key=f"k{number}", name=f"Hostile{number}")
        await stage.client.submit(fails, request_id=f"fails-{number}", labels={"run": f"run-{number}"})
    for _ in range(DEATHS):
        (pid,) = worker.hosts
        os.kill(pid, signal.SIGKILL)
        await until(lambda pid=pid: worker.hosts not in ([], [pid]))  # type: ignore[misc]
        await wave(stage, f"after-{pid}", 10)
    # A page is never older than a look at what waits; the series of that look come and go with the server.
    await until_async(partial(same_series, address, before))
    after = await series(address)
    assert {name for name in before if "_total" in name and after[name] < before[name]} == set()
    assert not re.search(r"hostile|made-up|k0|run-|pid", "".join(after), re.IGNORECASE)


async def same_series(address: str, before: dict[str, float]) -> bool:
    return (await series(address)).keys() == before.keys() | {WAITING}


async def test_112_the_fleet_is_counted_where_no_process_dies(stage: Stage) -> None:
    """Case 112: the store's count is whole when a worker is killed, never goes back, and each worker tells its own."""
    doomed, living = await asyncio.gather(*[start(stage, solo=0, metrics_port=0, slots=4) for _ in range(2)])
    addresses = [await address_of(worker, "/metrics") for worker in (doomed, living)]
    await wave(stage, "both", 200)
    told = [(await series(address))[COMPLETED] for address in addresses]
    assert sum(told) == 200
    assert all(told), "both took part"
    doomed.kill()
    await wave(stage, "one", 100)
    assert (await stage.counted()) == {State.COMPLETED: 300}
    assert (await series(addresses[1]))[COMPLETED] == told[1] + 100
    assert (await stage.counters())["submitted"] == 300
