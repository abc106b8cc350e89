"""Looks at a schedule that is due each minute, a minute of the server's at a time, until it is killed.

Its arguments: the server, the namespace, and the first minute.
"""

from __future__ import annotations

import asyncio
import itertools
import sys
from datetime import timedelta

from kit.schedules import NOON, ping, set_clock, store_at
from mycelium.actors.schedules.declaration import schedule
from mycelium.actors.schedules.looking import run_once
from mycelium.leases.clock import BootClock

MINUTE = timedelta(minutes=1)
EACH_MINUTE = schedule("pulse", ping, every=MINUTE, catch_up="all").facts


async def main(url: str, namespace: str, first: int) -> None:
    """Look for ever, and tell of each minute."""
    async with store_at(url, namespace) as store:
        for minute in itertools.count(first):
            set_clock(store, NOON + minute * MINUTE)
            await run_once(store, {EACH_MINUTE.name: EACH_MINUTE}, BootClock())
            print(minute, flush=True)  # noqa: T201 - to whoever is going to kill it


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2], int(sys.argv[3])))
