"""An instant of the server's: so long from when the server hears of it, or an absolute one."""

from __future__ import annotations

import math
import time
from datetime import datetime, timedelta
from typing import cast

from ..leases.errors import BadCallError

When = datetime | timedelta | float
"""A moment: seconds or a duration from now, by the server's clock, or a point in time with its zone."""

MOST_S = 3650 * 86400.0
_NOTHING = "Nothing was submitted."


def instant(name: str, when: When | None, *, least_s: float = 0.0) -> str:
    """Write an instant as the scripts take it: `+n` or `n` in milliseconds; empty for none.

    Args:
        name: of the option, for the error.
        when: the instant.
        least_s: how many seconds from now it is at the least, where it is told from now.

    Raises:
        BadCallError: it is none, has no zone, or lies more than ten years ahead.
    """
    if when is None:
        return ""
    if isinstance(when, datetime):
        if when.utcoffset() is None:
            what = f"{name} is a time without a zone: nobody can say when that is."
            raise BadCallError(what, next_step=f"{_NOTHING} Pass a datetime with tzinfo, or seconds from now.")
        at_s = when.timestamp()
        if at_s > time.time() + MOST_S:
            raise BadCallError(f"{name} is more than ten years ahead.", next_step=_NOTHING)
        return str(max(1, round(at_s * 1000)))
    seconds = cast("object", when.total_seconds() if isinstance(when, timedelta) else when)
    if not isinstance(seconds, (int, float)) or isinstance(seconds, bool):
        what = f"{name} is a {type(when).__name__}, no moment."
        raise BadCallError(what, next_step=f"{_NOTHING} Pass seconds, a timedelta, or a datetime with its zone.")
    # Compared before anything is made of it: whole numbers have no bound.
    if not (-MOST_S <= seconds <= MOST_S and math.isfinite(seconds) and least_s <= seconds <= MOST_S):
        what = f"{name} is not between {least_s:g} and {MOST_S:g} seconds from now."
        raise BadCallError(what, next_step=_NOTHING)
    return f"+{round(seconds * 1000)}"
