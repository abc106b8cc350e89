"""Writes what a tool returned, or raised, in a form that always fits into a frame."""

from __future__ import annotations

import math
import traceback
from collections.abc import Iterator
from pathlib import PurePath
from typing import cast

import msgspec
from pydantic_core import to_jsonable_python

DETAIL_CHARS = 500
UNENCODABLE = "mycelium.ResultUnencodable"
TOO_LARGE = "mycelium.ResultTooLarge"


def encode_result(value: object, limit: int) -> tuple[bytes, str]:
    """Encode a result as JSON.

    The effect was seen, so a result that cannot be kept is replaced by a marker, never by a failure.

    Args:
        value: what the tool returned: JSON values, dataclasses, pydantic models, dates, sets and the like.
        limit: bytes that the body may have.

    Returns:
        The body, and an error class that is empty if the body is the result itself.
    """
    try:
        body = _json(value)
    except BaseException:  # noqa: BLE001 - the result's own methods may raise anything
        return msgspec.json.encode({"$unencodable": name_of(type(value))}), UNENCODABLE
    if len(body) > limit:
        return msgspec.json.encode({"$too_large": len(body)}), TOO_LARGE
    return body, ""


def _json(value: object) -> bytes:
    body = msgspec.json.encode(value, enc_hook=_plain)
    # NaN and the infinities are written as null, which is another result; the walk is paid only where there is a null.
    if b"null" in body and _has_nan(to_jsonable_python(value, fallback=str)):
        message = "a number is not finite"
        raise ValueError(message)
    return body


def _plain(value: object) -> object:
    if isinstance(value, Iterator):
        message = "an iterator is not a result: reading it would run code"
        raise TypeError(message)
    return to_jsonable_python(value)


def _has_nan(value: object) -> bool:
    if isinstance(value, float):
        return not math.isfinite(value)
    if isinstance(value, dict):
        return any(map(_has_nan, cast("dict[object, object]", value).values()))
    return isinstance(value, list) and any(map(_has_nan, cast("list[object]", value)))


def name_of(kind: type) -> str:
    """The dotted name of a class; built-in ones without their module."""
    name = kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"
    return _text(name)


def place_of(error: BaseException) -> str:
    """Where an exception was raised: file, line and function, without what it says."""
    frames = traceback.extract_tb(error.__traceback__)
    if not frames:
        return ""
    last = frames[-1]
    return _text(f"{PurePath(last.filename).name}:{last.lineno} in {last.name}")


def words_of(error: BaseException) -> str:
    """What an exception says, cut to a length that a record can hold."""
    try:
        return _text(str(error))
    except BaseException as second:  # noqa: BLE001 - its `__str__` is the tool's code as well
        return f"(its message cannot be read: {name_of(type(second))})"


def _text(text: str) -> str:
    return text[:DETAIL_CHARS].encode("utf-8", "backslashreplace").decode()[:DETAIL_CHARS]
