"""What the tests of the seed's statements share: a stage, alone in its namespace."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from seed.stage import Stage

from kit.ledger import Client, connect


@pytest.fixture
def stage(url: str, namespace: str) -> Iterator[Stage]:
    """One ledger at several moments."""
    stage = Stage(url, namespace)
    yield stage
    stage.close()


@pytest.fixture
def client(url: str) -> Iterator[Client]:
    """A plain client past every channel."""
    with connect(url) as client:
        yield client
