"""A provider on loopback that counts its own effects, and fails a request as the test says, one after another."""

from __future__ import annotations

import json
import threading
from collections import Counter, deque
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import StrEnum
from http.client import HTTPConnection, HTTPException
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, quote, urlsplit

REUSED, IN_PROGRESS, BROKEN = 400, 409, 503


class How(StrEnum):
    """What happens to one request."""

    WELL = "well"
    """It has its effect, and is answered."""
    LOST = "lost"
    """It has its effect; the connection is closed in place of an answer."""
    BROKEN_AFTER = "broken after"
    """It has its effect; the answer is an error of the server."""
    BROKEN_BEFORE = "broken before"
    """The answer is the same error, and there is no effect."""
    HELD = "held"
    """It is in progress until the test lets it go; then it has its effect, and is answered."""


class Keeps(StrEnum):
    """What is remembered under a key."""

    ALL = "all"
    """Every answer, an error as well: it is given again, whatever is asked."""
    GOOD = "good"
    """Answers of 200; after an error the request runs anew."""


@dataclass(frozen=True, slots=True)
class Request:
    """One request, as it arrived."""

    key: str
    body: dict[str, Any]


@dataclass
class Provider:
    """What the provider has seen and done.

    Attributes:
        keeps: what it remembers under a key.
        hows: what happens to the next requests; after the last one all goes well.
        requests: all that arrived, in order.
        effects: how often each thing (`body["what"]`) was done.
        let_go: set it to end what is held.
        url: where it listens.
    """

    keeps: Keeps = Keeps.ALL
    hows: deque[How] = field(default_factory=deque[How])
    requests: list[Request] = field(default_factory=list[Request])
    effects: Counter[str] = field(default_factory=Counter[str])
    let_go: threading.Event = field(default_factory=threading.Event)
    url: str = ""
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _kept: dict[str, tuple[dict[str, Any], int | None]] = field(default_factory=dict[str, tuple[dict[str, Any], Any]])

    def fail(self, *hows: How) -> None:
        """Say what happens to the next requests."""
        self.hows.extend(hows)

    @property
    def keys(self) -> list[str]:
        """The keys that arrived, in order."""
        return [request.key for request in self.requests]

    def take(self, key: str, body: dict[str, Any]) -> int | None:
        """Act on one request; the status of its answer, or None for none."""
        with self._lock:
            self.requests.append(Request(key, body))
            how = self.hows.popleft() if self.hows else How.WELL
            if key and key in self._kept:
                first, status = self._kept[key]
                return REUSED if first != body else IN_PROGRESS if status is None else status
            if key:
                self._kept[key] = (body, None)
        if how is How.HELD:
            self.let_go.wait(20)
        with self._lock:
            if how is not How.BROKEN_BEFORE:
                self.effects[str(body["what"])] += 1
            status = BROKEN if how in {How.BROKEN_AFTER, How.BROKEN_BEFORE} else 200
            self._kept[key] = (body, status)
            if status == BROKEN and self.keeps is Keeps.GOOD:
                del self._kept[key]
        return None if how is How.LOST else status

    @contextmanager
    def listening(self) -> Generator[Provider, None, None]:
        """Listen on a free port of loopback."""
        provider = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["content-length"])))
                self._answer(provider.take(self.headers.get("idempotency-key", ""), body), {})

            def do_GET(self) -> None:
                what = parse_qs(urlsplit(self.path).query)["what"][0]
                self._answer(200, {"seen": provider.effects[what]})

            def _answer(self, status: int | None, body: dict[str, Any]) -> None:
                if status is None:
                    self.close_connection = True
                    return
                text = json.dumps(body).encode()
                self.send_response(status)
                self.send_header("content-length", str(len(text)))
                self.end_headers()
                self.wfile.write(text)

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the library's name
                pass

            def handle(self) -> None:
                try:
                    super().handle()
                except OSError:
                    return  # its client gave up

        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        server.daemon_threads = True
        serving = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
        serving.start()
        self.url = f"127.0.0.1:{server.server_address[1]}"
        try:
            yield self
        finally:
            self.let_go.set()
            server.shutdown()
            server.server_close()
            serving.join()


class ProviderError(Exception):
    """An answer that is not 200, as a client library raises it."""

    def __init__(self, status: int) -> None:
        super().__init__(f"the provider answered {status}")
        self.status = status


def send(url: str, key: str, *, timeout_s: float = 5.0, **body: object) -> None:
    """Send one request, once: what a client library does whose own retries are off.

    Raises:
        ProviderError: the answer was not 200.
        OSError: no connection, no answer in time, or none at all.
    """
    connection = HTTPConnection(url, timeout=timeout_s)
    try:
        headers = {"idempotency-key": key} if key else {}
        connection.request("POST", "/do", json.dumps(body), headers)
        try:
            status = connection.getresponse().status
        except HTTPException as cut:
            raise ConnectionError(str(cut)) from cut
    finally:
        connection.close()
    if status != 200:
        raise ProviderError(status)


def seen(url: str, what: str) -> int:
    """Ask how often a thing was done."""
    connection = HTTPConnection(url, timeout=5)
    try:
        connection.request("GET", f"/find?what={quote(what)}")
        return int(json.loads(connection.getresponse().read())["seen"])
    finally:
        connection.close()
