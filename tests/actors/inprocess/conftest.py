"""A world of ledgers on the shared server, and one on a server of the test's own."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from kit.fixtures import StartServer
from kit.inprocess import World, world
from kit.servers import RealServer


@pytest.fixture
def here(url: str, namespace: str) -> Iterator[World]:
    with world(url, namespace) as made:
        yield made


@pytest.fixture
def own_server(start_server: StartServer) -> RealServer:
    return start_server()


@pytest.fixture
def alone(own_server: RealServer, namespace: str) -> Iterator[World]:
    """Nobody else is on its server, so that what the server does can be counted, and the server be stopped."""
    with world(own_server.url, namespace) as made:
        yield made
