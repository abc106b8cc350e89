"""A worker in the process of the test, on each kind of server, and a shop that nothing has happened in."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import AsyncIterator

import pytest

from kit.in_memory_shop import SHOP, TOOLS, Shop
from mycelium.testing import InMemoryWorker, in_memory_worker


@pytest.fixture
async def shop() -> AsyncIterator[Shop]:
    """The provider of the tools, as new."""
    for part in dataclasses.fields(Shop):
        made = part.default_factory() if part.default_factory is not dataclasses.MISSING else part.default
        setattr(SHOP, part.name, made)
    SHOP.loop = asyncio.get_running_loop()
    yield SHOP
    SHOP.go.set()


@pytest.fixture(params=["url", "fake_url"])
def any_server(request: pytest.FixtureRequest) -> str:
    """A real server, then fakeredis."""
    return str(request.getfixturevalue(request.param))


@pytest.fixture
async def worker(url: str, shop: Shop) -> AsyncIterator[InMemoryWorker]:
    """A worker on a real server."""
    assert shop.sold == []
    async with in_memory_worker(TOOLS, server=url) as worker:
        yield worker
