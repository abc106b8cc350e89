"""Servers for tests: a private one in memory, or fakeredis in this process."""

from __future__ import annotations

import threading
from collections.abc import Generator
from contextlib import contextmanager
from importlib import import_module
from typing import Any

from ..leases.embedded import EmbeddedServer
from ..leases.errors import SettingsError


@contextmanager
def private_server() -> Generator[str, None, None]:
    """Run a real server in memory while the block runs; gives its URL.

    Raises:
        ServerBinaryMissingError: no server program was found.
    """
    with EmbeddedServer.start() as server:
        yield server.url


@contextmanager
def fake_server() -> Generator[str, None, None]:
    """Run fakeredis on a port of this machine while the block runs; gives its URL.

    It runs the same scripts and keeps nothing on disk. It is no server that anybody's money should depend on: it has no
    INFO and no CONFIG, and evicts and fails in no way that a real one does.

    Raises:
        SettingsError: fakeredis is not installed.
    """
    try:
        kind: Any = import_module("fakeredis").TcpFakeServer
        import_module("lupa")
    except ImportError as missing:
        what = f"A fake server needs fakeredis with Lua, and {missing.name or 'a part of it'} is not installed."
        raise SettingsError(what, next_step="Install mycelium[testing], or use server='embedded'.") from None
    server = kind(("127.0.0.1", 0), server_type="redis")
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield f"redis://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
