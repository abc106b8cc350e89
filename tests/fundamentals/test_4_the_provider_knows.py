"""Page 4. What became of an unknown call is asked of whoever knows: its provider, through a read-only adapter.

"It is there" completes the call with its evidence. "It is not there", said when it cannot arrive any more, lets it run
once more, under a new fence. "I cannot say" leaves it unknown, and it is asked again later.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from fundamentals import bakery

if TYPE_CHECKING:
    from fundamentals.conftest import Shop

    import mycelium

pytestmark = pytest.mark.usefixtures("worker")


async def test_an_effect_that_is_there_completes_the_call(client: mycelium.Client, shop: Shop) -> None:
    job = await client.submit(bakery.sell_by_till.bind("rye", break_at="after"), request_id="sale-1")

    assert await job.result(timeout_s=20) == {"sold": "rye"}
    record = await job.record()
    assert [entry.what for entry in record.history] == ["ready", "claimed", "attempting", "unknown", "completed"]
    assert record.evidence
    assert shop.till == ["rye"]


async def test_an_effect_that_is_not_there_runs_once_more(client: mycelium.Client, shop: Shop) -> None:
    job = await client.submit(bakery.sell_by_till.bind("rye", break_at="before"), request_id="sale-1")

    assert await job.result(timeout_s=20) == {"sold": "rye"}
    states = [entry.what for entry in (await job.record()).history]
    assert states == ["ready", "claimed", "attempting", "unknown", "ready", "claimed", "attempting", "completed"]
    assert shop.till == ["rye"]
