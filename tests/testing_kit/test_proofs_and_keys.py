"""What a tool may prove of itself, on a whole worker in memory.

No proof speaks of another call, and what was never sent ages no provider's key.
"""

from __future__ import annotations

from collections import Counter

import pytest

import mycelium
from mycelium.actors.tool import AsyncTool
from mycelium.ledger.record import read_record
from mycelium.ledger.states import State
from mycelium.testing import in_memory_worker

WINDOW_S = 60.0
EFFECTS: Counter[str] = Counter()


@pytest.fixture(autouse=True)
def nothing_has_happened() -> None:
    EFFECTS.clear()


@mycelium.tool(effect_class="non_idempotent_mutate")
async def mail(to: str, retry_after_s: float | None) -> str:
    said = f"{to} is refused"
    raise mycelium.NotExecuted(said, retry_after_s=retry_after_s)


@mycelium.tool(effect_class="non_idempotent_mutate")
async def charge_and_mail(to: str, retry_after_s: float | None) -> str:
    EFFECTS["charge"] += 1
    return await mail(to, retry_after_s)


@mycelium.tool(effect_class="non_idempotent_mutate")
def mail_plainly(to: str) -> str:
    said = f"{to} is refused"
    raise mycelium.NotExecuted(said)


@mycelium.tool(effect_class="non_idempotent_mutate")
def charge_and_mail_plainly(to: str) -> str:
    EFFECTS["charge"] += 1
    return mail_plainly(to)


@mycelium.tool(effect_class="non_idempotent_mutate", boundary="explicit")
async def charge_and_snooze(order: str) -> str:
    async with mycelium.side_effect():
        EFFECTS[order] += 1
    raise mycelium.Snooze(1)


def keyed(name: str, error: mycelium.NotExecuted) -> AsyncTool[..., str]:
    """A tool whose provider is not ready until long after its key window, and says that nothing was done."""

    @mycelium.tool(name=name, effect_class="keyed_mutate", key_param="key", key_window_s=WINDOW_S, timeout_s=5)
    async def pay(order: str, key: str = "") -> str:
        EFFECTS[f"{order} asked"] += 1
        if EFFECTS[f"{order} asked"] == 1:
            raise error
        EFFECTS[order] += 1
        return key

    return pay


@pytest.mark.parametrize("retry_after_s", [None, 1.0])
async def test_what_an_inner_call_proves_is_no_proof_of_the_outer_one(retry_after_s: float | None) -> None:
    async with in_memory_worker([mail, charge_and_mail]) as worker:
        await worker.client.submit(charge_and_mail.bind("a", retry_after_s), request_id="o")
        await worker.advance(30)
        assert (await read_record(worker.store, "o")).state is State.UNKNOWN
    assert EFFECTS["charge"] == 1


async def test_nor_is_that_of_a_plain_one() -> None:
    async with in_memory_worker([mail_plainly, charge_and_mail_plainly]) as worker:
        await worker.client.submit(charge_and_mail_plainly.bind("a"), request_id="o")
        await worker.run_until_idle()
        assert (await read_record(worker.store, "o")).state is State.UNKNOWN


async def test_a_snooze_after_a_call_that_returned_does_not_run_it_again() -> None:
    async with in_memory_worker([charge_and_snooze]) as worker:
        await worker.client.submit(charge_and_snooze.bind("o"), request_id="o")
        await worker.advance(30)
        assert (await read_record(worker.store, "o")).state is State.UNKNOWN
    assert EFFECTS["o"] == 1


@pytest.mark.parametrize(
    "error",
    [mycelium.Snooze(2 * WINDOW_S), mycelium.NotExecuted("busy", retry_after_s=2 * WINDOW_S)],
    ids=["snooze", "not executed"],
)
async def test_a_key_under_which_nothing_was_sent_does_not_age(error: mycelium.NotExecuted) -> None:
    pay = keyed("pay", error)
    async with in_memory_worker([pay]) as worker:
        await worker.client.submit(pay.bind("o"), request_id="o")
        await worker.advance(4 * WINDOW_S)
        assert (await read_record(worker.store, "o")).state is State.COMPLETED
    assert EFFECTS["o"] == 1


@mycelium.tool(effect_class="read", queue="reports")
async def report(name: str) -> str:
    return name


async def test_a_worker_in_memory_takes_from_the_queues_that_its_tools_declare() -> None:
    async with in_memory_worker([report]) as worker:
        job = await worker.client.submit(report.bind("a"), request_id="r")
        await worker.run_until_idle()
        assert await job.result(0) == "a"
    async with in_memory_worker([report], queues="mail:3@10,default") as worker:
        await worker.client.submit(report.bind("a"), request_id="r")
        await worker.run_until_idle()
        assert (await read_record(worker.store, "r")).state is State.READY
