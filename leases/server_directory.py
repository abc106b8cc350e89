"""The data directory of an embedded server: made, locked, written to, and given free."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
import time
import weakref
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Self

from .errors import ServerUnavailableError, SettingsError
from .server_config import ServerFiles, socket_path_of
from .server_lock import DirectoryLock, read_holder, refusal, try_lock
from .server_probe import process_id, serves

if TYPE_CHECKING:
    import threading

LOCK_PATIENCE_S = 10.0
"""How long a locked directory whose server does not answer is looked at again: it may be starting, or just dying."""

_LOOK_AGAIN_S = 0.02


@dataclass(frozen=True, slots=True)
class RunningServer:
    """A server that another launcher runs on the directory."""

    url: str
    server_pid: int


class ServerDirectory:
    """One data directory; a temporary one is removed when it is left, or with this process.

    Attributes:
        files: the paths in it.
        is_temporary: whether it was made for a server without durable data.
    """

    def __init__(self, path: Path, *, is_temporary: bool) -> None:
        self.files = ServerFiles(path)
        self.is_temporary = is_temporary
        self._removal = weakref.finalize(self, _remove_if_ours, path, os.getpid()) if is_temporary else None

    @classmethod
    def at(cls, path: Path) -> Self:
        """The directory at `path`, made if it is missing, readable by its owner only.

        Raises:
            SettingsError: there can be no directory of ours.
        """
        path = Path(path).expanduser().resolve()
        try:
            path.mkdir(mode=0o700, parents=True, exist_ok=True)
            usable = os.access(path, os.R_OK | os.W_OK | os.X_OK)
        except OSError:
            usable = False
        if not usable:
            message = f"{path} is no directory that this user may write to."
            raise SettingsError(message, next_step="Give another data directory. Nothing was started.")
        return cls(path, is_temporary=False)

    @classmethod
    def temporary(cls) -> Self:
        """A new private directory."""
        return cls(Path(tempfile.mkdtemp(prefix="mycelium-")).resolve(), is_temporary=True)

    def leave(self) -> None:
        """Remove it if it is temporary."""
        if self._removal is not None:
            self._removal()

    # ── who has it ───────────────────────────────────────────────────────────────────────────────────────────────────

    def lock_or_find(
        self, abandoned: threading.Event, *, join: bool, patience_s: float = LOCK_PATIENCE_S
    ) -> DirectoryLock | RunningServer:
        """Lock it; when another has it, find its server to join, or refuse.

        A server that loads is waited for as long as it loads. One that does not answer is waited for a little: it may
        be starting, or have been killed a moment ago.

        Raises:
            SettingsError: it is in use, and there is nothing to join.
            ServerUnavailableError: the wait was abandoned.
        """
        give_up_at = time.monotonic() + patience_s
        while True:
            lock = try_lock(self.files.lock)
            if lock is not None:
                return lock
            found = self._running()
            if found is not None and not join:
                raise refusal(self.files.directory, read_holder(self.files.lock))
            if found is not None and serves(found.url, found.server_pid):
                return found
            if found is None and time.monotonic() > give_up_at:
                raise refusal(self.files.directory, read_holder(self.files.lock))
            if abandoned.wait(_LOOK_AGAIN_S):
                message = f"The wait for the server on {self.files.directory} was abandoned."
                raise ServerUnavailableError(message, next_step="Start or join it again when it is wanted.")

    def _running(self) -> RunningServer | None:
        """The server that the directory names, if it answers, loading or not, and is that process."""
        holder = read_holder(self.files.lock)
        try:
            url = self.files.url.read_text().strip()
        except OSError:
            return None
        # Its port may belong to a stranger by now: only the process id that the server itself tells is believed.
        if holder.server_pid and process_id(url) == holder.server_pid:
            return RunningServer(url, holder.server_pid)
        return None

    def is_served_by(self, url: str, pid: int) -> bool:
        """Whether that process takes commands there."""
        return serves(url, pid)

    # ── what is written ──────────────────────────────────────────────────────────────────────────────────────────────

    def refuse_kept_data(self) -> None:
        """Refuse to run without durability where durable data lies: the server would not look at it.

        Raises:
            SettingsError: there is an append-only file.
        """
        if self.files.append_only.exists():
            message = f"{self.files.directory} holds durable data, which a server with durability none would not read."
            raise SettingsError(message, next_step="Give another directory, or durability always. Nothing was started.")

    def write_config(self, text: str) -> None:
        """Write the configuration file."""
        _write_private(self.files.config, text)

    def write_url(self, url: str) -> None:
        """Write down where the server will listen."""
        _write_private(self.files.url, url + "\n")

    def forget_address(self, url: str) -> None:
        """Remove what names a server that is gone. Only while the lock is held."""
        self.files.url.unlink(missing_ok=True)
        path = socket_path_of(url)
        if path is not None:
            path.unlink(missing_ok=True)
            if path.parent != self.files.directory:
                with contextlib.suppress(OSError):
                    path.parent.rmdir()


def _write_private(path: Path, text: str) -> None:
    """Whole or not at all, and readable by us only."""
    new = path.with_suffix(f"{path.suffix}.new")
    new.unlink(missing_ok=True)
    fd = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with os.fdopen(fd, "w") as file:
        file.write(text)
    new.replace(path)


def _remove_if_ours(path: Path, pid: int) -> None:
    # A forked child inherits the end-of-process hooks, but not the directory.
    if os.getpid() == pid:
        shutil.rmtree(path, ignore_errors=True)
