"""Page 3. When a tool breaks, the question is not what the error says but where the effect stood.

Before the effect: failed, and no effect exists. After the mark: unknown, because the effect may exist, and nothing runs
it again by guess. A tool that can prove that nothing happened raises `NotExecuted`. A read simply runs again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from fundamentals import bakery

import mycelium

if TYPE_CHECKING:
    from fundamentals.conftest import Shop

pytestmark = pytest.mark.usefixtures("worker")


async def test_a_proof_that_nothing_happened_is_a_failure(client: mycelium.Client, shop: Shop) -> None:
    with pytest.raises(mycelium.JobFailedError) as failed:
        await client.call(bakery.sell_what_is_out.bind("rye"), request_id="sale-1", wait_s=20)
    assert (failed.value.cause, failed.value.detail) == ("NotExecuted", "no rye left")
    assert shop.till == []


async def test_an_error_after_the_mark_is_unknown_and_is_not_run_again(client: mycelium.Client, shop: Shop) -> None:
    job = await client.submit(bakery.sell_and_break.bind("rye"), request_id="sale-1")
    with pytest.raises(mycelium.JobUnknownError):
        await job.result(timeout_s=20, on_unknown="raise")

    again = await client.submit(bakery.sell_and_break.bind("rye"), request_id="sale-1")
    with pytest.raises(mycelium.JobUnknownError):
        await again.result(timeout_s=20, on_unknown="raise")
    assert shop.till == ["rye"]


async def test_a_tool_that_marks_for_itself_fails_before_its_mark(client: mycelium.Client, shop: Shop) -> None:
    with pytest.raises(mycelium.JobFailedError):
        await client.call(bakery.sell_carefully.bind("rye", break_at="before"), request_id="sale-1", wait_s=20)
    assert shop.till == []


async def test_and_is_unknown_after_it_with_the_providers_handle_on_record(client: mycelium.Client) -> None:
    job = await client.submit(bakery.sell_carefully.bind("rye", break_at="inside"), request_id="sale-1")
    with pytest.raises(mycelium.JobUnknownError):
        await job.result(timeout_s=20, on_unknown="raise")

    record = await job.record()
    assert (record.boundary, record.ref) == (mycelium.Boundary.MAYBE_CROSSED, "sale-of-rye")


async def test_a_read_that_broke_runs_again(client: mycelium.Client) -> None:
    job = await client.submit(bakery.flaky_price.bind("apple"), request_id="ask-1")
    assert await job.result(timeout_s=20) == 5
    assert (await job.record()).attempts == 2
