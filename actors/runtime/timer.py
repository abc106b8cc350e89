"""The clock that actors live by: the event loop's own, or one that a test moves by hand."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Protocol


class Cancellable(Protocol):
    """A call that is due later and can be called off."""

    def cancel(self) -> None:
        """Call it off; does nothing when it has been made."""


class Timer(Protocol):
    """Monotonic time and calls that are due later. All numbers are seconds."""

    def monotonic(self) -> float:
        """Seconds on a clock that never steps."""
        raise NotImplementedError

    def call_later(self, delay_s: float, callback: Callable[..., object], *args: object) -> Cancellable:
        """Call `callback(*args)` in the loop's thread after `delay_s` seconds."""
        raise NotImplementedError

    async def sleep(self, delay_s: float) -> None:
        """Return after `delay_s` seconds."""


class LoopTimer:
    """The running event loop as a timer."""

    def monotonic(self) -> float:
        """The loop's time, in seconds."""
        return asyncio.get_running_loop().time()

    def call_later(self, delay_s: float, callback: Callable[..., object], *args: object) -> Cancellable:
        """The loop's own `call_later`."""
        return asyncio.get_running_loop().call_later(delay_s, callback, *args)

    async def sleep(self, delay_s: float) -> None:
        """The loop's own `sleep`."""
        await asyncio.sleep(delay_s)
