"""Where an embedded server keeps its files, where it listens, and the configuration file that says so to it."""

from __future__ import annotations

import contextlib
import hashlib
import os
import socket
import stat
import tempfile
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote, unquote, urlsplit

from .errors import SettingsError

if TYPE_CHECKING:
    from collections.abc import Mapping

LOOPBACK = "127.0.0.1"
LONGEST_SOCKET_PATH = 103
"""Bytes of a unix socket path that every system takes (Linux 107, macOS 103)."""

OURS = frozenset(
    {"bind", "daemonize", "dir", "include", "logfile", "port", "supervised", "unixsocket", "unixsocketperm"}
)
"""Settings that the launcher decides; extra settings may not name them."""

DATA_DIR_VARIABLE = "MYCELIUM_DATA_DIR"


class Durability(StrEnum):
    """What of an acknowledged write survives, and what it costs."""

    ALWAYS = "always"
    """On disk before the answer (group commit). Survives a power cut."""
    EVERYSEC = "everysec"
    """On disk within a second or two of the answer. A power cut, or a kill while the disk is slow, loses the last."""
    NONE = "none"
    """In memory only. A restart is an empty data set."""


@dataclass(frozen=True, slots=True)
class ServerFiles:
    """The files of one embedded server in its data directory."""

    directory: Path

    @property
    def lock(self) -> Path:
        """Held while a server lives here; says who holds it. Never removed: removing a lock file is a race."""
        return self.directory / "lock"

    @property
    def url(self) -> Path:
        """The URL of the server that lives here, for those who join."""
        return self.directory / "url"

    @property
    def config(self) -> Path:
        """The configuration file."""
        return self.directory / "server.conf"

    @property
    def log(self) -> Path:
        """The server's log, and what it said before it had one."""
        return self.directory / "server.log"

    @property
    def append_only(self) -> Path:
        """The server's append-only files."""
        return self.directory / "appendonlydir"


def default_data_dir(environ: Mapping[str, str] | None = None) -> Path:
    """$MYCELIUM_DATA_DIR, else $XDG_DATA_HOME/mycelium, else ~/.local/share/mycelium. Nothing is created."""
    environ = os.environ if environ is None else environ
    if environ.get(DATA_DIR_VARIABLE):
        return Path(environ[DATA_DIR_VARIABLE]).expanduser()
    if environ.get("XDG_DATA_HOME"):
        return Path(environ["XDG_DATA_HOME"]) / "mycelium"
    return Path.home() / ".local" / "share" / "mycelium"


# ── the address ──────────────────────────────────────────────────────────────────────────────────────────────────────


def choose_url(directory: Path, port: int | None) -> str:
    """The URL for a server on `directory`: a unix socket, or loopback when a port is asked for (0: a free one)."""
    if port is None:
        return "unix://" + quote(str(_socket_path(directory)))
    return f"redis://{LOOPBACK}:{port or _free_port()}"


def socket_path_of(url: str) -> Path | None:
    """The unix socket that a URL of ours names; None when it names a port."""
    parts = urlsplit(url)
    return Path(unquote(parts.path)) if parts.scheme == "unix" else None


def port_of(url: str) -> int:
    """The loopback port that a URL of ours names; 0 when it names a socket."""
    return urlsplit(url).port or 0


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind((LOOPBACK, 0))
        return int(probe.getsockname()[1])


def _socket_path(directory: Path) -> Path:
    """In the data directory if that fits; else in a private one, named after it so that they do not pile up."""
    path = directory / "server.sock"
    if len(os.fsencode(path)) <= LONGEST_SOCKET_PATH:
        return path
    mark = hashlib.sha256(os.fsencode(directory)).hexdigest()[:16]
    private = Path(tempfile.gettempdir()) / f"mycelium-{os.geteuid()}-{mark}"
    if not _make_private(private):
        private = Path(tempfile.mkdtemp(prefix="mycelium-"))
    path = private / "server.sock"
    if len(os.fsencode(path)) > LONGEST_SOCKET_PATH:
        message = f"No unix socket fits: both {directory} and {private} are too long."
        raise SettingsError(message, next_step="Give a port, a shorter data directory, or a shorter TMPDIR.")
    return path


def _make_private(directory: Path) -> bool:
    """Whether the directory is ours alone: anybody may have made it first where all can write."""
    with contextlib.suppress(FileExistsError):
        directory.mkdir(mode=0o700)
    found = directory.lstat()
    return stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid() and not found.st_mode & 0o077


# ── the configuration file ───────────────────────────────────────────────────────────────────────────────────────────


def config_text(files: ServerFiles, url: str, durability: Durability, extra: Mapping[str, str]) -> str:
    """The whole configuration file. Extra settings come last, so they win.

    Raises:
        SettingsError: an extra setting is one that the launcher decides, or has a line break in it.
    """
    socket_path = socket_path_of(url)
    lines = {
        "bind": LOOPBACK,
        "port": str(port_of(url)),
        "daemonize": "no",
        "dir": _quoted(files.directory),
        "logfile": _quoted(files.log),
        "loglevel": "notice",
        # One AOF is the only copy: snapshots beside it would only cost forks.
        "save": '""',
        "appendonly": "no" if durability is Durability.NONE else "yes",
        "appendfsync": Durability.ALWAYS if durability is Durability.NONE else durability,
        "appenddirname": _quoted(files.append_only.name),
        # Any server reads commands, but a snapshot only if it is as new as the writer: the program found on PATH may
        # be another one tomorrow. The price is a slower load.
        "aof-use-rdb-preamble": "no",
        "auto-aof-rewrite-percentage": "100",
        "auto-aof-rewrite-min-size": "64mb",
        # A key that the server may drop is a transition that may run twice.
        "maxmemory-policy": "noeviction",
        "notify-keyspace-events": '""',
    }
    if socket_path is not None:
        lines |= {"unixsocket": _quoted(socket_path), "unixsocketperm": "700"}
    lines |= _checked(extra)
    return "".join(f"{name} {value}\n" for name, value in lines.items())


def _checked(extra: Mapping[str, str]) -> dict[str, str]:
    for name, value in extra.items():
        if name.lower() in OURS or "\n" in name + value:
            message = f"The embedded server does not take the setting {name!r}."
            raise SettingsError(
                message,
                next_step=f"The launcher decides {', '.join(sorted(OURS))}; leave these out. Nothing was started.",
            )
    return {name.lower(): value for name, value in extra.items()}


def _quoted(value: Path | str) -> str:
    text = str(value).replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{text}"'
