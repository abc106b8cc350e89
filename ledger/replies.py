"""Takes raw replies of the server apart."""

from __future__ import annotations

from typing import cast

from ..leases.errors import ScriptError


def text(value: object) -> str:
    """One item of a reply as text."""
    if isinstance(value, bytes):
        return value.decode("utf-8", "backslashreplace")
    if isinstance(value, (str, int)):
        return str(value)
    what = f"The server answered with a {type(value).__name__} where text was due."
    raise ScriptError(what, next_step="Check that server, namespace and version belong together.")


def raw(value: object) -> bytes:
    """One item of a reply as the bytes that it is."""
    if isinstance(value, bytes):
        return value
    return text(value).encode()


def integer(value: object) -> int:
    """One item of a reply as an integer; empty text is 0."""
    return int(text(value) or "0")


def items(reply: object) -> list[object]:
    """A list reply as a list; nothing at all is an empty one."""
    return cast("list[object]", reply) if isinstance(reply, list) else []


def mapping(reply: object) -> dict[str, str]:
    """A flat list of names and values as a mapping."""
    values = [text(value) for value in items(reply)]
    return dict(zip(values[::2], values[1::2], strict=True))


def words(reply: object) -> list[object]:
    """A list reply, its first item made text.

    Raises:
        ScriptError: it is not a list that begins with a word.
    """
    values = items(reply)
    if not values:
        what = f"The server answered with a {type(reply).__name__} where a list was due."
        raise ScriptError(what, next_step="Check that server, namespace and version belong together.")
    return [text(values[0]), *values[1:]]
