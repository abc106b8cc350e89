"""The airline as a process: a small HTTP/1.1 server on loopback."""

from __future__ import annotations

import argparse
import asyncio
import json
import signal
import sys
from contextlib import suppress
from http import HTTPStatus
from pathlib import Path
from typing import cast
from urllib.parse import parse_qs, urlsplit

from ...leases.errors import MyceliumError
from .airline import NOT_FOUND, Airline, Pace, Reply
from .calls import bundled_calls, read_calls
from .effects import EffectsFile
from .faults import FaultRule

BAD_REQUEST = 400
MAX_BODY_BYTES = 1 << 20


async def serve(airline: Airline, port_file: Path) -> None:
    """Answer on a free loopback port until SIGTERM or SIGINT.

    Args:
        airline: who answers.
        port_file: gets the port's digits as soon as the server listens.
    """
    ended = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, ended.set)
    server = await asyncio.start_server(Connections(airline).serve, "127.0.0.1", 0)
    _tell_port(port_file, server.sockets[0].getsockname()[1])
    await ended.wait()
    server.close()


class Connections:
    """Reads requests from connections and writes what the airline replies.

    Args:
        airline: who answers.
    """

    def __init__(self, airline: Airline) -> None:
        self._airline = airline

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one connection until either side closes it."""
        # Cancelled only when the server ends; some Pythons would print a cancelled connection as an error.
        with suppress(OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError, asyncio.CancelledError):
            while await self._one(reader, writer):
                await writer.drain()
        writer.close()
        with suppress(OSError):
            await writer.wait_closed()

    async def _one(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        """Answer one request; False: the connection is over."""
        try:
            method, target, headers, body = await _read_request(reader)
        except (ValueError, KeyError):
            writer.write(_encode(Reply.text(BAD_REQUEST, "not a request")))
            return False
        reply = await self._reply(method, target, headers, body)
        if not reply.status:
            return False
        writer.write(_encode(reply))
        return True

    async def _reply(self, method: str, target: str, headers: dict[str, str], body: bytes) -> Reply:
        parts = urlsplit(target)
        match method, parts.path:
            case "POST", "/call":
                return await self._call(headers, body)
            case "GET", "/lookup":
                return self._airline.look_up(parse_qs(parts.query).get("key", [""])[0])
            case "GET", "/stats":
                return self._airline.stats()
            case _:
                return Reply.text(NOT_FOUND, "no such page")

    async def _call(self, headers: dict[str, str], body: bytes) -> Reply:
        try:
            asked = cast("dict[str, object]", json.loads(body))
            tool, arguments, key = str(asked["tool"]), asked["arguments"], str(asked["key"])
        except (ValueError, KeyError, TypeError, RecursionError):
            return Reply.text(BAD_REQUEST, "Error: a call has tool, arguments and key")
        return await self._airline.call(tool, arguments, key, headers.get("x-client", ""))


async def _read_request(reader: asyncio.StreamReader) -> tuple[str, str, dict[str, str], bytes]:
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    first, *lines = head.split("\r\n")
    method, target, _ = first.split(" ")
    fields = (line.partition(":") for line in lines if line)
    headers = {name.strip().lower(): value.strip() for name, _, value in fields}
    length = int(headers.get("content-length", "0"))
    if not 0 <= length <= MAX_BODY_BYTES:
        message = "the body is too large"
        raise ValueError(message)
    return method, target, headers, await reader.readexactly(length)


def _encode(reply: Reply) -> bytes:
    content = json.dumps(reply.body, ensure_ascii=False).encode()
    head = (
        f"HTTP/1.1 {reply.status} {HTTPStatus(reply.status).phrase}\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(content)}\r\n\r\n"
    )
    return head.encode() + content


def _tell_port(port_file: Path, port: int) -> None:
    # Renamed into place: who waits for the file never reads half a number.
    draft = port_file.with_name(port_file.name + ".new")
    draft.write_text(f"{port}\n", encoding="ascii")
    draft.replace(port_file)


def _options(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="airline-provider", description=__doc__)
    parser.add_argument("--port-file", type=Path, required=True, help="gets the port, once the server listens")
    parser.add_argument("--effects", type=Path, required=True, help="gets one line an effect, before the answer")
    parser.add_argument("--calls", type=Path, default=bundled_calls(), help="the recording to answer from")
    rule, pace = FaultRule(), Pace()
    parser.add_argument("--seed", type=int, default=rule.seed, help="of the fault schedule")
    for name in ("slow", "error_before", "error_after", "hang_up"):
        parser.add_argument(f"--{name.replace('_', '-')}", type=float, default=getattr(rule, name), help="rate, 0 to 1")
    for name in ("lag_s", "read_s", "write_s", "slow_s"):
        parser.add_argument(f"--{name.replace('_', '-')}", type=float, default=getattr(pace, name), help="seconds")
    return parser.parse_args(arguments)


def main(arguments: list[str] | None = None) -> int:
    """Run the airline; gives the exit code."""
    given = _options(arguments)
    try:
        calls = read_calls(given.calls)
        rule = FaultRule(
            seed=given.seed,
            slow=given.slow,
            error_before=given.error_before,
            error_after=given.error_after,
            hang_up=given.hang_up,
        )
    except MyceliumError as error:
        sys.stderr.write(f"error: {error}\n")
        return 2
    pace = Pace(lag_s=given.lag_s, read_s=given.read_s, write_s=given.write_s, slow_s=given.slow_s)
    with EffectsFile(given.effects) as effects:
        asyncio.run(serve(Airline(calls, effects, rule=rule, pace=pace), given.port_file))
    return 0


if __name__ == "__main__":
    sys.exit(main())
