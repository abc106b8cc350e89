"""Takes the exceptions that reach the event loop itself: no supervisor sees them, and somebody must."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any

from ...leases.errors import EscalationError
from .life import described, log

_TOLD_OTHERWISE = ("transport", "protocol", "socket", "asyncgen")
"""What an exception may be about without being a stray: whoever uses it sees it end."""


@contextmanager
def strays_to(fail: Callable[[BaseException], None]) -> Generator[None]:
    """While this lasts, give `fail` an EscalationError for each stray exception of the running loop."""
    loop = asyncio.get_running_loop()
    before = loop.get_exception_handler()
    loop.set_exception_handler(partial(_take, fail))
    try:
        yield
    finally:
        loop.set_exception_handler(before)


def _take(fail: Callable[[BaseException], None], loop: asyncio.AbstractEventLoop, context: Mapping[str, Any]) -> None:
    del loop
    # The loop's own message is never repeated: it quotes the arguments of callbacks.
    error = context.get("exception")
    said = described(error) if isinstance(error, BaseException) else "vanished before its end"
    part = _part(context)
    if part is None:
        log.error("An error reached the event loop, of something whose user is told otherwise: %s", said)
        return
    log.critical("%s failed outside every actor, so everything stops: %s", part, said)
    stray = EscalationError(
        f"{part} failed outside every actor ({said}): nobody can say what it left undone.",
        next_step="Everything is stopped in order; start again, and report the error.",
    )
    stray.__cause__ = error if isinstance(error, BaseException) else None
    fail(stray)


def _part(context: Mapping[str, Any]) -> str | None:
    """What failed; None if it is nobody's loss."""
    if any(key in context for key in _TOLD_OTHERWISE):
        return None
    if "task" in context or isinstance(context.get("future"), asyncio.Task):
        return "A task"
    # A bare future that nobody asked: whoever gave it the error knew of it.
    return None if "future" in context else "A callback"
