"""What the cases share: a provider, ledgers in this process, and a stage with real workers."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from cases.ledgers import open_ledger
from cases.provider import Provider
from chaos.stage import Stage, staged

from mycelium.actors.inprocess.action_ledger import ActionLedger

OpenLedger = Callable[[], ActionLedger]


@pytest.fixture
def provider() -> Iterator[Provider]:
    """A provider that nobody has asked for anything yet."""
    with Provider().listening() as listening:
        yield listening


@pytest.fixture
def new_ledger(url: str, namespace: str) -> Iterator[OpenLedger]:
    """Opens a ledger on the shared server: each is as good as a process of its own."""
    with ExitStack() as opened:
        yield lambda: opened.enter_context(open_ledger(url, namespace))


@pytest.fixture
def kept(new_ledger: OpenLedger) -> ActionLedger:
    """One ledger."""
    return new_ledger()


@pytest.fixture
async def stage(url: str, namespace: str, tmp_path: Path) -> AsyncIterator[Stage]:
    """A namespace for real workers."""
    async with staged(url, namespace, tmp_path / "stage") as made:
        yield made
