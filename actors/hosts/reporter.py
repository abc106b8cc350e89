"""Sends how far a run has come: a few times a second at most, and the last of it always."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from .frames import Progress

REPORT_EVERY_S = 0.25
NOTE_CHARS = 200


class Reporter:
    """Of one run. Use it on its loop only.

    Args:
        loop: the host's loop.
        send: sends a frame.
    """

    __slots__ = ("_latest", "_loop", "_send", "_timer")

    def __init__(self, loop: asyncio.AbstractEventLoop, send: Callable[[Progress], None]) -> None:
        self._loop = loop
        self._send = send
        self._latest: Progress | None = None
        self._timer: asyncio.TimerHandle | None = None

    def report(self, progress: Progress) -> None:
        """Send it now, or with the next that may be sent."""
        self._latest = progress
        if self._timer is None:
            self._flush()

    def close(self) -> None:
        """Send what has not been sent; nothing is reported after it."""
        if self._timer is not None:
            self._timer.cancel()
        if self._latest is not None:
            self._send(self._latest)
            self._latest = None

    def _flush(self) -> None:
        self._timer = None
        if self._latest is not None:
            self._send(self._latest)
            self._latest = None
            self._timer = self._loop.call_later(REPORT_EVERY_S, self._flush)


def note_text(note: str) -> str:
    """A note, cut to a length that a record can hold."""
    return note[:NOTE_CHARS].encode("utf-8", "backslashreplace").decode()[:NOTE_CHARS]
