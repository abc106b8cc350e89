"""Page 1. A tool call is submitted as a job, run by a worker, and answered.

A tool is a function that says what kind of effect it has (see `bakery.py`). `tool.bind(…)` names a call;
`client.submit` records the intent and queues it; a worker claims it, records the point of no return if it is a write,
runs it and settles it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from fundamentals import bakery

import mycelium

if TYPE_CHECKING:
    from fundamentals.conftest import Shop

pytestmark = pytest.mark.usefixtures("worker")


async def test_a_call_is_answered_with_what_the_tool_returned(client: mycelium.Client, shop: Shop) -> None:
    job = await client.submit(bakery.sell.bind("rye", pieces=2), request_id="sale-1")

    assert await job.result(timeout_s=20) == {"sold": "rye", "pieces": 2}
    assert shop.till == ["rye"]


async def test_the_record_tells_every_step_in_order(client: mycelium.Client) -> None:
    job = await client.submit(bakery.sell.bind("rye"), request_id="sale-1")
    await job.result(timeout_s=20)

    record = await job.record()
    assert [entry.what for entry in record.history] == ["ready", "claimed", "attempting", "completed"]
    assert [entry.number for entry in record.history] == [1, 2, 3, 4]
    assert record.boundary is mycelium.Boundary.CROSSED


async def test_a_read_needs_no_mark(client: mycelium.Client) -> None:
    job = await client.submit(bakery.price.bind("apple"), request_id="ask-1")

    assert await job.result(timeout_s=20) == 5
    assert [entry.what for entry in (await job.record()).history] == ["ready", "attempting", "completed"]


def test_plain_code_asks_the_same_way(url: str, namespace: str) -> None:
    with mycelium.connect_sync(url, namespace=namespace) as client:
        assert client.call(bakery.price.bind("rye"), request_id="ask-2", wait_s=20) == 3
