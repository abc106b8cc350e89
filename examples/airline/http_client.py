"""The airline's HTTP interface as its customers call it: kept connections, one deadline, never a retry of its own."""

from __future__ import annotations

import asyncio
import json
import os
from contextlib import suppress
from dataclasses import dataclass
from typing import cast
from urllib.parse import quote, urlsplit
from weakref import WeakKeyDictionary

URL_VARIABLE = "AIRLINE_URL"
TIMEOUT_S = 5.0

OK = 200
SERVER_FAULT = 500

Wire = tuple[asyncio.StreamReader, asyncio.StreamWriter]


@dataclass(frozen=True, slots=True)
class Answer:
    """What the airline answered.

    Attributes:
        status: the HTTP status.
        body: the decoded JSON object.
    """

    status: int
    body: dict[str, object]

    @property
    def text(self) -> str:
        """The answer to a call, or why it was refused."""
        return str(self.body.get("text", ""))


class AirlineClient:
    """Speaks to one airline from one event loop.

    Args:
        url: `http://host:port`.
        timeout_s: seconds that one exchange may take.
        name: what the airline knows this client by, in its statistics.
    """

    def __init__(self, url: str, *, timeout_s: float = TIMEOUT_S, name: str = "") -> None:
        parts = urlsplit(url)
        self._host, self._port = parts.hostname or "127.0.0.1", parts.port or 80
        self._timeout_s = timeout_s
        self._name = name or str(os.getpid())
        self._idle: list[Wire] = []

    async def call(self, tool: str, arguments: dict[str, object], key: str) -> Answer:
        """Ask for one call.

        Args:
            tool: the tool's name.
            arguments: JSON values by name.
            key: the idempotency key. The airline finds a call by it, and does **not** de-duplicate by it.

        Raises:
            TimeoutError: no whole answer in time; the effect may exist.
            OSError: the connection failed; the effect may exist, unless it was refused.
        """
        return await self._exchange("POST", "/call", {"tool": tool, "arguments": arguments, "key": key})

    async def look_up(self, key: str) -> Answer:
        """Ask what became of a call. Errors as in `call`."""
        return await self._exchange("GET", f"/lookup?key={quote(key)}", None)

    async def stats(self) -> dict[str, object]:
        """Ask what the airline is doing. Errors as in `call`."""
        return (await self._exchange("GET", "/stats", None)).body

    async def aclose(self) -> None:
        """Close the kept connections."""
        idle, self._idle = self._idle, []
        for _, writer in idle:
            writer.close()
            with suppress(OSError):
                await writer.wait_closed()

    async def _exchange(self, method: str, path: str, body: dict[str, object] | None) -> Answer:
        async with asyncio.timeout(self._timeout_s):
            reader, writer = await self._connection()
            try:
                writer.write(self._request(method, path, body))
                await writer.drain()
                answer = await _read_answer(reader)
            except BaseException:
                # A wire with an answer that is still to come, or half read, is of no more use.
                writer.close()
                raise
            self._idle.append((reader, writer))
            return answer

    async def _connection(self) -> Wire:
        while self._idle:
            reader, writer = self._idle.pop()
            if not reader.at_eof() and not writer.is_closing():
                return reader, writer
            writer.close()
        return await asyncio.open_connection(self._host, self._port)

    def _request(self, method: str, path: str, body: dict[str, object] | None) -> bytes:
        content = b"" if body is None else json.dumps(body, ensure_ascii=False).encode()
        head = (
            f"{method} {path} HTTP/1.1\r\nHost: {self._host}:{self._port}\r\nX-Client: {self._name}\r\n"
            f"Content-Type: application/json\r\nContent-Length: {len(content)}\r\n\r\n"
        )
        return head.encode() + content


async def _read_answer(reader: asyncio.StreamReader) -> Answer:
    try:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        status, *headers = head.split("\r\n")
        fields = dict(line.lower().split(": ", 1) for line in headers if line)
        content = await reader.readexactly(int(fields["content-length"]))
        return Answer(int(status.split(" ")[1]), cast("dict[str, object]", json.loads(content)))
    except asyncio.IncompleteReadError:
        message = "the airline hung up without a whole answer"
        raise ConnectionResetError(message) from None


_clients: WeakKeyDictionary[asyncio.AbstractEventLoop, AirlineClient] = WeakKeyDictionary()


def airline() -> AirlineClient:
    """The client of this event loop, for the airline that the environment names.

    Raises:
        LookupError: the environment names none.
    """
    loop = asyncio.get_running_loop()
    if loop not in _clients:
        url = os.environ.get(URL_VARIABLE)
        if not url:
            message = f"{URL_VARIABLE} is not set: these tools need the URL of the airline"
            raise LookupError(message)
        # A tool host is a child of its worker, which is what people know.
        _clients[loop] = AirlineClient(url, name=str(os.getppid()))
    return _clients[loop]
