"""What is said of a call in words and numbers, and kept with its row: texts of bounded length, and whole numbers."""

from __future__ import annotations

MAX_LABEL_BYTES = 1024


def text_fault(name: str, value: object) -> str:
    """Tell what is wrong with a text; empty: nothing, or it was not given."""
    if value is None:
        return ""
    if not isinstance(value, str):
        return f"{name} is a {type(value).__name__}, not text"
    text = plain_text(value)
    if not text.strip():
        return f"{name} is blank"
    try:
        size = len(text.encode())
    except UnicodeEncodeError:
        return f"{name} has a lone surrogate, which is not text"
    return f"{name} is longer than {MAX_LABEL_BYTES} bytes" if size > MAX_LABEL_BYTES else ""


def number_fault(name: str, value: object) -> str:
    """Tell what is wrong with a number; empty: nothing, or it was not given."""
    if value is None:
        return ""
    whole = isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 53
    return "" if whole else f"{name} is not a whole number from 0"


def plain_text(value: str | None) -> str:
    """The text itself, of whatever kind of text it is; empty: it was not given."""
    # Not str(): an enumeration that is text has its text here, not its name.
    return "" if value is None else str.__str__(value)
