"""Cuts off what a tool forks: such a process has a copy of everything that its host has, and must use none of it."""

from __future__ import annotations

import asyncio
import os
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import cast

_CODE = 70
_SAID = b"mycelium: a process that a tool forked came back to its host's code and was ended; let it end with os._exit\n"


def cut_off_forks(loop: asyncio.AbstractEventLoop, cut: Callable[[], None]) -> None:
    """Watch over forks from now on.

    Args:
        loop: the host's loop. A fork that returns to its copy of it is ended: the tasks in it belong to the host.
        cut: called in each fork, before anything else runs there.
    """

    def forked() -> None:
        cut()
        # In front of what is ready to run: these are the next steps of other tools, and the host takes them itself. No
        # public call puts anything in front.
        ready = cast("deque[asyncio.Handle]", getattr(loop, "_ready"))  # noqa: B009 - as above
        ready.appendleft(asyncio.Handle(end_fork, (), loop))

    os.register_at_fork(after_in_child=forked)


def end_fork() -> None:
    """End a fork that came back to the host's code, without a flush: what its buffers hold is the host's to write."""
    with suppress(OSError):
        os.write(2, _SAID)
    os._exit(_CODE)
