"""The naive worker, for comparison: takes calls from a Redis list, retries what fails, and is redelivered what it held.

This is what a queue with at-least-once delivery and a retry decorator does. It is right for reads, and makes
duplicates of writes. `python -m mycelium.examples.airline.naive` runs one worker.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import signal
import sys
from typing import cast

from redis.asyncio import Redis

from .http_client import SERVER_FAULT, URL_VARIABLE, AirlineClient

QUEUE, RESULTS, WORKERS = "naive:queue", "naive:results", "naive:workers"
TRIES = 3
BLOCK_S = 1


def processing(worker: str) -> str:
    """The list of what a worker has taken and not finished."""
    return f"naive:processing:{worker}"


class NaiveWorker:
    """Takes calls and makes them.

    Args:
        redis: the queue's server.
        airline: whom the calls go to.
        name: its name; what it holds is found again by it.
    """

    def __init__(self, redis: Redis, airline: AirlineClient, name: str) -> None:
        self._redis = redis
        self._airline = airline
        self._name = name

    async def work(self) -> None:
        """Take and make one call after the other, for ever."""
        while True:
            found = await self._redis.blmove(QUEUE, processing(self._name), BLOCK_S, "LEFT", "RIGHT")
            if found is None:
                continue
            taken = str(found)
            result = await self._make(cast("dict[str, object]", json.loads(taken)))
            await self._redis.rpush(RESULTS, json.dumps(result))
            await self._redis.lrem(processing(self._name), 1, taken)

    async def _make(self, call: dict[str, object]) -> dict[str, object]:
        key, arguments = str(call["key"]), cast("dict[str, object]", call["arguments"])
        for _ in range(TRIES):
            try:
                answer = await self._airline.call(str(call["tool"]), arguments, key)
            except (OSError, TimeoutError):
                continue
            if answer.status < SERVER_FAULT:
                return {"key": key, "status": answer.status, "text": answer.text}
        return {"key": key, "status": SERVER_FAULT, "text": "given up"}


async def _run(url: str, slots: int) -> None:
    name = str(os.getpid())
    redis = Redis.from_url(url, decode_responses=True)
    airline = AirlineClient(os.environ[URL_VARIABLE])
    worker = NaiveWorker(redis, airline, name)
    working = [asyncio.create_task(worker.work()) for _ in range(slots)]
    await redis.sadd(WORKERS, name)
    ended = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, ended.set)
    await asyncio.wait([asyncio.create_task(ended.wait()), *working], return_when=asyncio.FIRST_COMPLETED)
    for task in working:
        task.cancel()
    failed = [each for each in await asyncio.gather(*working, return_exceptions=True) if isinstance(each, Exception)]
    await redis.aclose()
    await airline.aclose()
    if failed:
        raise failed[0]


def main(arguments: list[str] | None = None) -> int:
    """Run one worker; gives the exit code."""
    parser = argparse.ArgumentParser(prog="airline-naive", description=__doc__)
    parser.add_argument("--url", required=True, help="the queue's server")
    parser.add_argument("--slots", type=int, default=16, help="calls at once")
    given = parser.parse_args(arguments)
    asyncio.run(_run(given.url, given.slots))
    return 0


if __name__ == "__main__":
    sys.exit(main())
