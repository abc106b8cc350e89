"""Receipts in a file, one a line: several processes may append to it, and a writer may be killed at any byte.

A batch is one write under a lock of the file, and on the disk before the write returns. A writer that is killed in the
middle leaves half a line, which was never acknowledged. The next one ends that line with ` #torn` before its own first,
so that no receipt is lost in it and nobody takes it for one that was tampered with.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import stat
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

from ...leases.errors import ReceiptError
from ...leases.off_loop import off_loop
from .line import Line
from .receipt import MAX_BYTES, Receipt

TORN = b" #torn"
"""What ends half a line."""

_LOOK_BACK = 64 << 20
"""Bytes before the end in which a writer looks for a receipt that is there already."""
_REMEMBERED = 100_000
_PIECE = 1 << 20
_ID = re.compile(rb'"receipt_id":"([0-9a-f]{64})"')
_BEGINNING = b'{"agent_id":'
_JSON = json.JSONDecoder()
_LOCK_POLL_S = 0.01


class ReceiptFile:
    """Appends to one file; it is opened anew for each batch, so that a rotation by renaming needs no signal.

    A receipt that is among the last hundred thousand of the file is not written again; readers take two for one.

    Args:
        path: the file; made, for its owner alone, when it is not there. Its directory must be.
        lock_timeout_s: how long to wait for another writer.
    """

    def __init__(self, path: Path, *, lock_timeout_s: float = 5.0) -> None:
        self.path = path
        self._lock_timeout_s = lock_timeout_s
        self._ids: dict[bytes, None] = {}
        self._inode = 0
        self._known_to = 0

    async def write(self, receipts: Sequence[Receipt]) -> int:
        """Append receipts; they are on the disk when it returns.

        Returns:
            How many were not there before.

        Raises:
            ReceiptError: the file cannot be written; nothing of the batch is in it.
        """
        return await off_loop(lambda: self._append(receipts)) if receipts else 0

    async def aclose(self) -> None:
        """Do nothing: no file is kept open."""

    def _append(self, receipts: Sequence[Receipt]) -> int:
        try:
            made = not self.path.exists()
            descriptor = os.open(self.path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                self._lock(descriptor)
                new = self._append_locked(descriptor, receipts)
            finally:
                os.close(descriptor)
            if made:
                _sync_directory(self.path.parent)
            return new
        except OSError as error:
            what = f"The receipt file {self.path} cannot be written: {error.strerror or type(error).__name__}."
            raise ReceiptError(what, next_step="Mend the cause: then they can be written again.") from error

    def _lock(self, descriptor: int) -> None:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            what = f"{self.path} is not a regular file: what is written there is not kept."
            raise ReceiptError(what, next_step="Name a file.")
        deadline_s = time.monotonic() + self._lock_timeout_s
        while True:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return
            except BlockingIOError:
                if time.monotonic() >= deadline_s:
                    what = f"Another process holds the receipt file {self.path} for {self._lock_timeout_s:g} s."
                    next_step = "Look whether a writer stands still: then they can be written again."
                    raise ReceiptError(what, next_step=next_step) from None
                time.sleep(_LOCK_POLL_S)

    def _append_locked(self, descriptor: int, receipts: Sequence[Receipt]) -> int:
        size = self._catch_up(descriptor)
        new = {bytes.fromhex(receipt.receipt_id): receipt.body() for receipt in receipts}
        bodies = [body for mark, body in new.items() if mark not in self._ids]
        if bodies:
            _write_whole(descriptor, _end_of(descriptor, size) + b"".join(body + b"\n" for body in bodies), size)
        # Also when all were there: the process that wrote them may have been killed before this.
        os.fsync(descriptor)
        return len(bodies)

    def _catch_up(self, descriptor: int) -> int:
        """Learn the ids that this or another process wrote since the last time; gives the size."""
        found = os.fstat(descriptor)
        if found.st_ino != self._inode or found.st_size < self._known_to:
            self._ids.clear()
            self._inode, self._known_to = found.st_ino, max(0, found.st_size - _LOOK_BACK)
        at, rest = self._known_to, b""
        while piece := os.pread(descriptor, _PIECE, at):
            at += len(piece)
            *lines, rest = (rest + piece).split(b"\n")
            for line in lines:
                mark = None if line.endswith(TORN) else _ID.search(line)
                if mark:
                    self._ids[bytes.fromhex(mark[1].decode())] = None
            # What is no file of receipts may have no line ends at all.
            rest = rest[-2 * MAX_BYTES :]
        while len(self._ids) > _REMEMBERED:
            del self._ids[next(iter(self._ids))]
        self._known_to = at - len(rest)
        return found.st_size


def read_lines(stream: BinaryIO) -> Iterator[Line]:
    """Read a file of receipts, line by line."""
    at = number = 0
    while body := stream.readline(MAX_BYTES + 2):
        number += 1
        at += len(body)
        longer = body
        while longer and not longer.endswith(b"\n"):
            longer = stream.readline(MAX_BYTES)
            at += len(longer)
            # Too long for a receipt, whatever it is: the beginning alone cannot be read as one.
            body = body[:MAX_BYTES] + longer[-1:]
        ended = body.endswith(b"\n")
        text = body.removesuffix(b"\n")
        if text:
            cut = text.endswith(TORN) or not ended
            torn = cut and _is_half(text.removesuffix(TORN))
            yield Line(f"line {number}", text, torn=torn, ends_at=at)


def _end_of(descriptor: int, size: int) -> bytes:
    """Give what ends the last line, if nothing does."""
    if size == 0 or os.pread(descriptor, 1, size - 1) == b"\n":
        return b""
    tail = os.pread(descriptor, 2 * MAX_BYTES, max(0, size - 2 * MAX_BYTES)).rpartition(b"\n")[2]
    return TORN + b"\n" if _is_half(tail) else b"\n"


def _is_half(text: bytes) -> bool:
    """Tell the beginning of a receipt from a whole one, whatever follows it, and from what never was one."""
    try:
        _JSON.raw_decode(text.decode("utf-8", "replace"))
    except RecursionError:
        return False
    except ValueError:
        return text.startswith(_BEGINNING[: len(text)])
    return False


def _write_whole(descriptor: int, batch: bytes, size: int) -> None:
    try:
        written = 0
        while written < len(batch):
            written += os.write(descriptor, batch[written:])
    except OSError:
        # A full disk takes a part. Nobody else writes while the lock is held, so that only this part is cut off.
        with suppress(OSError):
            os.ftruncate(descriptor, size)
        raise


def _sync_directory(directory: Path) -> None:
    descriptor = os.open(directory, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
