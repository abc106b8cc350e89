"""Opens the server for one command."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..leases.store import Store


@asynccontextmanager
async def connected(url: str | None, namespace: str) -> AsyncGenerator[Store, None]:
    """Open a store for one command."""
    from ..leases.store import open_store  # noqa: PLC0415 - help and completion come without it

    store = await open_store(url, namespace=namespace)
    try:
        yield store
    finally:
        await store.aclose()
