"""Public failures of agent frameworks, queues and leases, brought about here; the numbers are those of our list."""

from __future__ import annotations

import asyncio
import pickle
import re
import signal
import subprocess
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from chaos import tools
from chaos.stage import MARK, TURN, Stage, load_scripts, plain, runs, staged, until, until_async
from redis.exceptions import RedisError

from kit.fixtures import StartServer
from kit.holder import holder
from kit.proxy import FaultProxy
from mycelium.actors.client import ClientSettings, connect
from mycelium.actors.tool import tool
from mycelium.leases import keys
from mycelium.leases.errors import JobUnknownError, ServerUnavailableError
from mycelium.leases.session import renew_session
from mycelium.leases.store import StoreSettings
from mycelium.ledger.states import Settle, State

StartProxy = Callable[[str], Awaitable[FaultProxy]]
Harmed = tuple[Stage, Any]
TTL_S = 0.8
QUICK = {"ttl_s": TTL_S, "renew_every_s": 0.16, "call_timeout_s": 0.15, "margin_s": 0.15}
RENEW = renew_session.sha.encode()
MINE = "chaos.test_public_failures"
"""This module, as the application of a worker: it has tools of its own."""
PROVIDER_S = 0.5
MANY = 60


class LateBook(tools.Book):
    """Of a provider that takes its time over a request, and says how long."""

    lag_s = PROVIDER_S + 0.3


@tool(effect_class="non_idempotent_mutate", timeout_s=0.2, reconciler=LateBook())
async def charge_a_slow_provider(book: str, key: str) -> str:
    """The client gives up; the provider, which is another process, does not."""
    script = f'sleep {PROVIDER_S}; echo "$2" >> "$1"'
    await asyncio.create_subprocess_exec("/bin/sh", "-c", script, "sh", book, key, start_new_session=True)
    await asyncio.sleep(60)
    return key


@tool(effect_class="non_idempotent_mutate", timeout_s=0.2)
def charge_by_script(book: str, key: str) -> str:
    """A program has its effect and then hangs."""
    script = 'echo $$ > "$1.pid"; echo "$2" >> "$1"; exec sleep 60'
    subprocess.run(["/bin/sh", "-c", script, "sh", book, key], check=True)
    return key


@tool(effect_class="read", timeout_s=30)
def echo(book: str, key: str, payload: Any = None) -> Any:  # noqa: ANN401 - whatever JSON has
    del book, key
    return payload


@tool(effect_class="read", timeout_s=30)
def list_descriptors(book: str, key: str) -> str:
    del book, key
    return subprocess.run(["/bin/ls", "-l", "/proc/self/fd"], check=True, capture_output=True, text=True).stdout


@pytest.fixture
async def proxy(url: str, start_proxy: StartProxy) -> FaultProxy:
    await load_scripts(url)
    return await start_proxy(url)


@asynccontextmanager
async def stage_of_its_own(start_server: StartServer, place: Path, **config: str) -> AsyncGenerator[Harmed, None]:
    """A stage on a server that the test may harm, and a client for that."""
    url = start_server(config=config).url
    async with plain(url) as direct, staged(url, "own", place / "stage") as stage:
        yield stage, direct


async def states(stage: Stage) -> set[State]:
    return {record.state for record in (await stage.check()).values()}


# ── calls that run again ─────────────────────────────────────────────────────────────────────────────────────────────


async def test_1_a_call_that_is_longer_than_its_lease_runs_once(stage: Stage) -> None:
    """Cases 1, 18, 19 and 22: neither its length nor its delay is bound by the TTL, and nobody takes it over."""
    fleet = await asyncio.gather(*[stage.start(session=QUICK) for _ in range(2)])
    key = await stage.submit(tools.charge, "long", seconds=2.5 * TTL_S)
    await stage.ended(5 * TTL_S)
    record = (await stage.check())[key]
    assert (record.state, record.attempts, stage.effects[key]) == (State.COMPLETED, 1, 1)
    assert [worker.log.count("opened in epoch") for worker in fleet] == [1, 1]


async def test_3_a_worker_that_does_not_answer_keeps_no_job_from_the_others(stage: Stage) -> None:
    """Case 3: no queue of waiting consumers holds a dead one in front; what is ready is taken within a poll."""
    silent, _ = await asyncio.gather(stage.start(), stage.start())
    silent.kill(signal.SIGSTOP)
    await asyncio.gather(*[stage.submit(tools.charge, f"job-{n}") for n in range(5)])
    await stage.ended(2)
    assert await states(stage) == {State.COMPLETED}


async def test_4_a_blip_of_the_server_stops_no_renewal(start_server: StartServer, tmp_path: Path) -> None:
    """Case 4: twenty cut connections and a pause of the server during one job: session and job go on."""
    async with stage_of_its_own(start_server, tmp_path) as (stage, direct):
        worker = await stage.start()
        key = await stage.submit(tools.charge, "through", seconds=1.5)
        await until_async(lambda: stage.in_state([key], State.ATTEMPTING))
        for _ in range(20):
            await direct.client_kill_filter(_type="normal", skipme=True)
            await asyncio.sleep(0.01)
        await direct.execute_command("CLIENT", "PAUSE", 1200, "WRITE")
        await stage.ended(4)
        assert await states(stage) == {State.COMPLETED}
        assert worker.log.count("opened in epoch") == 1


async def test_9_a_time_out_of_the_client_is_no_failure(stage: Stage) -> None:
    """Case 9: the provider acts after the client gave up: unknown, no second request, and completed by its own word."""
    await stage.start(app=MINE)
    key = await stage.submit(charge_a_slow_provider, "slow")
    await until_async(lambda: stage.in_state([key], State.UNKNOWN))
    assert not stage.effects
    await stage.ended(4)
    record = (await stage.check())[key]
    assert (record.state, record.attempts, stage.effects[key]) == (State.COMPLETED, 1, 1)


async def test_11_a_program_that_hangs_is_ended_and_its_effect_is_unknown(stage: Stage) -> None:
    """Case 11: the time-out of a subprocess proves nothing, and nothing of it runs on after its job is let go."""
    await stage.start(app=MINE, overdue_s=0.1)
    key = await stage.submit(charge_by_script, "script")
    await until_async(lambda: stage.in_state([key], State.UNKNOWN), 4)
    assert not runs(int(Path(f"{stage.book}.pid").read_text(encoding="utf-8")))  # noqa: ASYNC240 - one line
    assert (await stage.check())[key].attempts == 1
    assert stage.effects[key] == 1


# ── queues ───────────────────────────────────────────────────────────────────────────────────────────────────────────


async def test_29_no_dead_worker_comes_back_as_a_phantom(stage: Stage) -> None:
    """Case 29: the late renewal of a frozen worker writes nothing; no key without a TTL is left of its session."""
    frozen, _ = await asyncio.gather(*[stage.start(session=QUICK) for _ in range(2)])
    dead = frozen.session
    frozen.kill(signal.SIGSTOP)
    async with plain(stage.url) as direct:
        space = stage.client.store.keys
        await until_async(lambda: no_key_of(direct, space.session(dead)), 3)
        frozen.kill(signal.SIGCONT)
        await until(lambda: frozen.session != dead)
        found = {key.decode(): await direct.pttl(key) async for key in direct.scan_iter(space.tag + "*")}
    living = {worker.session for worker in stage.workers}
    for key, ttl_ms in found.items():
        name, _, subject = key.removeprefix(space.tag + ":").partition(":")
        assert ttl_ms > 0 or name in keys.PERMANENT or (name in {"session", "held"} and subject in living), key


async def no_key_of(direct: Any, key: str) -> bool:  # noqa: ANN401 - the library's annotations have gaps
    return not await direct.exists(key)


async def test_35_who_waits_on_a_frozen_worker_is_told(stage: Stage) -> None:
    """Case 35: the wait ends within three TTLs, with what is known."""
    frozen = await stage.start(session=QUICK)
    key = await stage.submit(tools.charge, "held", gate=stage.gate().path)
    await until(lambda: stage.effects[key])
    frozen.kill(signal.SIGSTOP)
    await stage.start(session=QUICK)
    with pytest.raises(JobUnknownError):
        await stage.client.job(key).result(3 * TTL_S, on_unknown="raise")


async def test_46_a_busy_server_is_waited_for(start_server: StartServer, tmp_path: Path) -> None:
    """Case 46: BUSY ran nothing: after two TTLs of it the result is settled, and the worker takes jobs again."""
    async with stage_of_its_own(start_server, tmp_path, **{"busy-reply-threshold": "100"}) as (stage, direct):
        worker = await stage.start(session=QUICK)
        gate = stage.gate()
        held = await stage.submit(tools.charge, "held", gate=gate.path)
        await until(lambda: stage.effects[held])
        async with plain(stage.url) as other:
            busy = asyncio.create_task(other.eval("while true do end", 0))
            await asyncio.sleep(0.2)
            gate.open()
            await asyncio.sleep(2 * TTL_S - 0.2)
            await direct.execute_command("SCRIPT", "KILL")
            with pytest.raises(RedisError):
                await busy
        await stage.submit(tools.charge, "afterwards")
        await stage.ended(3)
        assert await states(stage) == {State.COMPLETED}
        assert worker.process.poll() is None
        assert worker.log.count("opened in epoch") <= 2


# ── leases and the server ────────────────────────────────────────────────────────────────────────────────────────────


async def test_52_a_worker_that_is_stopped_while_it_claims_loses_nothing(stage: Stage, proxy: FaultProxy) -> None:
    """Case 52: the claim is made, and its answer comes when the worker has been told to stop: given back, uncharged."""
    worker = await stage.start(proxy.url)
    held = [proxy.hold(TURN, nth=nth) for nth in range(1, MANY)]
    key = await stage.submit(tools.charge, "taken")
    await until_async(lambda: stage.in_state([key], State.CLAIMED))
    worker.kill(signal.SIGTERM)
    await until(lambda: "stopping" in worker.log)
    for arm in held:
        arm.released.set()
    assert await worker.exited(5) == 0
    record = (await stage.check())[key]
    assert (record.state, record.attempts, stage.effects[key]) == (State.READY, 0, 0)


async def test_56_a_full_server_takes_what_ends_and_refuses_what_is_new(
    start_server: StartServer, tmp_path: Path
) -> None:
    """Case 56: without memory sessions are renewed and attempts settle; a submit is refused with nothing written."""
    async with stage_of_its_own(start_server, tmp_path) as (stage, direct):
        worker = await stage.start(session=QUICK)
        gate = stage.gate()
        for kind in (tools.look, tools.put, tools.charge, tools.charge_marked):
            await stage.submit(kind, kind.name, gate=gate.path)
        await until(lambda: len(stage.effects) == 4)
        await direct.config_set("maxmemory", "100kb")
        settings = ClientSettings(store=StoreSettings(patience_s=1.5 * TTL_S))
        async with connect(stage.url, namespace=stage.namespace, settings=settings) as other:
            with pytest.raises(ServerUnavailableError, match="OOM"):
                await other.submit(tools.charge.bind(book=stage.book, key="new"), request_id="new")
        gate.open()
        await stage.ended(2)
        assert await states(stage) == {State.COMPLETED}
        assert worker.log.count("opened in epoch") == 1


async def test_60_arguments_keep_every_byte(stage: Stage, url: str) -> None:
    """Case 60: big integers and empty lists survive submit, claim, release and the next claim; fences stay exact."""
    payload = {"v": 15947634569000323, "big": 2**63, "e": [], "o": {}, "f": 1.9, "n": None, "t": "\u00e9 e\u0301 \x00"}
    key = await stage.submit(echo, "bytes", payload=payload)
    async with holder(url, stage.namespace, ["echo"]) as worker:
        (first,) = await worker.claim()
        await worker.settle(first, Settle.RELEASED)
        (second,) = await worker.claim()
        await worker.settle(second, Settle.RELEASED)
    assert first.args == second.args
    assert int(second.fence) == int(first.fence) + 1
    await stage.start(app=MINE)
    assert await stage.client.job(key).result(3) == payload


async def test_65_a_worker_that_is_cut_off_begins_nothing(stage: Stage, proxy: FaultProxy) -> None:
    """Case 65: cut off from the server alone, no effect begins after the holder's own deadline, ready as a tool is."""
    await stage.start(proxy.url, session=QUICK)
    gate = stage.gate()
    key = await stage.submit(tools.charge_after_gate, "cut off", gate=gate.path)
    await until_async(lambda: stage.in_state([key], State.ATTEMPTING))
    for nth in range(1, 5 * MANY):
        proxy.blackhole(nth=nth)
    await asyncio.sleep(TTL_S)
    gate.open()
    await asyncio.sleep(TTL_S / 2)
    assert not stage.effects
    proxy._arms.clear()
    proxy.cut()
    await stage.ended(3)
    assert await states(stage) == {State.COMPLETED}


async def test_67_one_renewal_that_failed_is_forgotten(stage: Stage, proxy: FaultProxy) -> None:
    """Cases 67, 117: the next attempt keeps its lease; the failure was told with its cause, its gap and no argument."""
    worker = await stage.start(proxy.url, session=QUICK)
    failing = proxy.drop_hang(RENEW)
    await stage.submit(tools.charge, "first")
    await until(failing.fired.is_set)
    await stage.ended(2)
    await stage.submit(tools.charge, "second", seconds=1.5 * TTL_S)
    await stage.ended(4 * TTL_S)
    assert await states(stage) == {State.COMPLETED}
    assert worker.log.count("opened in epoch") == 1
    assert re.search(r"renewal failed, gap 0\.\d+ s, trusted for 0\.\d+ s more: renew_session was sent", worker.log)
    assert stage.book not in worker.log


async def test_68_a_renewal_in_flight_harms_no_settlement(stage: Stage, proxy: FaultProxy) -> None:
    """Case 68: jobs end while a renewal waits for its answer, again and again; what has ended stays ended."""
    worker = await stage.start(proxy.url, session=QUICK)
    for number in range(3):
        late = proxy.delay(0.1, RENEW)
        await until(late.fired.is_set)
        key = await stage.submit(tools.charge, f"job-{number}")
        await stage.client.job(key).result(2)
    assert await states(stage) == {State.COMPLETED}
    assert worker.log.count("opened in epoch") == 1


async def test_75_a_worker_frozen_before_its_mark(stage: Stage, proxy: FaultProxy) -> None:
    """Case 75: another does the work; the frozen one wakes, is refused, and the refusal stands in the record."""
    frozen = await stage.start(proxy.url, session=QUICK)
    first = frozen.session
    marks = [proxy.cut_before(MARK, nth=nth) for nth in range(1, MANY)]
    key = await stage.submit(tools.charge, "unsent")
    await until(marks[0].fired.is_set)
    frozen.kill(signal.SIGSTOP)
    proxy._arms.clear()
    await stage.start(session=QUICK)
    await stage.ended(3)
    frozen.kill(signal.SIGCONT)
    await until(lambda: frozen.session != first)
    await until_async(lambda: refused(stage, key))
    record = (await stage.check())[key]
    assert (record.state, stage.effects[key]) == (State.COMPLETED, 1)
    assert (await stage.counters())["fences_refused"] == 1


async def refused(stage: Stage, key: str) -> bool:
    return any(entry.why.startswith("refused-") for entry in (await stage.record(key)).history)


async def test_80_a_program_of_a_tool_inherits_no_socket(stage: Stage) -> None:
    """Case 80: neither the store's, which a host does not have, nor the host's own."""
    await stage.start(app=MINE)
    key = await stage.submit(list_descriptors, "descriptors")
    assert "socket:" not in await stage.client.job(key).result(3)


# ── the worker ───────────────────────────────────────────────────────────────────────────────────────────────────────


async def test_103_an_old_worker_leaves_new_kinds_of_job_alone(stage: Stage) -> None:
    """Case 103: what it does not know stays ready, uncharged, for one that does."""
    await stage.start(app="chaos.tools:look")
    new = await stage.submit(tools.charge, "new")
    old = await stage.submit(tools.look, "old")
    await until_async(lambda: stage.in_state([old], State.COMPLETED))
    record = await stage.record(new)
    assert (record.state, record.attempts) == (State.READY, 0)


async def test_104_a_planted_body_runs_nothing_and_kills_nobody(stage: Stage, tmp_path: Path) -> None:
    """Case 104: whoever writes to the server can plant a pickle or a bottomless list: refused, and the worker lives."""
    touched = tmp_path / "touched"
    planted = {
        "pickle": pickle.dumps(Planted(str(touched))),
        "deep": b'{"book":' + b"[" * 10_000 + b"]" * 10_000 + b"}",
    }
    async with plain(stage.url) as direct:
        for name, body in planted.items():
            key = await stage.submit(tools.charge, name)
            await direct.set(stage.client.store.keys.args(key), body)
    worker = await stage.start()
    good = await stage.submit(tools.charge, "good")
    # Refused, they are offered elsewhere: another version of the tool might take what this one does not.
    await until_async(lambda: stage.in_state(planted, State.DELAYED, State.FAILED), 3)
    await until_async(lambda: stage.in_state([good], State.COMPLETED), 3)
    await stage.check()
    assert stage.effects == {good: 1}
    assert not touched.exists()
    assert worker.started == 1


class Planted:
    """Unpickled, it creates a file."""

    def __init__(self, path: str) -> None:
        self._path = path

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[str, str]]:
        return open, (self._path, "w")


async def test_113_deaths_and_planned_stops_are_counted_apart(stage: Stage) -> None:
    """Case 113: by those who live, so that no count dies with its process."""
    _, killed, stopped = await asyncio.gather(*[stage.start(session=QUICK) for _ in range(3)])
    killed.kill()
    stopped.kill(signal.SIGTERM)
    assert await stopped.exited() == 0

    async def counted() -> bool:
        counters = await stage.counters()
        return (counters["sessions_lost"], counters["sessions_closed"]) == (1, 1)

    await until_async(counted, 3 * TTL_S)
