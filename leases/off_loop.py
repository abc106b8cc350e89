"""Blocking work off the loop, also while the program ends and no thread starts any more."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TypeVar

_R = TypeVar("_R")


async def off_loop(work: Callable[[], _R]) -> _R:
    """Do blocking work in a thread; where the interpreter is on its way out, here: nobody needs the loop then."""
    try:
        future = asyncio.get_running_loop().run_in_executor(None, work)
    except RuntimeError:
        return work()
    return await future
