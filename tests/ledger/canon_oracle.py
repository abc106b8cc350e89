"""What the rule says of the values of `canon_corpus`, told by other means: it knows nothing of tags and encodings."""

from __future__ import annotations

import datetime as dt
import enum
import uuid
from decimal import Decimal
from fractions import Fraction
from pathlib import PurePosixPath, PureWindowsPath
from typing import Any

from ledger.canon_corpus import REFUSED_LEAVES, Frozen, Model, Root, Seat

Value = Any
"""Whatever the rule is asked about."""
UTC = dt.UTC


class Refused(Exception):  # noqa: N818 - a verdict
    pass


def meaning(value: Value) -> object:
    """What a value is by the rule: a hashable that equal values share, or `None` for a value that is refused."""
    try:
        return _mean(value, 0)
    except Refused:
        return None


def _mean(value: Value, depth: int) -> object:  # noqa: C901, PLR0911, PLR0912 - a table in its own order
    if depth > 64:
        raise Refused
    kind = type(value)
    if any(value is refused for refused in REFUSED_LEAVES):
        raise Refused
    if value is None or kind is bool:
        return ("word", value)
    if issubclass(kind, str):
        text = "".join(str.__getitem__(value, at) for at in range(str.__len__(value)))
        if any(0xD800 <= ord(letter) < 0xE000 for letter in text):
            raise Refused
        return ("text", text)
    if issubclass(kind, int):
        return ("number", Fraction(int.__add__(value, 0)))
    if issubclass(kind, float):
        return ("number", Fraction(float.__add__(value, 0.0)))
    if issubclass(kind, enum.Enum):
        return ("member", _mean(value._value_, depth + 1))
    if kind is Decimal:
        return ("decimal", Fraction(value))
    if kind is dt.datetime:
        if value.tzinfo is None:
            return ("wall", value.replace(fold=0))
        return ("instant", value - dt.datetime(1970, 1, 1, tzinfo=UTC))
    if kind is dt.time:
        us = ((value.hour * 60 + value.minute) * 60 + value.second) * 10**6 + value.microsecond
        if value.tzinfo is None:
            return ("clock", us)
        return ("clock in UTC", (us - value.utcoffset() // dt.timedelta(microseconds=1)) % (86400 * 10**6))
    if kind in {dt.date, dt.timedelta, uuid.UUID}:
        return (kind, value)
    if kind in {bytes, bytearray, memoryview}:
        return ("bytes", bytes(value))
    if issubclass(kind, PureWindowsPath):
        return ("windows path", value.parts)
    if issubclass(kind, PurePosixPath):
        return ("path", value.parts)
    if issubclass(kind, (set, frozenset)):
        return ("set", frozenset(_mean(member, depth + 1) for member in value))
    if issubclass(kind, (list, tuple)):
        base: Value = list if issubclass(kind, list) else tuple
        return ("list", tuple(_mean(base.__getitem__(value, at), depth + 1) for at in range(base.__len__(value))))
    if kind is Root:
        return _mean(value.root, depth + 1)
    return ("object", _mean_fields(value, depth + 1))


def _mean_fields(value: Value, depth: int) -> object:
    if type(value) is Seat:
        return _mean_fields({"a": value.a, "row": value.row}, depth)
    if type(value) is Frozen:
        return _mean_fields({"a": value.a}, depth)
    if type(value) is Model:
        return _mean_fields({"a": value.a, **(value.model_extra or {})}, depth)
    held = list(dict.items(value)) if isinstance(value, dict) else [(name, value[name]) for name in value]
    names = [_mean(name, depth) for name, _ in held if isinstance(name, str)]
    if len(set(names)) != len(held):
        raise Refused
    return frozenset(zip(names, [_mean(field, depth) for _, field in held], strict=True))
