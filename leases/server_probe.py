"""Asks a server that may be starting, loading, frozen or gone one plain question, over a socket of its own."""

from __future__ import annotations

import re
import socket

from .server_config import LOOPBACK, port_of, socket_path_of

_ANSWER_WAIT_S = 1.0
_NOT_READY = (b"-LOADING", b"-MASTERDOWN")


def ask(url: str, *words: str) -> bytes | None:
    """Send one command; the raw reply without its line ends, or None when nobody answers within a second.

    Understands what PING and INFO answer: a line, an error (with its leading `-`), or one bulk string.
    """
    path = socket_path_of(url)
    family, address = (socket.AF_INET, (LOOPBACK, port_of(url))) if path is None else (socket.AF_UNIX, str(path))
    try:
        with socket.socket(family) as connection:
            connection.settimeout(_ANSWER_WAIT_S)
            connection.connect(address)
            connection.sendall(" ".join(words).encode() + b"\r\n")
            with connection.makefile("rb") as replies:
                line: bytes = replies.readline()
                if line.startswith(b"$") and line != b"$-1\r\n":
                    return bytes(replies.read(int(line[1:])))
                return line.rstrip() or None
    except OSError:
        return None


def serves(url: str, pid: int) -> bool:
    """Whether the server of that process id takes commands there, and not another one that has the port.

    One that wants a password tells no stranger its process id; it is believed.
    """
    reply = ask(url, "PING")
    if reply is None or reply.startswith(_NOT_READY):
        return False
    return reply.startswith(b"-NOAUTH") or process_id(url) == pid


def process_id(url: str) -> int | None:
    """The process id that the server there says it has, also while it loads; None when nobody answers."""
    said = re.search(rb"^process_id:(\d+)", ask(url, "INFO", "server") or b"", re.MULTILINE)
    return int(said[1]) if said else None
