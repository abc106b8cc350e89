"""A lane that a defect ends is told to the loop: whoever waits for it would wait for ever."""

from __future__ import annotations

import asyncio

from mycelium.leases.store import open_store


class Defect(Exception):  # noqa: N818 - what nobody expected
    """An error that no code handles."""


async def test_a_lane_that_ends_by_a_defect_is_told_to_the_loop(url: str, namespace: str) -> None:
    told: asyncio.Future[BaseException] = asyncio.get_running_loop().create_future()
    store = await open_store(url, namespace=namespace)
    asyncio.get_running_loop().set_exception_handler(lambda _, context: told.set_result(context["exception"]))

    async def defect() -> None:
        raise Defect

    (wire,) = store.renewals._wires
    wire.open = defect  # type: ignore[method-assign]
    waiting = asyncio.ensure_future(store.renewals.read("PING", patience_s=None))
    assert isinstance(await asyncio.wait_for(told, 10), Defect)
    waiting.cancel()
    await store.aclose()
