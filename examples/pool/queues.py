"""Who comes next: a flood of one tenant holds up no other, and the lowest priority waits a bounded number of claims."""

from __future__ import annotations

import asyncio

from mycelium import Priority, tool
from mycelium.testing import in_memory_worker

ORDER: list[str] = []


@tool(effect_class="read")
async def look_up(name: str) -> str:
    """Note who was served."""
    ORDER.append(name)
    return name


async def main() -> None:
    """A hundred jobs of one tenant, one of another, and one of the lowest priority."""
    async with in_memory_worker([look_up], hosts=1, slots=1) as worker:
        with worker.paused():
            for number in range(100):
                await worker.client.submit(look_up.bind(f"acme-{number}"), request_id=f"a{number}", tenant="acme")
            await worker.client.submit(look_up.bind("globex"), request_id="g", tenant="globex")
            await worker.client.submit(look_up.bind("low"), request_id="l", priority=Priority.BACKGROUND)
        await worker.run_until_idle()
    print(f"globex was number {ORDER.index('globex') + 1}, the lowest priority number {ORDER.index('low') + 1} of 102")


if __name__ == "__main__":
    asyncio.run(main())
