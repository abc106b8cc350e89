"""Reads what is typed: JSON from the command line, a file or stdin; labels; moments."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import cast

from ..leases.errors import BadArgumentsError

_MOST_BYTES = 16 << 20
_NOTHING = "Nothing was written."


def read_arguments(given: str) -> dict[str, object]:
    """Read an object from `{…}`, `@file` or `-`.

    Raises:
        BadArgumentsError: it cannot be read, is not JSON, or is not an object.
    """
    value = read_result(given)
    if not isinstance(value, dict):
        what = f"The JSON is {_kind(value)}, not an object with the parameters' names."
        raise BadArgumentsError(what, next_step=f'{_NOTHING} Write {{"parameter": value}}.')
    return cast("dict[str, object]", value)


def read_result(given: str) -> object:
    """Read any JSON value from the text itself, `@file` or `-`.

    Raises:
        BadArgumentsError: it cannot be read, or is not JSON.
    """
    if given == "-":
        return _value(_text(_limited(sys.stdin.buffer.read(_MOST_BYTES + 1)), "stdin"), "stdin")
    if given.startswith("@"):
        return _value(_text(_limited(_file(given[1:])), "the file"), "the file")
    return _value(given, "the argument")


def _file(name: str) -> bytes:
    try:
        with Path(name).open("rb") as file:
            return file.read(_MOST_BYTES + 1)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise BadArgumentsError(
            f"{name!r} cannot be read: {reason}.", next_step=f"{_NOTHING} Check the path."
        ) from None


def _limited(body: bytes) -> bytes:
    if len(body) > _MOST_BYTES:
        what = f"The JSON takes more than {_MOST_BYTES:,} bytes."
        raise BadArgumentsError(what, next_step=f"{_NOTHING} Store the body elsewhere and pass a reference.")
    return body


def _text(body: bytes, where: str) -> str:
    try:
        return body.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        what = f"What {where} holds is not UTF-8 text (byte {error.start})."
        raise BadArgumentsError(what, next_step=f"{_NOTHING} Save it as UTF-8.") from None


def _value(body: str, where: str) -> object:
    try:
        return json.loads(body, parse_constant=_no_constant, object_pairs_hook=_no_repeats)
    except json.JSONDecodeError as error:
        what = f"What {where} holds is not JSON: {error.msg} at line {error.lineno}, column {error.colno}."
        raise BadArgumentsError(what, next_step=f"{_NOTHING} Correct it; keys and text need double quotes.") from None
    except RecursionError:
        raise BadArgumentsError("The JSON is nested too deep.", next_step=f"{_NOTHING} Flatten it.") from None
    except ValueError as error:
        raise BadArgumentsError(f"The JSON cannot be taken: {error}.", next_step=f"{_NOTHING} Correct it.") from None


def _no_constant(word: str) -> object:
    what = f"{word} is not a JSON number"
    raise ValueError(what)


def _no_repeats(pairs: list[tuple[str, object]]) -> dict[str, object]:
    found = dict(pairs)
    if len(found) != len(pairs):
        what = "an object has a key twice"
        raise ValueError(what)
    return found


def _kind(value: object) -> str:
    names = {"list": "a list", "str": "text", "bool": "true or false", "int": "a number", "float": "a number"}
    return names.get(type(value).__name__, "null")


def read_labels(given: Sequence[str]) -> dict[str, str]:
    """Read labels from `name=value` words.

    Raises:
        BadArgumentsError: one is not written so.
    """
    pairs = [word.partition("=") for word in given]
    if not all(name and equals for name, equals, _ in pairs):
        raise BadArgumentsError("A label is written NAME=VALUE.", next_step=f"{_NOTHING} Correct it.")
    return {name: value for name, _, value in pairs}


def read_when(name: str, given: str | None) -> datetime | float | None:
    """Read a moment: seconds from now, or a date and time with its zone, as `2026-03-01T09:00+01:00`.

    Raises:
        BadArgumentsError: it is neither.
    """
    if given is None:
        return None
    with suppress(ValueError):
        return float(given)
    try:
        return datetime.fromisoformat(given)
    except ValueError:
        what = f"{name} {given!r} is no moment."
        next_step = f"{_NOTHING} Give seconds from now, or a time with its zone: 2026-03-01T09:00+01:00."
        raise BadArgumentsError(what, next_step=next_step) from None
