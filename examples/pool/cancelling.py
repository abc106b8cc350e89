"""A cancel is a request: what had not marked its effect is cancelled, what had is found out, never assumed."""

from __future__ import annotations

import asyncio

from mycelium import JobCancelledError, JobUnknownError, progress, side_effect, tool
from mycelium.testing import in_memory_worker

BEGUN = asyncio.Semaphore(0)


@tool(effect_class="non_idempotent_mutate", boundary="explicit")
async def prepare_and_send(to: str) -> str:
    """Works for long, and tells how far it is; only then is there something to lose."""
    for page in range(100):
        await progress(page, 100, "rendering")
        BEGUN.release()
        await asyncio.sleep(0.05)
    async with side_effect():
        return f"sent to {to}"


@tool(effect_class="non_idempotent_mutate")
async def send(to: str) -> str:
    """Has its mark before the first line: a cancel comes too late to know."""
    BEGUN.release()
    await asyncio.sleep(60)
    return f"sent to {to}"


async def main() -> None:
    """Cancel one in the middle of its preparations, and one in the middle of its effect."""
    async with in_memory_worker([prepare_and_send, send]) as worker:
        early = await worker.client.submit(prepare_and_send.bind("ana"), request_id="mail:1")
        await BEGUN.acquire()
        await early.cancel(by="ana", reason="wrong address")
        try:
            await early.result()
        except JobCancelledError as cancelled:
            print(f"the first: {cancelled.state}")
        late = await worker.client.submit(send.bind("ana"), request_id="mail:2")
        await BEGUN.acquire()
        await late.cancel(by="ana", reason="wrong address")
        try:
            await late.result()
        except JobUnknownError as unknown:
            print(f"the second: {unknown.state}")


if __name__ == "__main__":
    asyncio.run(main())
