"""A plain client of a server, past every channel of the product: one command, one raw reply, nothing repeated."""

from __future__ import annotations

from typing import Any, Self, cast

from redis.asyncio import Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff


class Plain:
    """`async with Plain(url) as client: await client("GET", "key")`."""

    def __init__(self, url: str) -> None:
        self._client = cast("Any", Redis).from_url(url, retry=Retry(NoBackoff(), 0), protocol=2)

    async def __call__(self, *words: str | bytes | int) -> object:
        """Run one command."""
        return cast("object", await self._client.execute_command(*words))

    async def number(self, *words: str | bytes | int) -> int:
        """Run one command whose reply is a number, or nothing, which is 0."""
        return int(cast("bytes | int | None", await self._client.execute_command(*words)) or 0)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *error: object) -> None:
        await self._client.aclose()
