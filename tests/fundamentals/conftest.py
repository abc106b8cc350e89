"""What these pages use: a shop of their own, a worker process, and a client."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

import mycelium

HERE = Path(__file__).parent


class Shop:
    """One bakery: its till, and its workers, which are real processes."""

    def __init__(self, folder: Path, url: str, namespace: str) -> None:
        self.folder = folder
        self._url = url
        self._namespace = namespace
        self._workers: list[subprocess.Popen[bytes]] = []

    def open(self) -> subprocess.Popen[bytes]:
        """Start a worker: `mycelium worker bakery`, with a short TTL so that its death is noticed soon."""
        worker = subprocess.Popen(
            [sys.executable, "-m", "mycelium", "worker", "bakery", "--hosts", "1", "--ttl", "2", "--grace", "5"],
            cwd=HERE,
            env={
                **os.environ,
                "MYCELIUM_URL": self._url,
                "MYCELIUM_NAMESPACE": self._namespace,
                "BAKERY": str(self.folder),
            },
        )
        self._workers.append(worker)
        return worker

    def close(self) -> None:
        """End all workers, whatever they do."""
        for worker in self._workers:
            if worker.poll() is None:
                worker.send_signal(signal.SIGKILL)
            worker.wait()

    @property
    def till(self) -> list[str]:
        """Every effect that really happened, by cake."""
        till = self.folder / "till"
        return [line.split()[1] for line in till.read_text().splitlines()] if till.exists() else []


@pytest.fixture
def shop(tmp_path: Path, url: str, namespace: str) -> Iterator[Shop]:
    """A shop without a worker."""
    shop = Shop(tmp_path, url, namespace)
    yield shop
    shop.close()


@pytest.fixture
def worker(shop: Shop) -> subprocess.Popen[bytes]:
    """The shop's one worker."""
    return shop.open()


@pytest.fixture
async def client(url: str, namespace: str) -> AsyncIterator[mycelium.Client]:
    """Somebody who submits calls."""
    async with mycelium.connect(url, namespace=namespace) as client:
        yield client
