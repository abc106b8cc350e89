"""Limits that the whole fleet shares: at most two calls of a mailbox at once, and ten units a second of an account."""

from __future__ import annotations

import asyncio
from collections import Counter
from datetime import timedelta

from mycelium import Concurrency, Rate, tool
from mycelium.testing import in_memory_worker

NOW: Counter[str] = Counter()
MOST: Counter[str] = Counter()


@tool(effect_class="read", limits=[Concurrency("mailbox:{mailbox}", 2)])
async def read_mail(mailbox: str, number: int) -> int:
    """Note how many of a mailbox run at once."""
    NOW[mailbox] += 1
    MOST[mailbox] = max(MOST[mailbox], NOW[mailbox])
    await asyncio.sleep(0.01)
    NOW[mailbox] -= 1
    return number


@tool(effect_class="read", limits=[Rate("account:{account}", 10, per_s=1, cost="units")])
async def ask_model(account: str, units: int, number: int) -> int:
    """Costs as many units as its argument says."""
    del account, units
    return number


async def main() -> None:
    """Ten calls of one mailbox, and forty units of an account that has ten a second."""
    async with in_memory_worker([read_mail, ask_model]) as worker:
        for number in range(10):
            await worker.client.submit(read_mail.bind("inbox", number), request_id=f"mail:{number}")
        await worker.run_until_idle()
        print(f"at most {MOST['inbox']} of the mailbox ran at once")
        for number in range(8):
            await worker.client.submit(ask_model.bind("acme", 5, number), request_id=f"ask:{number}")
        for second in range(4):
            await worker.run_until_idle()
            done = [await worker.client.job(f"ask:{number}").state() == "completed" for number in range(8)]
            print(f"after {second} s: {sum(done)} of 8 asked")
            await worker.advance(timedelta(seconds=1))


if __name__ == "__main__":
    asyncio.run(main())
