"""A PostgreSQL server for tests: in a directory and on a socket of its own, gone with the test run."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import threading
import uuid
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TypedDict
from urllib.parse import quote

import psycopg
import pytest
from psycopg import sql

USER = "mycelium"
SETTINGS = {
    "fsync": "off",
    "full_page_writes": "off",
    "listen_addresses": "",
    "max_connections": "20",
    "shared_buffers": "2MB",
    "synchronous_commit": "off",
}


class Identity(TypedDict, total=False):
    """As whom a program runs."""

    user: int
    group: int
    extra_groups: list[int]


def programs() -> Path | None:
    """The directory of the server's programs: that of the one on PATH, or the newest of Debian's."""
    on_path = shutil.which("postgres")
    if on_path and shutil.which("initdb"):
        return Path(on_path).parent
    found = [path.parent for path in Path("/usr/lib/postgresql").glob("*/bin/postgres")]
    return max(found, key=lambda path: float(path.parent.name), default=None)


class Postgres:
    """A running server.

    Attributes:
        directory: its data, and its socket.
        dsn: the address of its one database.
    """

    def __init__(self, directory: Path, process: subprocess.Popen[str]) -> None:
        self.directory = directory
        self.dsn = f"postgresql:///postgres?host={quote(str(directory), safe='')}&user={USER}"
        self._process = process

    @classmethod
    @contextmanager
    def run(cls, bin_dir: Path) -> Generator[Postgres]:
        """Start one, and end it by its id."""
        directory = Path(tempfile.mkdtemp(prefix="mycelium-postgres-"))
        who = _unprivileged(directory)
        try:
            data = directory / "data"
            made = [
                str(bin_dir / "initdb"),
                "-D",
                str(data),
                "-U",
                USER,
                "-A",
                "trust",
                "-E",
                "UTF8",
                "--locale=C",
                "--no-sync",
            ]
            subprocess.run(made, check=True, stdout=subprocess.DEVNULL, cwd=directory, **who)
            options = [word for name, value in SETTINGS.items() for word in ("-c", f"{name}={value}")]
            command = [*_tied_to_us(), str(bin_dir / "postgres"), "-D", str(data), "-k", str(directory), *options]
            with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, cwd=directory, **who) as process:
                try:
                    _wait_until_ready(process)
                    yield cls(directory, process)
                finally:
                    process.send_signal(signal.SIGQUIT)
                    process.wait(10)
        finally:
            shutil.rmtree(directory, ignore_errors=True)


def _unprivileged(directory: Path) -> Identity:
    """The server refuses to run as root."""
    if os.geteuid() != 0:
        return {}
    nobody = pwd.getpwnam("nobody")
    os.chown(directory, nobody.pw_uid, nobody.pw_gid)
    return {"user": nobody.pw_uid, "group": nobody.pw_gid, "extra_groups": []}


def _tied_to_us() -> list[str]:
    """On Linux the kernel ends the server with us, however we end."""
    tie = shutil.which("setpriv")
    return [tie, "--pdeathsig", "KILL"] if tie else []


def _wait_until_ready(process: subprocess.Popen[str]) -> None:
    errors = process.stderr
    assert errors is not None
    said: list[str] = []
    for line in errors:
        said.append(line)
        if "ready to accept connections" in line:
            threading.Thread(target=_drain, args=[errors], daemon=True).start()
            return
    raise RuntimeError("".join(said))


def _drain(errors: IO[str]) -> None:
    for _ in errors:
        pass


@pytest.fixture(scope="session")
def postgres() -> Iterator[Postgres]:
    """One server for the whole run. Share it by `postgres_dsn`."""
    bin_dir = programs()
    if bin_dir is None:
        pytest.skip("no PostgreSQL server program: on PATH, or in Debian's directory of them (package postgresql)")
    with Postgres.run(bin_dir) as server:
        yield server


@pytest.fixture
def postgres_dsn(postgres: Postgres) -> str:
    """An address under which no other test has tables."""
    schema = f"test_{uuid.uuid4().hex[:12]}"
    with psycopg.connect(postgres.dsn, autocommit=True) as connection:
        connection.execute(sql.SQL("CREATE SCHEMA {}").format(sql.Identifier(schema)))
    return f"{postgres.dsn}&options={quote(f'-csearch_path={schema}')}"
