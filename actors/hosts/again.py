"""What an error that a body raised says of being run again."""

from __future__ import annotations

from ...leases.errors import NotExecuted, Retry, Snooze
from .frames import Again

MOST_S = 30 * 86400.0
"""Nothing is put off for longer."""


def again_of(
    error: BaseException, non_retryable: tuple[type[BaseException], ...], *, proved: bool
) -> tuple[Again, float]:
    """Read an error.

    A time that is none (not a number, below 0) is no wish: then the class decides. What the error itself asks for
    stands above what its tool declares of its kind.

    Args:
        error: what the body raised.
        non_retryable: errors after which its tool is not run again.
        proved: it is a `NotExecuted` that speaks of this attempt.

    Returns:
        The wish, and after how many seconds.
    """
    if isinstance(error, NotExecuted):
        # Their classes may be derived by whoever forgets to call the first `__init__`.
        after_s = _seconds(getattr(error, "retry_after_s", None)) if proved else None
        wish = Again.SNOOZE if isinstance(error, Snooze) else Again.LATER
    elif isinstance(error, Retry):
        after_s, wish = _seconds(getattr(error, "after_s", None)), Again.LATER
    else:
        after_s, wish = None, Again.CLASS
    if after_s is not None:
        return wish, after_s
    return (Again.NEVER if isinstance(error, non_retryable) else Again.CLASS), 0.0


def _seconds(told: object) -> float | None:
    # A tool may say anything, as a header's text or the answer of a broken provider.
    if isinstance(told, bool) or not isinstance(told, (int, float)) or not told >= 0:
        return None
    return float(min(told, MOST_S))
