"""Tools of a small shop, for tests that submit calls of them."""

from __future__ import annotations

from typing import Any

from mycelium.actors.tool import tool


@tool(effect_class="read")
async def look_up(order: str) -> dict[str, str]:
    """Look an order up."""
    return {"order": order}


@tool(effect_class="non_idempotent_mutate")
async def charge(order: str, amount: int = 10, currency: str = "EUR") -> dict[str, Any]:
    """Charge an order."""
    return {"order": order, "amount": amount, "currency": currency}


@tool(effect_class="keyed_mutate", key_param="key", key_window_s=86400.0)
async def refund(order: str, key: str) -> str:
    """Refund an order under a key of the provider's."""
    return f"{order} {key}"


@tool(effect_class="read")
async def anything(value: Any) -> Any:  # noqa: ANN401 - takes whatever JSON has
    """Take anything."""
    return value


TOOLS = (look_up, charge, refund, anything)
