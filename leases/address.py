"""Reads a server's URL: what may stand in one, what the library is told, and how it is named without its password."""

from __future__ import annotations

from typing import Any, cast
from urllib.parse import parse_qsl, urlsplit

from redis.asyncio.connection import Connection, ConnectionPool, UnixDomainSocketConnection, parse_url
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff

from .errors import SettingsError

EMBEDDED = "embedded"
_SCHEMES = {"redis": "redis", "valkey": "redis", "rediss": "rediss", "valkeys": "rediss", "unix": "unix"}
_NEXT = "Use redis://, rediss://, valkey://, valkeys://, unix:///path or embedded:///directory, or leave it out."


def is_embedded(url: str | None) -> bool:
    """Tell whether the URL asks for the embedded server."""
    return url is None or url.partition(":")[0] == EMBEDDED


def embedded_directory(url: str | None) -> str | None:
    """Give the data directory of an `embedded:///dir` URL, or None for the default one.

    Raises:
        SettingsError: the URL has a host, so that its path is not what its author meant.
    """
    if url is None:
        return None
    parts = urlsplit(url)
    if parts.netloc:
        raise SettingsError("An embedded URL has no host.", next_step="Write three slashes: embedded:///directory.")
    return parts.path or None


def normal_url(url: str) -> str:
    """Give the URL as the library reads it.

    Raises:
        SettingsError: a scheme, a port or an option that is not ours.
    """
    parts = urlsplit(url)
    if parts.scheme not in _SCHEMES:
        raise SettingsError(f"'{parts.scheme or url[:1]}…' is no scheme of a server's URL.", next_step=_NEXT)
    try:
        port = parts.port
    except ValueError:
        port = 0
    if port == 0 or (parts.scheme == "unix" and not parts.path) or (parts.scheme != "unix" and not parts.hostname):
        raise SettingsError("The server's URL has no usable host, port or path.", next_step=_NEXT)
    for option, _ in parse_qsl(parts.query):
        # Anything else could switch on the library's retries, decode replies or change the protocol.
        if option not in {"db", "username", "password"} and not option.startswith("ssl_"):
            raise SettingsError(f"'{option}' is no option of a server's URL.", next_step="Use db and ssl_… there.")
    return _SCHEMES[parts.scheme] + url[len(parts.scheme) :]


def spoken_address(url: str) -> str:
    """Name the server for messages and logs: host and port, or the path; never a user or a password."""
    parts = urlsplit(url)
    if parts.scheme == "unix":
        return parts.path
    return f"{parts.hostname}:{parts.port or 6379}"


def make_pool(url: str, *, client_name: str, call_timeout_s: float, connect_timeout_s: float) -> ConnectionPool:
    """Make a pool of connections that repeat nothing by themselves, decode nothing and speak RESP2.

    RESP2, because its raw replies have one shape on every server, and maintenance notifications cannot come in it.
    """
    options = cast("dict[str, Any]", parse_url(url))
    kind = options.pop("connection_class", Connection)
    if kind is not UnixDomainSocketConnection:
        options["socket_keepalive"] = True
    options |= {
        "socket_timeout": call_timeout_s,
        "socket_connect_timeout": connect_timeout_s,
        "retry": Retry(NoBackoff(), 0),
        "retry_on_error": [],
        "retry_on_timeout": False,
        "decode_responses": False,
        "protocol": 2,
        "client_name": client_name,
        "driver_info": None,
        "health_check_interval": 0,
    }
    return ConnectionPool(connection_class=kind, **options)
