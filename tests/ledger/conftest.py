"""What the tests of this floor share: a ledger at noon, alone in its namespace."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

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
