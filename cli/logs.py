"""Log lines on stderr, for people or for programs; never at the price of waiting for whoever reads them."""

from __future__ import annotations

import io
import json
import logging
import os
import queue
import select
import sys
import threading
import time
from datetime import UTC, datetime
from enum import StrEnum

ROOM = 10_000
"""Lines that wait for a slow reader; what comes after them is dropped, and counted."""
_LAST_LINES_S = 0.5


class LogFormat(StrEnum):
    """How log lines look."""

    TEXT = "text"
    """For people."""
    JSON = "json"
    """One object a line, for programs."""


class JsonLines(logging.Formatter):
    """Writes each record as one JSON object."""

    def format(self, record: logging.LogRecord) -> str:
        """Give the line."""
        told = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info:
            told["error"] = self.formatException(record.exc_info)
        return json.dumps(told)


class PatientLines(logging.Handler):
    """Lets a thread of its own wait for the reader: a pipe that nobody reads takes no line of ours, and no session.

    Args:
        descriptor: where the lines go. It is written to directly: a stream object could not be left by a thread that
            hangs in it when the process ends.
        room: lines that may wait.
    """

    def __init__(self, descriptor: int, room: int = ROOM) -> None:
        super().__init__()
        self._descriptor = descriptor
        self._lines: queue.Queue[bytes | None] = queue.Queue(room)
        self._counting = threading.Lock()
        self._dropped = 0
        self._writer = threading.Thread(target=self._write_until_closed, name="log-writer", daemon=True)
        self._writer.start()

    def emit(self, record: logging.LogRecord) -> None:
        """Queue a line, or drop it."""
        try:
            self._lines.put_nowait(self._line(record))
        except queue.Full:
            with self._counting:
                self._dropped += 1

    def close(self) -> None:
        """Give the writer a moment for what is queued; called at exit."""
        until = time.monotonic() + _LAST_LINES_S
        try:
            self._lines.put(None, timeout=_LAST_LINES_S)
        except queue.Full:
            pass  # nobody has read for long, and nobody will now
        else:
            self._writer.join(max(0.0, until - time.monotonic()))
        super().close()

    def _line(self, record: logging.LogRecord) -> bytes:
        try:
            text = self.format(record)
        except Exception as error:  # noqa: BLE001 - a record that cannot be written must not stop what was being done
            text = f"a record of {record.name} cannot be written: {type(error).__name__}"
        return f"{text}\n".encode("utf-8", "backslashreplace")

    def _write_until_closed(self) -> None:
        while (line := self._lines.get()) is not None:
            self._write(line)
            if self._lines.empty():
                self._tell_dropped()

    def _tell_dropped(self) -> None:
        with self._counting:
            dropped, self._dropped = self._dropped, 0
        if dropped:
            said = "%d log lines were dropped: nobody read them"
            self._write(self._line(logging.LogRecord(__name__, logging.WARNING, "", 0, said, (dropped,), None)))

    def _write(self, line: bytes) -> None:
        rest = memoryview(line)
        while rest:
            try:
                rest = rest[os.write(self._descriptor, rest) :]
            except BlockingIOError:
                select.select([], [self._descriptor], [])
            except OSError:
                return  # there is no reader any more


def log_to_stderr(log_format: LogFormat) -> None:
    """Send every log line and warning of this process to stderr."""
    handler = _handler()
    text = logging.Formatter("%(asctime)s %(levelname)-7s %(name)s: %(message)s")
    handler.setFormatter(JsonLines() if log_format is LogFormat.JSON else text)
    logging.basicConfig(level=logging.INFO, handlers=[handler], force=True)
    logging.captureWarnings(capture=True)


def _handler() -> logging.Handler:
    try:
        return PatientLines(sys.stderr.fileno())
    except (AttributeError, io.UnsupportedOperation):
        return logging.StreamHandler(sys.stderr)  # no stream, or one in memory: nobody to wait for
