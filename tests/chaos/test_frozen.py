"""A worker that is stopped longer than its session lives, and goes on as if nothing had been."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Awaitable, Callable
from random import Random

from chaos import tools
from chaos.stage import MARK, SEED, TTL_S, Stage, Worker, load_scripts, until

from kit.proxy import FaultProxy
from mycelium.ledger.states import State

QUICK = {"ttl_s": 1.0, "renew_every_s": 0.2, "call_timeout_s": 0.15, "margin_s": 0.2}
ROUNDS = 20
FREEZERS = 4
KINDS = (tools.look, tools.put, tools.charge, tools.charge_asked, tools.charge_marked_asked)


async def test_a_frozen_worker_is_relieved_and_settles_nothing_stale(stage: Stage) -> None:
    frozen = await stage.start(presumed_dead_s=None)
    first = frozen.session
    gate = stage.gate()
    # As long as the gate is closed its tools cannot end: every one of them is frozen in the middle.
    for tool in (tools.look, tools.charge, tools.charge_asked):
        await stage.submit(tool, tool.name, gate=gate.path)
    await until(lambda: len(stage.effects) == 3)
    frozen.kill(signal.SIGSTOP)
    other = await stage.start(presumed_dead_s=None)
    await stage.none_left_of(first, 2 * TTL_S)
    gate.open()
    await stage.ended(5)
    relieved = await stage.records()
    assert relieved["look"].state is State.COMPLETED
    assert relieved["charge_asked"].state is State.COMPLETED
    assert relieved["charge"].state is State.UNKNOWN

    frozen.kill(signal.SIGCONT)
    await until(lambda: frozen.session != first)
    # Its host was done all the time: what nobody could know becomes known by late evidence; the read stays as it is.
    await until(lambda: stage_is_done(frozen))
    await stage.ended(5)
    records = await stage.check()
    assert records["look"].history[: len(relieved["look"].history)] == relieved["look"].history
    assert records["look"].state is State.COMPLETED

    other.kill(signal.SIGTERM)
    assert await other.exited() == 0
    await stage.submit(tools.charge, "afterwards")
    await stage.ended(5)
    assert (await stage.check())["afterwards"].state is State.COMPLETED


async def test_a_worker_that_wakes_up_with_a_good_mark_in_its_hand_does_not_begin(
    stage: Stage, url: str, start_proxy: Callable[[str], Awaitable[FaultProxy]]
) -> None:
    await load_scripts(url)
    proxy = await start_proxy(url)
    frozen = await stage.start(proxy.url)
    arm = proxy.hold(MARK)
    key = await stage.submit(tools.charge_asked, "charge_asked")
    await arm.fired.wait()
    frozen.kill(signal.SIGSTOP)
    # The yes to its mark lies in its socket. It will read it first thing, long after somebody else has done the work.
    arm.released.set()
    other = await stage.start()
    await stage.ended(6 * TTL_S)
    assert stage.effects[key] == 1
    first = frozen.session
    frozen.kill(signal.SIGCONT)
    await until(lambda: frozen.session != first)
    other.kill(signal.SIGTERM)
    await other.exited()
    # What it takes now it takes after all that it had in its hand.
    await stage.submit(tools.charge, "afterwards")
    await stage.ended(5)
    records = await stage.check()
    assert {record.state for record in records.values()} == {State.COMPLETED}


def stage_is_done(worker: Worker) -> bool:
    return "opened" in worker.log.rpartition("lost after a gap")[2]


async def test_twenty_freezes_at_random_points(stage: Stage) -> None:
    random = Random(SEED)
    print(f"seed {SEED}")  # noqa: T201 - shown when it fails
    fleet = await asyncio.gather(
        *[stage.start(session=QUICK, slots=8, poll_s=0.2, presumed_dead_s=None) for _ in range(FREEZERS + 1)]
    )
    over = asyncio.Event()
    submitting = asyncio.create_task(keep_submitting(stage, over, random))
    await asyncio.gather(*[freeze(worker, Random(SEED + n), ROUNDS // FREEZERS) for n, worker in enumerate(fleet[1:])])
    over.set()
    await submitting
    await stage.ended(15)
    records = await stage.check()
    for key, record in records.items():
        if stage.keys[key] not in {tools.charge, tools.put}:
            assert record.state in {State.COMPLETED, State.DEAD}, (key, record)
    # Otherwise the freezes met nothing.
    assert (await stage.counters())["expired"] >= ROUNDS // 4
    assert sum(worker.log.count("opened in epoch") for worker in fleet) > len(fleet) + ROUNDS // 2


async def keep_submitting(stage: Stage, over: asyncio.Event, random: Random) -> None:
    number = 0
    while not over.is_set():
        for _ in range(random.randint(1, 8)):
            number += 1
            await stage.submit(random.choice(KINDS), f"job-{number}", seconds=random.uniform(0.0, 0.5))
        await asyncio.sleep(random.uniform(0.02, 0.2))


async def freeze(worker: Worker, random: Random, rounds: int) -> None:
    for _ in range(rounds):
        await asyncio.sleep(random.uniform(0.1, 1.0))
        worker.kill(signal.SIGSTOP)
        await asyncio.sleep(2 * QUICK["ttl_s"])
        worker.kill(signal.SIGCONT)
