"""Page 5. Workers die. What they held dies with their session; the class and the boundary decide what follows.

Killed in the middle of a sale, a worker takes its knowledge with it: the sale is unknown until the till is asked, and
is rung up once. Told to stop, a worker finishes what has begun and leaves the rest.
"""

from __future__ import annotations

import asyncio
import signal
from typing import TYPE_CHECKING

from fundamentals import bakery

if TYPE_CHECKING:
    from fundamentals.conftest import Shop

    import mycelium


async def test_a_worker_that_is_killed_in_the_middle_of_an_effect_does_not_cause_a_second_one(
    client: mycelium.Client, shop: Shop
) -> None:
    (shop.folder / "hold").touch()
    first = shop.open()
    job = await client.submit(bakery.sell_slowly.bind("rye"), request_id="sale-1")
    await _rung(shop, 1)

    first.send_signal(signal.SIGKILL)
    (shop.folder / "hold").unlink()
    shop.open()

    assert await job.result(timeout_s=30) == {"sold": "rye"}
    assert shop.till == ["rye"]
    assert (await job.record()).deaths == 1


async def test_a_worker_that_is_told_to_stop_finishes_what_has_begun(client: mycelium.Client, shop: Shop) -> None:
    (shop.folder / "hold").touch()
    worker = shop.open()
    begun = await client.submit(bakery.sell_slowly.bind("rye"), request_id="sale-1")
    await _rung(shop, 1)

    worker.send_signal(signal.SIGTERM)
    (shop.folder / "hold").unlink()
    assert await begun.result(timeout_s=20) == {"sold": "rye"}
    assert await asyncio.to_thread(worker.wait, 20) == 0


async def _rung(shop: Shop, times: int) -> None:
    """Wait until the till has rung; reading a file is the only way to see it happen."""
    async with asyncio.timeout(20):
        while len(shop.till) < times:
            await asyncio.to_thread((shop.folder / "till").exists)
