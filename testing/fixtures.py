"""Fixtures of pytest: name this module in a conftest.py, `pytest_plugins = ["mycelium.testing.fixtures"]`.

`mycelium_worker` runs the tools that your own fixture `mycelium_tools` gives. Every test has a namespace to itself; all
share one server, which `mycelium_server` can be overridden to choose.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Iterator
from typing import Any

from ..actors.client import Client, Tools
from ..actors.schedules.declaration import Schedule
from ..leases.errors import SettingsError
from .servers import private_server
from .worker import InMemoryWorker, in_memory_worker

try:
    import pytest
    import pytest_asyncio
except ImportError as missing:
    what = f"The fixtures need pytest and pytest-asyncio, and {missing.name} is not installed."
    raise SettingsError(what, next_step="Install mycelium[testing].") from None


@pytest.fixture(scope="session")
def mycelium_server() -> Iterator[str]:
    """The URL of the server of all tests: a real one in memory. Override it to use another."""
    with private_server() as url:
        yield url


@pytest.fixture
def mycelium_tools() -> Tools:
    """The tools that the worker runs: override it."""
    what = "The worker of this test has no tools."
    raise SettingsError(what, next_step="Define a fixture mycelium_tools in your conftest.py that returns them.")


@pytest.fixture
def mycelium_schedules() -> Iterable[Schedule]:
    """When it calls tools by itself: override it."""
    return ()


@pytest.fixture
def mycelium_settings() -> dict[str, Any]:
    """Fields of `WorkerSettings` that differ from the defaults: override it."""
    return {}


@pytest_asyncio.fixture
async def mycelium_worker(
    mycelium_server: str,
    mycelium_tools: Tools,
    mycelium_schedules: Iterable[Schedule],
    mycelium_settings: dict[str, Any],
) -> AsyncIterator[InMemoryWorker]:
    """A worker in the process of the test; see `InMemoryWorker`."""
    async with in_memory_worker(
        mycelium_tools, schedules=mycelium_schedules, server=mycelium_server, **mycelium_settings
    ) as worker:
        yield worker


@pytest_asyncio.fixture
async def mycelium_client(mycelium_worker: InMemoryWorker) -> Client:
    """The client of that worker."""
    return mycelium_worker.client
