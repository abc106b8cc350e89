"""Page 2. What makes two calls the same: the intent, not the message that asked for it.

A request id is the host's own name of an intended effect. Without one, run, step, tool and arguments name it. The
model's own id of a call is a hint for people: models reuse such ids for different calls, and mint new ones for the
same.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest
from fundamentals import bakery

import mycelium

if TYPE_CHECKING:
    from fundamentals.conftest import Shop

pytestmark = pytest.mark.usefixtures("worker")


async def test_the_same_call_again_joins_the_first_one(client: mycelium.Client, shop: Shop) -> None:
    calls = [client.call(bakery.sell.bind("rye"), request_id="sale-1", wait_s=20) for _ in range(10)]

    assert await asyncio.gather(*calls) == [{"sold": "rye", "pieces": 1}] * 10
    assert shop.till == ["rye"]


async def test_the_same_id_for_something_else_is_refused(client: mycelium.Client, shop: Shop) -> None:
    await client.call(bakery.sell.bind("rye"), request_id="sale-1", wait_s=20)

    with pytest.raises(mycelium.IdentityConflictError):
        await client.submit(bakery.sell.bind("apple"), request_id="sale-1")
    assert shop.till == ["rye"]


async def test_the_models_own_id_is_not_an_identity(client: mycelium.Client, shop: Shop) -> None:
    same = {"run_id": "run-7", "step": 3}
    for tool_call_id in ("call_a", "call_b"):
        await client.call(bakery.sell.bind("rye"), run_id="run-7", step=3, tool_call_id=tool_call_id, wait_s=20)
    assert shop.till == ["rye"], same

    await client.call(bakery.sell.bind("apple"), run_id="run-7", step=3, tool_call_id="call_a", wait_s=20)
    assert shop.till == ["rye", "apple"]


async def test_a_second_equal_call_on_purpose_says_so(client: mycelium.Client, shop: Shop) -> None:
    for ordinal in (0, 1):
        await client.call(bakery.sell.bind("rye"), run_id="run-7", step=3, ordinal=ordinal, wait_s=20)
    assert shop.till == ["rye", "rye"]
