"""One end of the socket pair: cuts what arrives into frames, and gathers what one loop turn sends into one write."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Callable
from typing import Generic, TypeVar

import msgspec

from .frames import Splitter, ToControl, ToHost, append_frame

In = TypeVar("In", bound=ToHost | ToControl)

_READ_BYTES = 256 << 10


class Link(Generic[In]):
    """Use it on its loop only.

    It works on the bare socket, not on a transport, because what a dead peer left in the socket must be read at once.

    Args:
        sock: one end; the link owns it from now on.
        decoder: of the frames that arrive.
        on_frame: called with each.
        on_closed: called one time when the peer has closed or the stream is broken, with the reason; not after `close`.
    """

    def __init__(
        self,
        sock: socket.socket,
        decoder: msgspec.msgpack.Decoder[In],
        on_frame: Callable[[In], None],
        on_closed: Callable[[str], None],
    ) -> None:
        self._sock = sock
        self._pid = os.getpid()
        self._splitter = Splitter(decoder)
        self._on_frame = on_frame
        self._on_closed = on_closed
        self._loop = asyncio.get_running_loop()
        self._open = True
        self._gathered = bytearray()
        self._unsent: memoryview | None = None
        sock.setblocking(False)
        self._loop.add_reader(sock, self._readable)

    def send(self, frame: ToHost | ToControl) -> None:
        """Send a frame with this turn's others. After the end of the link it goes nowhere.

        Raises:
            PayloadTooLargeError: the frame is above the limit; it was not sent.
        """
        if not self._open:
            return
        first = not self._gathered
        append_frame(self._gathered, frame)
        if first and self._unsent is None:
            self._loop.call_soon(self.flush)

    def flush(self) -> None:
        """Write what is gathered, as far as the socket takes it now."""
        while self._open and self._is_ours():
            if self._unsent is None:
                if not self._gathered:
                    return
                self._unsent, self._gathered = memoryview(self._gathered), bytearray()
            try:
                sent = self._sock.send(self._unsent)
            except BlockingIOError:
                self._loop.add_writer(self._sock, self._writable)
                return
            except OSError as error:
                # What the peer sent before it went may still be there to read: the reader sees the end.
                self._unsent, self._gathered = None, bytearray()
                self._loop.call_soon(self._end, type(error).__name__)
                return
            self._unsent = self._unsent[sent:] if sent < len(self._unsent) else None

    def drain(self) -> None:
        """Deliver everything that a dead peer left behind, now."""
        while self._open and self._read():
            pass

    def close(self) -> None:
        """End the link without a call of `on_closed`."""
        if self._open:
            self._open = False
            self._loop.remove_reader(self._sock)
            self._loop.remove_writer(self._sock)
            self._sock.close()

    def abandon(self) -> None:
        """In a forked copy of this process: let go of the socket, which stays open where it belongs.

        The loop's selector is not touched: the kernel's part of it is shared with the process that was forked.
        """
        self._open = False
        self._sock.close()

    def _is_ours(self) -> bool:
        # Not every fork passes by Python's hooks.
        if os.getpid() != self._pid:
            self.abandon()
        return self._open

    def _readable(self) -> None:
        if self._open:
            self._read()

    def _writable(self) -> None:
        if self._open:
            self._loop.remove_writer(self._sock)
            self.flush()

    def _read(self) -> bool:
        """Read once and deliver; tell whether there may be more."""
        if not self._is_ours():
            return False
        try:
            data = self._sock.recv(_READ_BYTES)
        except BlockingIOError:
            return False
        except OSError as error:
            self._end(type(error).__name__)
            return False
        if not data:
            self._end("end of file")
            return False
        for frame in self._splitter.feed(data):
            self._deliver(frame)
        if self._splitter.fault:
            self._end(f"garbled: {self._splitter.fault}")
        return self._open

    def _deliver(self, frame: In) -> None:
        try:
            self._on_frame(frame)
        except Exception as error:  # noqa: BLE001 - the frames behind it must still be delivered
            said = f"a handler failed on a {type(frame).__name__} frame"
            self._loop.call_exception_handler({"message": said, "exception": error})

    def _end(self, why: str) -> None:
        if self._open:
            self.close()
            self._on_closed(why)
