"""A loopback proxy in front of a server that loses, holds or delays exactly the reply that a test names.

It frames both directions, so an arm acts on the reply of its own command also in the middle of a pipeline:

    async with FaultProxy(server.url) as proxy:
        arm = proxy.drop_close(b"EVALSHA", nth=2)   # the second command with these bytes in it runs, its reply is lost
        ...                                         # a client on proxy.url
        await arm.fired.wait()

Each arm fires once. After a SUBSCRIBE a connection is passed through as it is.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Self
from urllib.parse import unquote, urlsplit

from kit.resp import frame_end

if TYPE_CHECKING:
    from types import TracebackType

_CHUNK = 1 << 16
_LOOPBACK = "127.0.0.1"


class Fault(StrEnum):
    """What happens to the command or its reply."""

    DROP_CLOSE = "drop_close"
    """The server ran it; the connection is closed instead of its reply."""
    DROP_HANG = "drop_hang"
    """The server ran it; neither its reply nor any later one comes. The connection stays open."""
    DELAY = "delay"
    """The server ran it; its reply, and those after it, come later."""
    BLACKHOLE = "blackhole"
    """From this command on nothing passes, in either direction: the server did not get it."""
    CUT_BEFORE = "cut_before"
    """The connection is closed instead of passing it on: the server did not get it."""


@dataclass(eq=False)
class Arm:
    """One fault, waiting for its command.

    Attributes:
        fired: set when it has happened; for faults on replies the server has then run the command.
        released: set it to let a held reply go.
        seen: commands with the marker so far, also after it fired.
    """

    fault: Fault
    marker: bytes = b""
    nth: int = 1
    delay_s: float | None = None
    fired: asyncio.Event = field(default_factory=asyncio.Event)
    released: asyncio.Event = field(default_factory=asyncio.Event)
    seen: int = 0

    def takes(self, command: bytes) -> bool:
        """Count the command; whether it is the one."""
        if self.marker not in command:
            return False
        self.seen += 1
        return self.seen == self.nth


class FaultProxy:
    """Listens on a free loopback port while entered; `url` names it, and stays the same over `shut` and `reopen`."""

    def __init__(self, upstream: str) -> None:
        self._upstream = upstream
        self._arms: list[Arm] = []
        self._refusals = 0
        self._links: set[_Link] = set()
        self._server: asyncio.Server | None = None
        self._port = 0

    @property
    def url(self) -> str:
        """Where clients connect to."""
        return f"redis://{_LOOPBACK}:{self._port}"

    # ── arms: each for the nth command, from now, that contains the marker (empty: any) ──────────────────────────────

    def drop_close(self, marker: bytes = b"", *, nth: int = 1) -> Arm:
        """The server runs the command, the connection is cut before the reply."""
        return self._arm(Arm(Fault.DROP_CLOSE, marker, nth))

    def drop_hang(self, marker: bytes = b"", *, nth: int = 1) -> Arm:
        """The server runs the command, no reply ever comes on that connection again."""
        return self._arm(Arm(Fault.DROP_HANG, marker, nth))

    def delay(self, delay_s: float, marker: bytes = b"", *, nth: int = 1) -> Arm:
        """The reply comes `delay_s` late, or when `released` is set."""
        return self._arm(Arm(Fault.DELAY, marker, nth, delay_s))

    def hold(self, marker: bytes = b"", *, nth: int = 1) -> Arm:
        """The reply comes when `released` is set."""
        return self._arm(Arm(Fault.DELAY, marker, nth))

    def blackhole(self, marker: bytes = b"", *, nth: int = 1) -> Arm:
        """The command and all after it go nowhere, and nothing comes back on that connection."""
        return self._arm(Arm(Fault.BLACKHOLE, marker, nth))

    def cut_before(self, marker: bytes = b"", *, nth: int = 1) -> Arm:
        """The connection is cut before the command reaches the server."""
        return self._arm(Arm(Fault.CUT_BEFORE, marker, nth))

    def _arm(self, arm: Arm) -> Arm:
        self._arms.append(arm)
        return arm

    def arm_for(self, command: bytes) -> Arm | None:
        """The arm that this command sets off."""
        taking = [arm for arm in self._arms if arm.takes(command)]
        return taking[0] if taking else None

    # ── connections ──────────────────────────────────────────────────────────────────────────────────────────────────

    def refuse(self, connections: int = 1) -> None:
        """Close the next connections as soon as they are made."""
        self._refusals += connections

    def cut(self) -> None:
        """Close all present connections."""
        for link in self._links:
            link.close()

    def shut(self) -> None:
        """Listen no more (connecting is refused by the system) and close all connections."""
        if self._server is not None:
            self._server.close()
            self._server = None
        self.cut()

    async def reopen(self) -> None:
        """Listen again, at the same address."""
        self._server = await asyncio.start_server(self._accept, _LOOPBACK, self._port)
        self._port = self._server.sockets[0].getsockname()[1]

    async def __aenter__(self) -> Self:
        await self.reopen()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.shut()
        await asyncio.gather(*(link.ended.wait() for link in self._links))

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._refusals:
            self._refusals -= 1
            writer.close()
            return
        try:
            up_reader, up_writer = await _connect(self._upstream)
        except OSError:
            writer.close()
            return
        link = _Link(self, reader, writer, up_reader, up_writer)
        self._links.add(link)
        try:
            await link.run()
        finally:
            self._links.discard(link)


class _Link:
    """One client connection and its connection to the server."""

    def __init__(
        self,
        proxy: FaultProxy,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        up_reader: asyncio.StreamReader,
        up_writer: asyncio.StreamWriter,
    ) -> None:
        self.ended = asyncio.Event()
        self._proxy = proxy
        self._reader, self._writer = reader, writer
        self._up_reader, self._up_writer = up_reader, up_writer
        self._unanswered: deque[Arm | None] = deque()
        self._framed = True
        self._silent = False
        self._pumps: list[asyncio.Task[None]] = []

    async def run(self) -> None:
        """Until either side closes, or an arm does."""
        self._pumps = [asyncio.create_task(self._requests()), asyncio.create_task(self._replies())]
        try:
            await asyncio.wait(self._pumps, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for pump in self._pumps:
                pump.cancel()
            await asyncio.gather(*self._pumps, return_exceptions=True)
            for writer in (self._writer, self._up_writer):
                writer.close()
                with contextlib.suppress(OSError):
                    await writer.wait_closed()
            self.ended.set()

    def close(self) -> None:
        """End both connections."""
        for pump in self._pumps:
            pump.cancel()

    async def _requests(self) -> None:
        waiting = bytearray()
        while data := await self._reader.read(_CHUNK):
            waiting += data
            passed = bytearray()
            cut = False
            while not cut and (end := frame_end(waiting)) is not None:
                command = bytes(waiting[:end])
                del waiting[:end]
                cut = self._note(command)
                if not (cut or self._silent):
                    passed += command
            self._up_writer.write(passed)
            await self._up_writer.drain()
            if cut:
                return

    def _note(self, command: bytes) -> bool:
        """Remember what the reply will meet; whether the connection is to be cut before the command."""
        if self._silent:
            return False
        arm = self._proxy.arm_for(command)
        if arm is not None and arm.fault in {Fault.BLACKHOLE, Fault.CUT_BEFORE}:
            self._silent = arm.fault is Fault.BLACKHOLE
            arm.fired.set()
            return arm.fault is Fault.CUT_BEFORE
        # Subscribing is answered by any number of replies.
        self._framed = self._framed and b"SUBSCRIBE\r\n" not in command[:40].upper()
        self._unanswered.append(arm)
        return False

    async def _replies(self) -> None:
        waiting = bytearray()
        while data := await self._up_reader.read(_CHUNK):
            waiting += data
            if not self._framed:
                await self._answer(waiting)
                waiting.clear()
                continue
            while (end := frame_end(waiting)) is not None:
                reply = bytes(waiting[:end])
                del waiting[:end]
                # A push answers no command, nor does an error before a disconnection.
                unasked = reply.startswith(b">") or not self._unanswered
                arm = None if unasked else self._unanswered.popleft()
                if arm is not None and await self._strike(arm):
                    return
                await self._answer(reply)

    async def _strike(self, arm: Arm) -> bool:
        """Do to the reply what the arm says; whether the connection is to be closed."""
        arm.fired.set()
        if arm.fault is Fault.DROP_HANG:
            self._silent = True
        elif arm.fault is Fault.DELAY:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(arm.released.wait(), arm.delay_s)
        return arm.fault is Fault.DROP_CLOSE

    async def _answer(self, reply: bytes | bytearray) -> None:
        if not self._silent:
            self._writer.write(bytes(reply))
            await self._writer.drain()


async def _connect(url: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    parts = urlsplit(url)
    if parts.scheme == "unix":
        return await asyncio.open_unix_connection(unquote(parts.path))
    return await asyncio.open_connection(parts.hostname, parts.port)
