"""Fifty processes redispatch a call while it runs, fails, expires and is released: its effects are as the row allows.

`MYCELIUM_STORM_ROUNDS` says how many rounds there are, `MYCELIUM_CHAOS_SEED` what they are.
"""

from __future__ import annotations

import asyncio
import os
from collections import Counter
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Any

from chaos.crowd import Crowd, crowded
from chaos.stage import SEED
from redis.asyncio import Redis

from mycelium.leases.errors import LedgerAlreadyResolvedError, LedgerReleaseRefusedError
from mycelium.leases.store import Store, open_store
from mycelium.ledger.record import Record, read_record
from mycelium.ledger.release import release
from mycelium.ledger.states import State

PROCESSES = 50
ROUNDS = int(os.environ.get("MYCELIUM_STORM_ROUNDS", "200"))
AT_ONCE = 20
"""So many calls are in the air at a time: each process is at all of them."""
STEPS = ("return", "slow", "fail", "raise-after", "die", "die-after", "freeze")
WEIGHTS = (4, 4, 3, 3, 1, 1, 1)
TOOLS = ("look", "put", "pay", "charge", "charge_marked")
REPEATABLE = {"look", "put"}
GRANTS = {"claim", "retry", "reclaim", "key", "verdict", "operator"}
"""Reason words of a grant; every one of a repeatable tool allows an effect."""


@dataclass(frozen=True)
class Round:
    """One call, with what its attempts do."""

    tool: str
    order: str
    plan: list[str]

    @property
    def request_id(self) -> str:
        return f"{self.tool}:order:{self.order}"


class Provider:
    """What really happened."""

    def __init__(self, redis: Any, namespace: str) -> None:  # noqa: ANN401 - an untyped client
        self._redis = redis
        self._prefix = f"storm:{namespace}"

    async def sent(self, order: str) -> int:
        return int(await self._redis.get(f"{self._prefix}:sent:{order}") or 0)

    async def keys(self, order: str) -> int:
        return int(await self._redis.scard(f"{self._prefix}:keys:{order}"))


async def played(one: Round, crowd: Crowd, store: Store, provider: Provider) -> list[str]:
    """Everybody calls; a person looks, where nobody knows; everybody calls again."""
    said = await crowd.call(one.tool, one.order, one.plan)
    record = await read_record(store, one.request_id)
    if record.state is State.UNKNOWN:
        await released(one, store, provider)
    return said + await crowd.call(one.tool, one.order, one.plan)


async def released(one: Round, store: Store, provider: Provider) -> None:
    """Two people say what they see at the provider, one of them late."""
    verified = "completed" if await provider.sent(one.order) else "not_executed"
    result = f"{one.order} by a person" if verified == "completed" else None

    async def say() -> bool:
        try:
            await release(
                store, one.request_id, verified=verified, by="ops", reason="seen", override=True, result=result
            )
        except (LedgerAlreadyResolvedError, LedgerReleaseRefusedError):
            return False
        return True

    assert sum(await asyncio.gather(say(), say())) <= 1


def faults_of(one: Round, record: Record, said: list[str], sent: int, keys: int) -> list[str]:
    """What the record, the callers and the provider tell, and what of it cannot be."""
    told = [entry for entry in record.history if entry.what != "note"]
    granted = sum(entry.what in {"claimed", "attempting"} and entry.why in GRANTS for entry in told)
    # What was unknown ran again because a person or its key allowed it: each of these is an authorisation, once.
    again = sum(
        before.what == "unknown" and entry.what != "completed" and entry.why in {"key", "operator"}
        for before, entry in pairwise(told)
    )
    allowed = granted if one.tool in REPEATABLE else 1 + again
    found: list[str] = []
    if sent > allowed:
        found.append(f"{sent} effects, {allowed} were allowed")
    if keys > 1 and one.tool == "pay":
        found.append(f"{keys} keys were sent for one effect")
    if record.state is State.COMPLETED and not sent:
        found.append("completed without an effect")
    if record.state in {State.FAILED, State.DEAD, State.CANCELLED} and sent and one.tool != "look":
        found.append(f"{record.state} with {sent} effects")
    if record.state not in {State.COMPLETED, State.FAILED, State.UNKNOWN, State.DEAD, State.READY}:
        found.append(f"left {record.state}")
    results = {text for text in said if text.startswith("returned ")}
    if len(results) > 1 and one.tool not in REPEATABLE:
        found.append(f"the callers got {sorted(results)}")
    return [f"{one.tool} {one.order} {one.plan}: {fault}; {record.history}" for fault in found]


async def test_fifty_processes_and_one_call(url: str, namespace: str, tmp_path: Path) -> None:
    print(f"seed {SEED}, {ROUNDS} rounds")  # noqa: T201 - shown when it fails
    random = Random(SEED)
    rounds = [
        Round(random.choice(TOOLS), f"o{n}", random.choices(STEPS, WEIGHTS, k=random.randint(1, 3)))
        for n in range(ROUNDS)
    ]
    redis: Any = Redis.from_url(url)
    store = await open_store(url, namespace=namespace)
    provider = Provider(redis, namespace)
    faults: list[str] = []
    states: Counter[str] = Counter()
    room = asyncio.Semaphore(AT_ONCE)
    async with crowded(PROCESSES, url, namespace, tmp_path) as crowd:

        async def play(one: Round) -> None:
            async with room:
                said = await played(one, crowd, store, provider)
            record = await read_record(store, one.request_id)
            states[record.state] += 1
            told = await provider.sent(one.order), await provider.keys(one.order)
            faults.extend(faults_of(one, record, said, *told))

        await asyncio.gather(*[play(one) for one in rounds])
    await store.aclose()
    await redis.aclose()
    assert faults == []
    # Otherwise the storm met nothing.
    assert crowd.killed >= ROUNDS // 20
    assert crowd.thawed >= ROUNDS // 40
    assert states[State.COMPLETED] >= ROUNDS // 3
