"""What runs again, and when: by the class of the effect, by what the tool proves, and by a person's word."""

from __future__ import annotations

import asyncio
from datetime import timedelta

from mycelium import JobDeadError, NotExecuted, Snooze, requeue, tool
from mycelium.testing import in_memory_worker

BUSY = [True, True, True]
OPENS_AT_TRY = 3
ASKED: list[str] = []


@tool(effect_class="non_idempotent_mutate", max_attempts=3)
async def charge(order: str) -> str:
    """The provider says "busy, try again in a minute", which proves that nothing was charged."""
    if BUSY and BUSY.pop():
        said = "429 Too Many Requests"
        raise NotExecuted(said, retry_after_s=60)
    return f"charged {order}"


@tool(effect_class="non_idempotent_mutate", max_attempts=1)
async def settle(order: str) -> str:
    """The bank is closed: asked again in an hour, which is charged to nobody."""
    ASKED.append(order)
    if len(ASKED) < OPENS_AT_TRY:
        raise Snooze(3600)
    return f"settled {order}"


async def main() -> None:
    """A call that uses its attempts up and is requeued, and one that snoozes more often than it may be attempted."""
    async with in_memory_worker([charge, settle]) as worker:
        refused = await worker.client.submit(charge.bind("ORD-1"), request_id="charge:ORD-1")
        snoozed = await worker.client.submit(settle.bind("ORD-1"), request_id="settle:ORD-1")
        await worker.advance(timedelta(hours=3))
        try:
            await refused.result()
        except JobDeadError as dead:
            print(f"dead: {dead.state}")
        print(await snoozed.result())
        await requeue(worker.store, "charge:ORD-1", by="ana", reason="the provider is back")
        await worker.run_until_idle()
        print(await refused.result())


if __name__ == "__main__":
    asyncio.run(main())
