"""The fixtures of the whole test suite."""

from __future__ import annotations

import gc
import os
import secrets
from collections.abc import Generator

import pytest

from kit.fixtures import durable_server, fake_url, namespace, proxy, server, start_proxy, start_server, url
from kit.postgres import postgres, postgres_dsn

__all__ = [
    "durable_server",
    "fake_url",
    "namespace",
    "postgres",
    "postgres_dsn",
    "proxy",
    "server",
    "start_proxy",
    "start_server",
    "url",
]


def pytest_configure() -> None:
    """Draw the seed once for all processes that run tests: they must collect the same ones."""
    os.environ.setdefault("CANON_SEED", str(secrets.randbelow(1 << 32)))


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Collect no garbage while test files are parsed.

    Python 3.11 keeps one recursion count for all parsing: a finalizer that parses something in the middle of it ends
    the run with "AST constructor recursion depth mismatch" (CPython issue 106905).
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()
