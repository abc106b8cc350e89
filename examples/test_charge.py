"""How a tool is tested: a worker in the test's own process, a provider that is a plain object, and a clock to move.

Run it with `pytest examples/test_charge.py`; pytest-asyncio and fakeredis come with `mycelium[testing]`.
"""

from __future__ import annotations

from datetime import timedelta

import pytest

from mycelium import JobUnknownError, Lookup, State, Verdict, tool
from mycelium.testing import in_memory_worker


class Gateway:
    """A provider that takes money once for each key, and may hang up after it has."""

    lag_s = 5.0

    def __init__(self) -> None:
        self.charges: dict[str, int] = {}
        self.hangs_up = False

    def charge(self, key: str, cents: int) -> str:
        """Take the money."""
        self.charges.setdefault(key, cents)
        if self.hangs_up:
            raise ConnectionError(key)
        return f"ch_{key}"

    def reconcile(self, lookup: Lookup, /) -> Verdict:
        """Tell whether the money was taken."""
        order = str(lookup.arguments["order"])
        if order in self.charges:
            return Verdict.completed(f"ch_{order}", evidence=order)
        return Verdict.not_executed({"looked_for": order})


GATEWAY = Gateway()


def closed(lookup: Lookup, /) -> Verdict:
    """Answer in the gateway's place."""
    return Verdict.unknown(f"closed for the night: {lookup.request_id}")


@tool(effect_class="non_idempotent_mutate", reconciler=GATEWAY)
def charge(order: str, cents: int) -> str:
    """Charge an order."""
    return GATEWAY.charge(order, cents)


@pytest.mark.asyncio
async def test_a_charge_whose_answer_was_lost_is_looked_up_and_not_sent_again() -> None:
    """The gateway is asked what became of it."""
    GATEWAY.hangs_up = True
    async with in_memory_worker([charge]) as worker:
        job = await worker.client.submit(charge.bind("ORD-1", 1200), request_id="charge-order:ORD-1")
        await worker.run_until_idle()
        assert await job.result(0) == "ch_ORD-1"
        assert [entry.what for entry in (await job.record()).history][-2:] == ["unknown", "completed"]
    assert GATEWAY.charges == {"ORD-1": 1200}


@pytest.mark.asyncio
async def test_a_charge_for_tomorrow_is_not_taken_today() -> None:
    """Time passes when the test says so."""
    GATEWAY.hangs_up = False
    async with in_memory_worker([charge]) as worker:
        job = await worker.client.submit(charge.bind("ORD-2", 700), request_id="charge-order:ORD-2", delay_s=86_400)
        await worker.advance(timedelta(hours=23))
        assert await job.state() is State.DELAYED
        await worker.advance(timedelta(hours=1))
        assert await job.result(0) == "ch_ORD-2"


@pytest.mark.asyncio
async def test_while_nobody_can_tell_a_charge_stays_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is asked about again, ever more seldom."""
    GATEWAY.hangs_up = True
    monkeypatch.setattr(GATEWAY, "reconcile", closed)
    async with in_memory_worker([charge]) as worker:
        job = await worker.client.submit(charge.bind("ORD-3", 300), request_id="charge-order:ORD-3")
        await worker.run_until_idle()
        with pytest.raises(JobUnknownError):
            await job.result(0, on_unknown="raise")
        monkeypatch.undo()
        await worker.advance(timedelta(minutes=10))
        assert await job.result(0) == "ch_ORD-3"
