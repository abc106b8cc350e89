"""The tools of a pool before a deploy."""

from __future__ import annotations

import asyncio

from chaos.pool_tools import tell
from chaos.tools import leave_trace

from mycelium.actors.tool import tool


@tool(effect_class="idempotent_mutate", timeout_s=30)
async def bill(book: str, key: str, seconds: float = 0.0) -> str:
    tell(book, key, "old")
    await asyncio.sleep(seconds)
    leave_trace(book, key)
    return key
