"""The lock on a data directory: two servers on one append-only file both start, both acknowledge, and lose writes.

The lock is a `flock` on an open file that launcher and server share. The kernel lets go of it when the last of the two
is gone, so nothing stale can be left, whatever was killed and how. What is written in the file is for people and for
those who join; it is never what decides.
"""

from __future__ import annotations

import fcntl
import json
import os
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from .errors import SettingsError

if TYPE_CHECKING:
    from pathlib import Path


@dataclass(frozen=True, slots=True)
class Holder:
    """Who said that it holds a directory. A pid of 0: not said (yet)."""

    launcher_pid: int = 0
    server_pid: int = 0


class DirectoryLock:
    """A lock that is held, until `release`."""

    def __init__(self, fd: int) -> None:
        self.fd = fd

    def name_holder(self, holder: Holder) -> None:
        """Write down who holds the lock."""
        text = json.dumps(asdict(holder)).encode()
        os.ftruncate(self.fd, 0)
        os.pwrite(self.fd, text, 0)

    def release(self) -> None:
        """Let go, also for copies of the file in forked children."""
        if self.fd >= 0:
            self.name_holder(Holder())
            fcntl.flock(self.fd, fcntl.LOCK_UN)
            os.close(self.fd)
            self.fd = -1


def try_lock(path: Path) -> DirectoryLock | None:
    """Take the lock if it is free, else None. Never waits."""
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(fd)
        return None
    except BaseException:
        os.close(fd)
        raise
    lock = DirectoryLock(fd)
    lock.name_holder(Holder(launcher_pid=os.getpid()))
    return lock


def read_holder(path: Path) -> Holder:
    """What the lock file says. Trust it only while the lock is held and the server agrees."""
    try:
        said = json.loads(path.read_text())
        return Holder(int(said["launcher_pid"]), int(said["server_pid"]))
    except (OSError, ValueError, KeyError, TypeError):
        return Holder()


def refusal(directory: Path, holder: Holder) -> SettingsError:
    """The error for a directory that another server has."""
    who = f"process {holder.launcher_pid}" if holder.launcher_pid else "another process"
    server = f" (server process {holder.server_pid})" if holder.server_pid else ""
    return SettingsError(
        f"The data directory {directory} is in use by {who}{server}.",
        next_step="Join that server (EmbeddedServer.join_or_start), end that process, or give another directory. "
        "Nothing was started.",
    )
