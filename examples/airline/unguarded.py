"""The demo without the product: naive workers on a plain Redis list, with redelivery when one of them dies."""

from __future__ import annotations

import asyncio
import json
from typing import Self

from redis.asyncio import Redis

from ...leases.errors import MyceliumError
from .calls import RecordedCall
from .http_client import OK, SERVER_FAULT
from .naive import QUEUE, RESULTS, WORKERS, processing
from .replay import Way
from .score import Ended, Ending
from .stage import LOOK_EVERY_S, START_LIMIT_S, Actor, Stage

SLOTS = 16
WAIT_S = 30.0


class Unguarded(Way):
    """Runs calls by way of the list. Use it as a context manager.

    Args:
        url: the queue's server.
    """

    def __init__(self, url: str) -> None:
        self._url = url
        self._redis = Redis.from_url(url)
        self._waiting: dict[str, asyncio.Future[Ending]] = {}
        self._hearing: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        self._hearing = asyncio.create_task(self._hear())
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._hearing:
            self._hearing.cancel()
            await asyncio.gather(self._hearing, return_exceptions=True)
        await self._redis.aclose()

    async def start_worker(self, stage: Stage, number: int) -> Actor:
        """Start a naive worker."""
        module = ["mycelium.examples.airline.naive", "--url", self._url, "--slots", str(SLOTS)]
        return await stage.start(f"naive worker {number}", module)

    async def wait_for_workers(self, stage: Stage, number: int) -> None:
        """Wait until they have said so."""
        try:
            async with asyncio.timeout(START_LIMIT_S):
                while await self._redis.scard(WORKERS) < number:
                    stage.check()
                    await asyncio.sleep(LOOK_EVERY_S)
        except TimeoutError:
            what = f"The naive workers did not start within {START_LIMIT_S:g} s."
            raise MyceliumError(what, next_step=f"Read their logs in {stage.directory}") from None

    async def perform(self, call: RecordedCall) -> Ending:
        """Put a call into the list, and wait for its result."""
        self._waiting[call.key] = asyncio.get_running_loop().create_future()
        await self._redis.rpush(QUEUE, json.dumps({"key": call.key, "tool": call.tool, "arguments": call.arguments}))
        try:
            return await asyncio.wait_for(self._waiting[call.key], WAIT_S)
        except TimeoutError:
            return Ending(Ended.LOST)
        finally:
            del self._waiting[call.key]

    async def bury(self, worker: Actor) -> None:
        """Redeliver what it held, as a queue with a visibility timeout does."""
        while await self._redis.lmove(processing(str(worker.pid)), QUEUE, "RIGHT", "LEFT") is not None:
            pass

    async def unknown_now(self) -> int:
        """None: a naive worker has no word for doubt."""
        return 0

    async def review(self, endings: dict[str, Ending]) -> dict[str, Ending]:
        """Nothing to look at."""
        return endings

    async def _hear(self) -> None:
        while True:
            heard = await self._redis.blpop(RESULTS, 1)
            if heard is None:
                continue
            result = json.loads(heard[1])
            waiting = self._waiting.get(result["key"])
            # A redelivered call has a second result, which nobody waits for.
            if waiting and not waiting.done():
                waiting.set_result(_ending(int(result["status"]), str(result["text"])))


def _ending(status: int, text: str) -> Ending:
    if status == OK:
        return Ending(Ended.COMPLETED, text)
    return Ending(Ended.FAILED if status >= SERVER_FAULT else Ended.REFUSED, text)
