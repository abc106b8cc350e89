"""What the tests of this floor share: a ledger at noon, alone in its namespace."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest
from fakeredis import TcpFakeServer

from kit.ledger import Client, Ledger, connect


@pytest.fixture
def client(url: str) -> Iterator[Client]:
    """A plain client past every channel."""
    with connect(url) as client:
        yield client


@pytest.fixture
def ledger(client: Client, namespace: str) -> Iterator[Ledger]:
    """A founded data set with one open session, s1."""
    ledger = Ledger(client, namespace)
    ledger.found()
    ledger.open()
    yield ledger
    ledger.drop()


@pytest.fixture(scope="session")
def fake_url() -> Iterator[str]:
    """A stand-in server in this process."""
    server = TcpFakeServer(("127.0.0.1", 0), server_type="redis")
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    yield f"redis://127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    server.server_close()
    thread.join()
