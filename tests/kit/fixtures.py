"""Fixtures that every test may ask for. tests/conftest.py imports them."""

from __future__ import annotations

import threading
import uuid
from contextlib import AsyncExitStack, ExitStack
from typing import TYPE_CHECKING, Protocol, Unpack

import pytest
from fakeredis import TcpFakeServer

from kit.proxy import FaultProxy
from kit.servers import Flavour, RealServer

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
    from pathlib import Path

    from mycelium.leases.embedded import StartOptions


class StartServer(Protocol):
    """Starts servers that end with the test."""

    def __call__(
        self,
        data_dir: Path | None = None,
        *,
        flavour: Flavour = Flavour.VALKEY,
        config: Mapping[str, str] | None = None,
        **options: Unpack[StartOptions],
    ) -> RealServer: ...


@pytest.fixture(scope="session")
def server() -> Iterator[RealServer]:
    """One server in memory for the whole run. Share it by `namespace`; never flush, kill or configure it."""
    with RealServer.run() as running:
        yield running


@pytest.fixture(scope="session")
def url(server: RealServer) -> str:
    """The URL of `server`."""
    return server.url


@pytest.fixture(scope="session")
def fake_url() -> Iterator[str]:
    """A stand-in server in this process: no INFO, no CONFIG, another Lua."""
    server = TcpFakeServer(("127.0.0.1", 0), server_type="redis")
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    yield f"redis://127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.fixture
def namespace() -> str:
    """A namespace that no other test has."""
    return f"test-{uuid.uuid4().hex[:12]}"


@pytest.fixture
def start_server() -> Iterator[StartServer]:
    """Starts a server of the test's own, as often as it is called: to kill, restart or configure."""
    with ExitStack() as servers:

        def start(
            data_dir: Path | None = None,
            *,
            flavour: Flavour = Flavour.VALKEY,
            config: Mapping[str, str] | None = None,
            **options: Unpack[StartOptions],
        ) -> RealServer:
            return servers.enter_context(RealServer.run(data_dir, flavour=flavour, config=config, **options))

        yield start


@pytest.fixture
def durable_server(start_server: StartServer, tmp_path: Path) -> RealServer:
    """A server of the test's own with an append-only file, fsync always: to kill and restart."""
    return start_server(tmp_path / "data")


@pytest.fixture
async def start_proxy() -> AsyncIterator[Callable[[str], Awaitable[FaultProxy]]]:
    """Starts a fault proxy in front of a URL, as often as it is called; they end with the test."""
    async with AsyncExitStack() as proxies:

        async def start(upstream: str) -> FaultProxy:
            return await proxies.enter_async_context(FaultProxy(upstream))

        yield start


@pytest.fixture
async def proxy(start_proxy: Callable[[str], Awaitable[FaultProxy]], url: str) -> FaultProxy:
    """A fault proxy in front of `server`."""
    return await start_proxy(url)
