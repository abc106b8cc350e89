"""Public failures of queues that decide by elapsed time: here no length and no delay is bound by the lease."""

from __future__ import annotations

import asyncio
import signal
import time
from datetime import timedelta
from functools import partial
from random import Random

from chaos import failure_tools as tools
from chaos.failure_tools import told
from chaos.scale import TTL_S, scaled, start
from chaos.stage import SEED, SESSION, Stage, Worker, plain, until, until_async

from mycelium.actors.load import AnyTool
from mycelium.leases.errors import JobNotFoundError
from mycelium.ledger.states import TERMINAL, State
from mycelium.ledger.submit import Retention

LONGEST, LATE = scaled(3, 10), scaled(2, 3)
"""So many TTLs the longest job takes, and so many another one is delayed before it takes as many."""
NOTICED_TTL_S = 2.0
"""Of `SESSION`: twice as long, for twice that much is what a death may take to be noticed, on a busy machine too."""
ROUNDS = scaled(60, 500)
WAKINGS = scaled(3, 40)
KEPT_S = 1.0
KEPT = Retention(row=timedelta(seconds=KEPT_S), result=timedelta(seconds=KEPT_S))
ATTEMPTS = 4
NO_END = -1
"""What the server says of a key without a TTL."""


async def submit(
    stage: Stage, tool: AnyTool, key: str, options: dict[str, object] | None = None, **arguments: object
) -> str:
    stage.keys[key] = tool
    call = tool.bind(book=stage.book, key=key, **arguments)
    await stage.client.submit(call, request_id=key, **(options or {}))  # type: ignore[arg-type]
    return key


async def test_19_22_31_length_and_delay_are_free_and_a_death_is_noticed_at_once(stage: Stage) -> None:
    """Cases 18, 19, 22, 31, 37: under one setting, long and delayed calls start once, and those of the dead go on.

    Reads among them, which whoever took them for lost would start again.
    """
    doomed = await start(stage, session=SESSION)
    held = await submit(stage, tools.watch, "held", seconds=3 * NOTICED_TTL_S)
    await until(lambda: told(stage.book, "begin").get(held))
    doomed.kill(signal.SIGUSR1)
    await until(lambda: "quiet" in doomed.log)
    for kind in (tools.watch, tools.charge_slowly):
        await submit(stage, kind, f"long-{kind.name}", seconds=LONGEST * NOTICED_TTL_S)
        await submit(stage, kind, f"late-{kind.name}", {"delay_s": LATE * NOTICED_TTL_S}, seconds=LATE * NOTICED_TTL_S)
    living = await asyncio.gather(*[start(stage, session=SESSION) for _ in range(2)])
    await until(lambda: len(told(stage.book, "begin")) == 3)
    doomed.kill()
    killed_s = time.clock_gettime(time.CLOCK_BOOTTIME)
    await until(lambda: len(told(stage.book, "begin")[held]) == 2, 2 * NOTICED_TTL_S)
    print(f"noticed after {told(stage.book, 'begin')[held][-1] - killed_s:.2f} s at a TTL of {NOTICED_TTL_S:g} s")  # noqa: T201
    await stage.ended((2 * LATE + LONGEST) * NOTICED_TTL_S + 10)
    records, begun = await stage.check(), told(stage.book, "begin")
    for key, record in records.items():
        deaths = int(key == held)
        assert (record.state, record.deaths, len(begun[key])) == (State.COMPLETED, deaths, 1 + deaths), record
    assert [worker.log.count("opened in epoch") for worker in living] == [1, 1]
    # Nobody who lived was taken for dead: the sessions that were lost are those of the dead.
    assert (await stage.counters())["sessions_lost"] == 1


async def test_24_what_ends_just_when_its_lease_would_is_run_once(stage: Stage) -> None:
    """Case 24: four workers, and jobs as long as the TTL, give or take 20 ms."""
    random = Random(SEED)
    await asyncio.gather(*[start(stage, slots=20) for _ in range(4)])
    for number in range(ROUNDS):
        kind = (tools.watch, tools.charge_slowly)[number % 2]
        await submit(stage, kind, f"k{number}", seconds=TTL_S + random.uniform(-0.02, 0.02))
    await stage.ended(20 + ROUNDS / 40 * TTL_S)
    records, begun = await stage.check(), told(stage.book, "begin")
    assert {(record.state, record.attempts) for record in records.values()} == {(State.COMPLETED, 1)}
    assert {len(times) for times in begun.values()} == {1}
    assert len(begun) == ROUNDS


async def test_24_a_settlement_that_races_the_end_of_its_lease_is_taken_or_refused_whole(stage: Stage) -> None:
    """Case 24: a worker that is frozen until its lease ends wakes with finished jobs in its hands."""
    random = Random(SEED)
    fleet = list(await asyncio.gather(*[start(stage) for _ in range(4)]))
    for number in range(WAKINGS):
        kinds = (tools.watch, tools.charge)
        keys = [await submit(stage, kind, f"{kind.name}-{number}", seconds=TTL_S / 2) for kind in kinds]
        await until_async(partial(held_or_over, stage, keys))
        frozen = [worker for worker in fleet if await holds(stage, worker, keys)]
        for worker in frozen:
            worker.kill(signal.SIGSTOP)
        await asyncio.sleep(TTL_S + random.uniform(-0.02, 0.02))
        for worker in frozen:
            worker.kill(signal.SIGCONT)
        await until_async(partial(told_true, stage, keys))
    records, begun = await stage.check(), told(stage.book, "begin")
    for key, record in records.items():
        if stage.keys[key] is tools.watch:
            # Each further start follows a death on record, and the result is that of the last: no other was taken.
            assert len(begun[key]) <= 1 + record.deaths, (key, record)
            assert await stage.client.job(key).result() == begun[key][-1], (key, record)


async def held_or_over(stage: Stage, keys: list[str]) -> bool:
    return await stage.in_state(keys, State.CLAIMED, State.ATTEMPTING, *TERMINAL)


async def told_true(stage: Stage, keys: list[str]) -> bool:
    """Its hosts worked on meanwhile, and what they did is evidence; unknown stays only what never began."""
    records = {key: await stage.record(key) for key in keys}
    return all(
        record.state is State.COMPLETED or (record.state is State.UNKNOWN and not stage.effects[key])
        for key, record in records.items()
    )


async def holds(stage: Stage, worker: Worker, keys: list[str]) -> bool:
    return any([(await stage.record(key)).session == worker.session for key in keys])


async def test_37_no_record_has_an_end_before_its_job_has_one(stage: Stage) -> None:
    """Case 37: what waits, is retried, held or unknown outlives every retention; what ended goes by its own."""
    gate = stage.gate()
    await start(stage)
    waits: list[tuple[AnyTool, dict[str, object], dict[str, object]]] = [
        (tools.watch, {"delay_s": 3600.0}, {}),
        (tools.watch, {"queue": "nobody"}, {}),
        (tools.be_told_to_wait, {}, {"after_s": KEPT_S}),
        (tools.charge, {}, {"gate": gate.path}),
        (tools.charge_and_hang, {}, {}),
    ]
    keys = [f"k{number}" for number in range(len(waits))]
    for key, (kind, options, arguments) in zip(keys, waits, strict=True):
        await submit(stage, kind, key, {**options, "retention": KEPT}, **arguments)
    brief = await submit(stage, tools.watch, "brief", {"retention": KEPT})
    await until_async(partial(forgotten, stage, brief), 10)
    del stage.keys[brief]
    await until_async(partial(stage.in_state, [keys[-1]], State.UNKNOWN))
    space, open_ones = stage.client.store.keys, set(keys)
    async with plain(stage.url) as direct:
        while open_ones:
            for key in sorted(open_ones):
                found = [await direct.pttl(name) for name in (space.row(key), space.args(key))]
                if (await stage.record(key)).state in TERMINAL:
                    open_ones.discard(key)
                else:
                    assert found == [NO_END, NO_END], key
            if not open_ones & {"k2"}:
                break
            await asyncio.sleep(KEPT_S / 10)
    # It was retried for longer than anything is kept, and its count of failures came through.
    assert (await stage.record("k2")).fails == ATTEMPTS
    assert stage.effects[keys[-1]] == 1


async def forgotten(stage: Stage, key: str) -> bool:
    try:
        await stage.record(key)
    except JobNotFoundError:
        return True
    return False
