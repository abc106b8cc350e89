"""Takes raw replies of the server apart."""

from __future__ import annotations

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


def words(reply: object) -> list[object]:
    """A list reply, its first item made text.

    Raises:
        ScriptError: it is not a list that begins with a word.
    """
    if isinstance(reply, list) and reply:
        return [text(reply[0]), *reply[1:]]
    what = f"The server answered with a {type(reply).__name__} where a list was due."
    raise ScriptError(what, next_step="Check that server, namespace and version belong together.")
