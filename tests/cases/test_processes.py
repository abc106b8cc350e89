"""Agents that call tools themselves and die, freeze or block in the middle (cases 1, 2, 4, 5, 18, 29, 31)."""

from __future__ import annotations

import asyncio
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from cases.agents import THREE, Agents, agents_in
from cases.ledgers import GRACE_S, TTL_S, open_ledger
from chaos.stage import Stage, plain, until, until_async
from chaos.tools import leave_trace

from kit.fixtures import StartServer
from mycelium.actors.inprocess.action_ledger import ActionLedger
from mycelium.actors.inprocess.decorators import ledger
from mycelium.leases import keys
from mycelium.ledger.record import Record, read_record
from mycelium.ledger.states import State

OpenLedger = Callable[[], ActionLedger]
BLOCKED = "LedgerHardBlockError"


@pytest.fixture
def agents(url: str, namespace: str, tmp_path: Path) -> Iterator[Agents]:
    with agents_in(url, namespace, tmp_path / "agents") as made:
        yield made


async def in_state(stage: Stage, request_id: str, *states: State) -> bool:
    row = stage.client.store.keys.row(request_id)
    state = await stage.client.store.calls.read("HGET", row, "state")
    return state is not None and State(state.decode()) in states  # type: ignore[union-attr]


async def record(stage: Stage, request_id: str) -> Record:
    return await read_record(stage.client.store, request_id)


# ── long and frozen ──────────────────────────────────────────────────────────────────────────────────────────────────


async def test_1_a_call_of_five_ttls_runs_once_and_whoever_comes_waits_for_it(agents: Agents, stage: Stage) -> None:
    """Cases 1, 18 and 31: its holder is alive, so nobody takes it, and the waiter gets its result."""
    gate = agents.gate()
    long = agents.start("one", at="sent", does="wait", gate=gate.path)
    await agents.sent(long)
    other = agents.start("one")
    begun_s = time.monotonic()
    await until(lambda: time.monotonic() - begun_s >= 5 * TTL_S)
    assert other.poll() is None
    gate.open()
    assert await agents.said(long) == await agents.said(other) == ["one"]
    kept = await record(stage, "charge:one")
    assert (agents.effects, kept.attempts, kept.deaths) == ({"one": 1}, 1, 0)
    # No rescue of a live owner: nobody was ever taken for lost.
    assert (await stage.counters())["sessions_lost"] == 0


async def test_1_a_frozen_holder_is_taken_for_dead_and_its_call_for_unknown(
    agents: Agents, stage: Stage, kept: ActionLedger
) -> None:
    """Cases 1 and 29: others are refused; the frozen one wakes, and its late result is evidence, not a second run."""
    await asyncio.to_thread(lambda: kept.engine)  # somebody who lives, and sweeps
    gate = agents.gate()
    frozen = agents.start("one", at="sent", does="wait", gate=gate.path)
    await agents.sent(frozen)
    held = await record(stage, "charge:one")
    frozen.send_signal(signal.SIGSTOP)
    assert await agents.said(agents.start("one")) == [BLOCKED]
    assert await in_state(stage, "charge:one", State.UNKNOWN)
    async with plain(stage.url) as direct:
        space = stage.client.store.keys
        await until_async(lambda: gone(direct, space.session(held.session)), 5)
        frozen.send_signal(signal.SIGCONT)
        gate.open()
        assert await agents.said(frozen) == ["one"]
        left = {key.decode(): await direct.pttl(key) async for key in direct.scan_iter(space.tag + "*")}
        assert await direct.zscore(space.sessions(), held.session) is None
    late = await record(stage, "charge:one")
    assert (late.state, late.fence, late.attempts, agents.effects) == (State.COMPLETED, held.fence, 1, {"one": 1})
    # No phantom: the late renewal brought no session back, and only what is listed has no TTL.
    for key, ttl_ms in left.items():
        name, _, _ = key.removeprefix(space.tag + ":").partition(":")
        assert ttl_ms > 0 or name in keys.PERMANENT, key
    assert space.session(held.session) not in left


async def gone(direct: object, key: str) -> bool:
    return not await direct.exists(key)  # type: ignore[attr-defined]


async def test_2_a_body_that_holds_the_whole_interpreter_is_never_run_beside(agents: Agents, stage: Stage) -> None:
    """Case 2: in process nothing can renew then. Its call becomes unknown, and is not given to anybody."""
    gate = agents.gate()
    other = agents.start("one", at="asked", does="wait", gate=gate.path)
    rude = agents.start("one", at="sent", does="hold", seconds=TTL_S + GRACE_S + 2)
    await agents.sent(rude)
    gate.open()
    assert await agents.said(other) == [BLOCKED]
    assert await agents.said(rude) == ["one"]
    kept = await record(stage, "charge:one")
    assert (kept.state, kept.attempts, agents.effects) == (State.COMPLETED, 1, {"one": 1})


async def test_4_a_blip_of_the_server_ends_no_session(
    start_server: StartServer, namespace: str, tmp_path: Path
) -> None:
    """Case 4, in process: twenty cut connections and a pause of more than half a TTL during one call."""
    url = start_server().url
    book = str(tmp_path / "book")
    with open_ledger(url, namespace) as kept:
        alive: list[str] = []

        @ledger(ledger=kept, effect_class="non_idempotent_mutate")
        async def charge(order: str) -> str:
            async with plain(url) as direct:
                for _ in range(20):
                    await direct.client_kill_filter(_type="normal", skipme=True)
                    await asyncio.sleep(0.01)
                await direct.execute_command("CLIENT", "PAUSE", round(600 * TTL_S), "WRITE")
                leave_trace(book, order)
                begun_s = time.monotonic()
                await until(lambda: time.monotonic() - begun_s > 1.5 * TTL_S)
                seconds, _ = await direct.time()
                sessions = kept.engine.service.store.keys.sessions()
                alive.extend(word.decode() for word in await direct.zrangebyscore(sessions, seconds * 1000, "+inf"))
            return order

        assert await charge("one", request_id="charge:1") == "one"
        session = kept.engine.service._keeper._session
        assert session is not None
        assert alive == [session.id]
        assert not session.lost.is_set()
        assert kept.record("charge:1").state is State.COMPLETED


# ── killed ───────────────────────────────────────────────────────────────────────────────────────────────────────────


async def test_5_what_a_step_had_done_is_answered_when_it_is_run_again(agents: Agents, stage: Stage) -> None:
    """Case 5: killed in the third of three calls: the first two are answered, and the third is not sent again."""
    await agents.killed(agents.start(*THREE, at="sent", does="die"))
    assert await agents.said(agents.start(*THREE)) == ["first", "second", BLOCKED]
    assert agents.effects == dict.fromkeys(THREE, 1)
    assert await in_state(stage, "charge:third", State.UNKNOWN)
