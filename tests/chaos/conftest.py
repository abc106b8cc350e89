"""A stage on the shared server, and one on a durable server of the test's own."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from chaos.stage import Stage, staged

from kit.servers import RealServer


@pytest.fixture
async def stage(url: str, namespace: str, tmp_path: Path) -> AsyncIterator[Stage]:
    async with staged(url, namespace, tmp_path / "stage") as made:
        yield made


@pytest.fixture
async def durable_stage(durable_server: RealServer, namespace: str, tmp_path: Path) -> AsyncIterator[Stage]:
    async with staged(durable_server.url, namespace, tmp_path / "stage") as made:
        yield made
