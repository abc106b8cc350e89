"""What the tests of this floor share: stores that close with the test, a clock to turn, and a dump of the keyspace."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import Any, Protocol, cast

import pytest
from redis.asyncio import Redis

from kit.plain import Plain
from mycelium.leases.store import Store, StoreSettings, open_store

Keys = dict[str, object]


class OpenStore(Protocol):
    """Opens stores that close with the test."""

    async def __call__(self, url: str, settings: StoreSettings | None = None) -> Store: ...


@dataclass
class TurnedClock:
    """A clock that stands still until a test turns it."""

    instant_s: float = 1000.0

    def now_s(self) -> float:
        return self.instant_s


@pytest.fixture
def clock() -> TurnedClock:
    return TurnedClock()


@pytest.fixture
async def opened(namespace: str) -> AsyncIterator[OpenStore]:
    async with AsyncExitStack() as stores:

        async def open_one(url: str, settings: StoreSettings | None = None) -> Store:
            store = await open_store(url, namespace=namespace, settings=settings)
            stores.push_async_callback(store.aclose)
            return store

        yield open_one


@pytest.fixture
async def direct(url: str) -> AsyncIterator[Plain]:
    """A plain client past every channel."""
    async with Plain(url) as client:
        yield client


@pytest.fixture
def keyspace(namespace: str) -> Callable[[Store], Awaitable[Keys]]:
    """Everything that the namespace holds, by key."""

    async def dump(store: Store) -> Keys:
        async with cast("Any", Redis).from_url(store.url, protocol=2) as client:
            keys = sorted([key async for key in client.scan_iter(match=f"{{{namespace}}}:*")])
            return {key.decode(): await _value(client, key) for key in keys}

    return dump


async def _value(redis: Redis, key: bytes) -> object:
    client = cast("Any", redis)
    kind = cast("bytes", await client.type(key))
    if kind == b"hash":
        return await client.hgetall(key)
    if kind == b"zset":
        return await client.zrange(key, 0, -1, withscores=True)
    if kind == b"string":
        return await client.get(key)
    message = f"{key!r} is a {kind!r}"
    raise AssertionError(message)
