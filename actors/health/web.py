"""A web server that answers GET for a few fixed paths: small and bounded, for a process that must never be held up."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from http import HTTPStatus

from ...leases.errors import SettingsError

log = logging.getLogger(__name__)

MAX_HEAD_BYTES = 8192
MAX_CONNECTIONS = 32
"""At once; one more is turned away."""
WITHIN_S = 5.0

_TEXT = "text/plain; charset=utf-8"


@dataclass(frozen=True, slots=True)
class Page:
    """An answer."""

    body: bytes
    content_type: str = _TEXT
    status: HTTPStatus = HTTPStatus.OK


Pages = Mapping[str, Callable[[], Awaitable[Page]]]


class Web:
    """Serves pages until it is closed. One request a connection; nothing of a request but its path is looked at.

    Args:
        pages: how each path is answered.
        within_s: seconds that a request may take, with its answer.
    """

    def __init__(self, pages: Pages, within_s: float = WITHIN_S) -> None:
        self._pages = pages
        self._within_s = within_s
        self._open: set[asyncio.Task[object]] = set()
        self._server: asyncio.Server | None = None

    async def listen(self, host: str, port: int) -> int:
        """Begin to serve; the port, which is another one where 0 was asked for.

        Raises:
            SettingsError: nothing can listen there.
        """
        try:
            self._server = await asyncio.start_server(self._serve, host, port, limit=MAX_HEAD_BYTES)
        except (OSError, UnicodeError) as error:
            number = getattr(error, "errno", None)
            why = os.strerror(number) if number is not None and number > 0 else "this is no address of this machine"
            what = f"Nothing can listen at {host}:{port}: {why}."
            raise SettingsError(what, next_step="Choose another port or host, or end what listens there.") from error
        return int(self._server.sockets[0].getsockname()[1])

    async def aclose(self) -> None:
        """Stop listening, and leave whoever still waits."""
        if self._server is not None:
            self._server.close()
        for task in self._open:
            task.cancel()
        if self._open:
            await asyncio.wait(self._open)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        if task is None or len(self._open) >= MAX_CONNECTIONS:
            writer.close()
            return
        self._open.add(task)
        try:
            # Whoever asks and goes away, or never ends to ask, is nobody's fault.
            with suppress(OSError, TimeoutError, asyncio.IncompleteReadError, asyncio.CancelledError):
                async with asyncio.timeout(self._within_s):
                    await self._answer(reader, writer)
        finally:
            self._open.discard(task)
            writer.close()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        method, page = await self._page(reader)
        head = (
            f"HTTP/1.1 {page.status} {page.status.phrase}\r\n"
            f"Content-Type: {page.content_type}\r\n"
            f"Content-Length: {len(page.body)}\r\n"
            "Cache-Control: no-store\r\n"
            "Connection: close\r\n\r\n"
        )
        writer.write(head.encode() + (b"" if method == "HEAD" else page.body))
        await writer.drain()

    async def _page(self, reader: asyncio.StreamReader) -> tuple[str, Page]:
        try:
            head = await reader.readuntil(b"\r\n\r\n")
        except asyncio.LimitOverrunError:
            return "", _plain(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE)
        words = head.split(b"\r\n", 1)[0].decode("latin-1").split(" ")
        if len(words) != 3 or not words[2].startswith("HTTP/1."):  # noqa: PLR2004 - method, path and version
            return "", _plain(HTTPStatus.BAD_REQUEST)
        method, path = words[0], words[1].partition("?")[0]
        if method not in {"GET", "HEAD"}:
            return method, _plain(HTTPStatus.METHOD_NOT_ALLOWED)
        make = self._pages.get(path)
        if make is None:
            return method, _plain(HTTPStatus.NOT_FOUND, " ".join(["not found; there are:", *self._pages]))
        try:
            return method, await make()
        except Exception as error:
            log.exception("the page %s failed", path)
            return method, _plain(HTTPStatus.INTERNAL_SERVER_ERROR, type(error).__name__)


def _plain(status: HTTPStatus, text: str = "") -> Page:
    return Page(f"{text or status.phrase}\n".encode(), status=status)
