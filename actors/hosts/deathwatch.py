"""Tells the loop that a child process has ended, at once and without collecting its exit status."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable


class DeathWatch:
    """Watches one child.

    The status stays uncollected so that the child's id cannot be given to another process before its group is ended.

    Args:
        pid: a child of this process.
        on_death: called one time, on the loop.
    """

    def __init__(self, pid: int, on_death: Callable[[], None]) -> None:
        self._loop = asyncio.get_running_loop()
        self._on_death = on_death
        opened = getattr(os, "pidfd_open", None)
        if opened is None:
            threading.Thread(target=self._wait, args=(pid,), daemon=True).start()
            return
        self._descriptor: int = opened(pid)
        self._loop.add_reader(self._descriptor, self._readable)

    def _readable(self) -> None:
        self._loop.remove_reader(self._descriptor)
        os.close(self._descriptor)
        self._on_death()

    def _wait(self, pid: int) -> None:
        # Systems without descriptors for processes: a thread waits, for each host one.
        os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
        self._loop.call_soon_threadsafe(self._on_death)
