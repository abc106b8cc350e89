"""How a single value of a kind that JSON lacks is named and written: `{"$decimal":"1.5"}` is `("decimal", "1.5")`."""

from __future__ import annotations

import base64
import datetime as dt
import uuid
from collections.abc import Callable
from decimal import Decimal
from pathlib import PurePath, PureWindowsPath
from typing import Any

MAX_DECIMAL_PLACES = 1000

_MICROSECOND = dt.timedelta(microseconds=1)
_SOME_DAY = dt.date(2000, 1, 2)


class Refusal(Exception):  # noqa: N818 - told to nobody as it is: the pass over the value makes the error of it
    """Something in a value has no canonical form; the path to it grows on the way up.

    Attributes:
        rule: the rule that was broken: the rest of a sentence that begins with the path.
        path: the steps to it, the last first.
    """

    def __init__(self, rule: str) -> None:
        self.rule = rule
        self.path: list[str] = []
        super().__init__(rule)


# Builtin types are read by their own methods, so that a subclass cannot show one value here and hold another.


def _decimal(value: Any) -> tuple[str, str]:  # noqa: ANN401
    sign, digits, exponent = Decimal.as_tuple(value)
    if not isinstance(exponent, int):
        raise Refusal("is not a finite number")
    whole = "".join(map(str, digits))
    figures = whole.rstrip("0")
    if not figures:
        return "decimal", "0"
    exponent += len(whole) - len(figures)
    if max(-exponent, exponent + len(figures)) > MAX_DECIMAL_PLACES:
        raise Refusal(f"has more than {MAX_DECIMAL_PLACES} digits before or after its point")
    if exponent >= 0:
        text = figures + "0" * exponent
    else:
        figures = figures.rjust(1 - exponent, "0")
        text = f"{figures[:exponent]}.{figures[exponent:]}"
    return "decimal", f"-{text}" if sign else text


def _datetime(value: Any) -> tuple[str, str]:  # noqa: ANN401
    local = dt.datetime.combine(dt.datetime.date(value), dt.datetime.time(value))
    offset = _offset(value, dt.datetime.utcoffset(value))
    if offset is None:
        return "datetime", local.isoformat(timespec="microseconds")
    try:
        return "instant", (local - offset).isoformat(timespec="microseconds") + "Z"
    except OverflowError:
        raise Refusal("is outside of the years 1 to 9999 in UTC") from None


def _time(value: Any) -> tuple[str, str]:  # noqa: ANN401
    local = dt.time.replace(value, tzinfo=None)
    offset = _offset(value, dt.time.utcoffset(value))
    if offset is None:
        return "time", dt.time.isoformat(local, timespec="microseconds")
    # A time of day has no date: before midnight it goes on from the end.
    utc = dt.datetime.combine(_SOME_DAY, local) - offset
    return "time_utc", utc.time().isoformat(timespec="microseconds") + "Z"


def _offset(value: Any, offset: dt.timedelta | None) -> dt.timedelta | None:  # noqa: ANN401
    if offset is None and value.tzinfo is not None:
        raise Refusal("is in a zone that has no offset for it; give it a date, or an offset")
    return offset


def _date(value: Any) -> tuple[str, str]:  # noqa: ANN401
    return "date", dt.date.isoformat(value)


def _duration(value: Any) -> tuple[str, str]:  # noqa: ANN401
    return "duration_us", str(dt.timedelta.__floordiv__(value, _MICROSECOND))


def _bytes(value: Any) -> tuple[str, str]:  # noqa: ANN401
    if getattr(value, "itemsize", 1) != 1:
        raise Refusal("is a memoryview of something else than bytes")
    return "bytes", base64.b64encode(value).decode()


def _uuid(value: Any) -> tuple[str, str]:  # noqa: ANN401
    return "uuid", uuid.UUID.__str__(value)


def _path(value: Any) -> tuple[str, str]:  # noqa: ANN401
    return "windows_path" if isinstance(value, PureWindowsPath) else "path", PurePath.__str__(value)


Leaf = Callable[[Any], tuple[str, str]]
# In this order: a datetime is a date as well.
LEAVES: tuple[tuple[type, Leaf], ...] = (
    (Decimal, _decimal),
    (dt.datetime, _datetime),
    (dt.date, _date),
    (dt.time, _time),
    (dt.timedelta, _duration),
    (bytes, _bytes),
    (bytearray, _bytes),
    (memoryview, _bytes),
    (uuid.UUID, _uuid),
    (PurePath, _path),
)
