"""The airline over HTTP: what its customers see of answers, refusals, errors and a closed connection."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from kit.airline import Ground, ground, only, row
from mycelium.examples.airline.faults import Fault
from mycelium.examples.airline.http_client import AirlineClient, Answer
from mycelium.examples.airline.provider import Connections


@asynccontextmanager
async def served(on: Ground) -> AsyncGenerator[AirlineClient]:
    server = await asyncio.start_server(Connections(on.airline).serve, "127.0.0.1", 0)
    async with server:
        client = AirlineClient(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", name="me")
        yield client
        await client.aclose()


async def ask(client: AirlineClient, on: Ground) -> Answer:
    call = on.calls[0]
    return await client.call(call.tool, call.arguments, call.key)


async def test_a_call_and_its_look_up(tmp_path: Path) -> None:
    on = ground(tmp_path, [row(result="größer")])
    async with served(on) as client:
        assert await ask(client, on) == Answer(200, {"text": "größer"})
        on.clock_s = 60
        assert (await client.look_up(on.calls[0].key)).text == "größer"
        assert (await client.stats())["effects"] == 1


async def test_an_error_after_the_effect(tmp_path: Path) -> None:
    on = ground(tmp_path, [row()], only(Fault.ERROR_AFTER))
    async with served(on) as client:
        assert (await ask(client, on)).status == 500
        assert on.number_of_effects == 1


async def test_a_connection_closed_after_the_effect_is_an_error_and_never_repeated(tmp_path: Path) -> None:
    on = ground(tmp_path, [row()], only(Fault.HANG_UP))
    async with served(on) as client:
        with pytest.raises(ConnectionResetError, match="hung up"):
            await ask(client, on)
        assert on.number_of_effects == 1
        assert (await ask(client, on)).status == 200


@pytest.mark.parametrize(
    "sent, status",
    [
        (b"GET /nothing HTTP/1.1\r\n\r\n", b"404"),
        (b"nonsense\r\n\r\n", b"400"),
        (b"POST /call HTTP/1.1\r\nContent-Length: x\r\n\r\n", b"400"),
        (b"POST /call HTTP/1.1\r\nContent-Length: 99999999\r\n\r\n", b"400"),
        (b"POST /call HTTP/1.1\r\nContent-Length: 1\r\n\r\n[", b"400"),
        (b"POST /call HTTP/1.1\r\nContent-Length: 2\r\n\r\n[]", b"400"),
        (b"POST /call HTTP/1.1\r\nContent-Length: 2\r\n\r\n{}", b"400"),
    ],
)
async def test_what_is_no_request_is_refused(tmp_path: Path, sent: bytes, status: bytes) -> None:
    server = await asyncio.start_server(Connections(ground(tmp_path, [row()]).airline).serve, "127.0.0.1", 0)
    async with server:
        reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
        writer.write(sent)
        assert (await reader.readline()).split()[1] == status
        writer.close()
        await writer.wait_closed()
