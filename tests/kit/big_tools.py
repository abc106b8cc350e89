"""A module that takes much memory when it is imported."""

from __future__ import annotations

from mycelium.actors.tool import tool

WEIGHT = b"x" * (80 << 20)


@tool(effect_class="read")
async def weigh() -> int:
    return len(WEIGHT)
