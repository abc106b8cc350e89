"""A tool that leaks."""

from __future__ import annotations

import os

from mycelium.actors.tool import tool

_KEPT: list[bytes] = []


@tool(effect_class="read")
async def pid() -> int:
    return os.getpid()


@tool(effect_class="read")
async def grow() -> int:
    _KEPT.append(b"x" * (150 << 20))
    return os.getpid()
