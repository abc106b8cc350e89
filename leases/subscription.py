"""Listens to channels on a connection of its own, for ever: what it hears only ever shortens a poll."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any, cast

from redis.asyncio import Redis
from redis.exceptions import RedisError

_SILENCE_S = 10.0
"""After so long without a word a ping goes out; after as long again without its answer the connection is dead."""
_BACKOFF_CAP_S = 1.0


@dataclass(frozen=True, slots=True)
class Heard:
    """A message: the channel's name and the body as it was published."""

    channel: str
    body: bytes


@dataclass(frozen=True, slots=True)
class Resubscribed:
    """The subscription stands (again): what was said before was not heard, so poll once now."""


async def listen(
    client: Redis, *channels: str, silence_s: float = _SILENCE_S
) -> AsyncGenerator[Heard | Resubscribed, None]:
    """Yield what is said in the channels; `Resubscribed` first, and after each reconnect.

    Never raises for a server that is away: it reconnects with back-off until the iterator is closed.
    """
    tries = 0
    cancelled_before = _cancelled()
    while True:
        try:
            async with aclosing(_one_connection(client, channels, silence_s)) as words:
                async for word in words:
                    tries = 0
                    yield word
        except (RedisError, OSError):
            tries += 1
        if _cancelled() > cancelled_before:
            # Closing a connection half-way may raise over the cancellation: it would be lost here.
            raise asyncio.CancelledError
        await asyncio.sleep(random.uniform(0, min(_BACKOFF_CAP_S, 0.01 * 2 ** min(tries, 16))))  # noqa: S311 - no secret


async def _one_connection(
    client: Redis, channels: tuple[str, ...], silence_s: float
) -> AsyncGenerator[Heard | Resubscribed, None]:
    pubsub = cast("Any", client).pubsub()
    missing = set(channels)
    asked = False
    cancelled_before = _cancelled()
    try:
        await pubsub.subscribe(*channels)
        while True:
            if _cancelled() > cancelled_before:
                # The library sends through `asyncio.wait_for`, which before Python 3.12 loses a cancellation that comes
                # as the sending ends.
                raise asyncio.CancelledError
            message = cast("dict[str, Any] | None", await pubsub.get_message(timeout=silence_s))
            if message is None:
                if asked:
                    return
                await pubsub.ping()
                asked = True
                continue
            asked = False
            if message["type"] == "message":
                yield Heard(message["channel"].decode(), message["data"])
            elif message["type"] == "subscribe" and missing:
                missing.discard(message["channel"].decode())
                if not missing:
                    yield Resubscribed()
    finally:
        await pubsub.aclose()


def _cancelled() -> int:
    task = asyncio.current_task()
    return 0 if task is None else task.cancelling()
