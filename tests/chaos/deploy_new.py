"""The tools of a pool after a deploy: one is declared stricter than before, and one is new."""

from __future__ import annotations

import asyncio

from chaos.pool_tools import tell
from chaos.tools import leave_trace

from mycelium.actors.tool import tool


@tool(effect_class="non_idempotent_mutate", timeout_s=30)
async def bill(book: str, key: str, seconds: float = 0.0) -> str:
    tell(book, key, "new")
    await asyncio.sleep(seconds)
    leave_trace(book, key)
    return key


@tool(effect_class="non_idempotent_mutate", timeout_s=30)
def refund(book: str, key: str) -> str:
    tell(book, key, "new")
    leave_trace(book, key)
    return key
