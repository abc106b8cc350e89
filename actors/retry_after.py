"""Reads the `Retry-After` of an HTTP response."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

_SECONDS = re.compile(r"[0-9]{1,18}")


def retry_after_s(value: str | None, *, date: str | None = None) -> float | None:
    """Tell how many seconds a provider asks to wait: `raise NotExecuted(…, retry_after_s=retry_after_s(header))`.

    Args:
        value: the header `Retry-After`: seconds or an HTTP date (RFC 9110, 10.2.3); None: there was none.
        date: the header `Date` of the same response. With it a date is read by the provider's own clock; without it by
            this machine's, which may be another.

    Returns:
        Seconds, 0 for a date that has passed; None for no header, or one that is neither.
    """
    text = (value or "").strip()
    if _SECONDS.fullmatch(text):
        return float(text)
    until, now = _instant(text), _instant((date or "").strip()) or datetime.now(UTC)
    return None if until is None else max(0.0, (until - now).total_seconds())


def _instant(text: str) -> datetime | None:
    try:
        read = parsedate_to_datetime(text)
    except (ValueError, TypeError, IndexError, OverflowError):
        return None
    return read.replace(tzinfo=UTC) if read.tzinfo is None else read
