"""The small web server: what it answers, and that nobody who asks can hold it up."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from http import HTTPStatus

import pytest

from mycelium.actors.health.web import MAX_CONNECTIONS, MAX_HEAD_BYTES, Page, Web
from mycelium.leases.errors import SettingsError


async def hello() -> Page:
    return Page(b"hello\n")


async def broken() -> Page:
    raise ValueError("a password")


@asynccontextmanager
async def serving(within_s: float = 5.0, **pages: Callable[[], Awaitable[Page]]) -> AsyncGenerator[int]:
    web = Web({f"/{name}": page for name, page in pages.items()}, within_s)
    try:
        yield await web.listen("127.0.0.1", 0)
    finally:
        await web.aclose()


async def told(port: int, request: bytes) -> str:
    """Everything that comes until the other side ends it; nothing where it leaves at once."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        writer.write(request)
        return (await reader.read()).decode()
    except ConnectionResetError:
        return ""  # left with what was sent unread
    finally:
        writer.close()


def asking(path: str, method: str = "GET") -> bytes:
    return f"{method} {path} HTTP/1.1\r\nHost: here\r\n\r\n".encode()


async def test_a_page_is_served_with_its_length_and_the_connection_ends() -> None:
    async with serving(hello=hello) as port:
        assert await told(port, asking("/hello?fresh=1")) == (
            "HTTP/1.1 200 OK\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: 6\r\n"
            "Cache-Control: no-store\r\nConnection: close\r\n\r\nhello\n"
        )
        assert (await told(port, asking("/hello", "HEAD"))).endswith("Connection: close\r\n\r\n")


@pytest.mark.parametrize(
    "request_,status",
    [
        (asking("/other"), HTTPStatus.NOT_FOUND),
        (asking("/hello", "POST"), HTTPStatus.METHOD_NOT_ALLOWED),
        (b"hello\r\n\r\n", HTTPStatus.BAD_REQUEST),
        (b"GET /hello SPDY/3\r\n\r\n", HTTPStatus.BAD_REQUEST),
        (asking("/" + "x" * MAX_HEAD_BYTES), HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE),
    ],
)
async def test_anything_else_is_refused(request_: bytes, status: HTTPStatus) -> None:
    async with serving(hello=hello) as port:
        assert (await told(port, request_)).startswith(f"HTTP/1.1 {status:d} ")


async def test_a_page_that_fails_tells_its_class_and_no_more(caplog: pytest.LogCaptureFixture) -> None:
    async with serving(broken=broken) as port:
        said = await told(port, asking("/broken"))
    assert said.startswith("HTTP/1.1 500 ")
    assert said.endswith("\r\n\r\nValueError\n")
    assert "the page /broken failed" in caplog.text


async def test_who_never_ends_to_ask_is_left() -> None:
    async with serving(within_s=0.05, hello=hello) as port:
        assert await told(port, b"GET /hello HTTP/1.1\r\n") == ""
        assert "hello" in await told(port, asking("/hello"))


async def test_who_holds_connections_keeps_nobody_out_for_longer_than_a_request_may_take() -> None:
    async with serving(within_s=0.3, hello=hello) as port:
        idle = [await asyncio.open_connection("127.0.0.1", port) for _ in range(MAX_CONNECTIONS)]
        assert await told(port, asking("/hello")) == ""
        assert await asyncio.gather(*[reader.read() for reader, _ in idle]) == [b""] * MAX_CONNECTIONS
        assert "hello" in await told(port, asking("/hello"))
        for _, writer in idle:
            writer.close()


async def test_a_port_that_is_taken_is_refused_with_a_way_out() -> None:
    async with serving(hello=hello) as port:
        with pytest.raises(SettingsError, match=f"Nothing can listen at 127.0.0.1:{port}: .*Choose another port"):
            await Web({}).listen("127.0.0.1", port)


async def test_it_ends_while_somebody_asks() -> None:
    async with serving(hello=hello) as port:
        asker = asyncio.create_task(told(port, b"GET "))
        assert "hello" in await told(port, asking("/hello"))
    assert await asker == ""
