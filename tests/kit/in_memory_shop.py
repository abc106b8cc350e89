"""Tools whose provider is a plain object, for tests of the testing kit."""

from __future__ import annotations

import asyncio
import hashlib
import threading
from dataclasses import dataclass, field

from mycelium.actors.effect import side_effect
from mycelium.actors.tool import tool
from mycelium.leases.errors import BoundaryError, NotExecuted, Snooze
from mycelium.reconcilers.protocol import Lookup
from mycelium.reconcilers.verdict import Verdict


@dataclass
class Shop:
    """What the tools did, and what is to go wrong.

    Attributes:
        sold: every effect, in order.
        refusals: so many next calls fail before they have an effect.
        breaks: what has its effect tells of an error.
        go: lets a thread that hangs go on.
        entered: set when something that waits is inside.
        left: set when it was made to end without an effect.
        loop: the test's.
        lag_s: how long an effect may be there before the adapter sees it.
    """

    sold: list[str] = field(default_factory=list[str])
    refusals: int = 0
    breaks: bool = False
    go: threading.Event = field(default_factory=threading.Event)
    entered: asyncio.Event = field(default_factory=asyncio.Event)
    left: asyncio.Event = field(default_factory=asyncio.Event)
    loop: asyncio.AbstractEventLoop | None = None
    lag_s: float = 0.0

    def refuses(self) -> bool:
        self.refusals -= 1
        return self.refusals >= 0

    def reconcile(self, lookup: Lookup, /) -> Verdict:
        order = str(lookup.arguments["order"])
        if order in self.sold:
            return Verdict.completed(order, evidence=order)
        return Verdict.not_executed({"looked_for": order})


SHOP = Shop()


@tool(effect_class="non_idempotent_mutate")
async def sell(order: str) -> str:
    SHOP.sold.append(order)
    return order


@tool(effect_class="read", retry_delay_s=60.0)
def price(cake: str) -> int:
    if SHOP.refuses():
        raise ConnectionError(cake)
    return 3


@tool(effect_class="non_idempotent_mutate")
async def sell_when_open(order: str) -> str:
    if SHOP.refuses():
        raise Snooze(3600.0)
    return await _sold(order)


@tool(effect_class="non_idempotent_mutate")
async def sell_what_is_out(order: str) -> str:
    raise NotExecuted(order)


@tool(effect_class="non_idempotent_mutate", reconciler=SHOP)
def sell_by_phone(order: str) -> str:
    if SHOP.refuses():
        raise ConnectionError(order)
    SHOP.sold.append(order)
    if SHOP.breaks:
        raise ConnectionError(order)
    return order


@tool(effect_class="non_idempotent_mutate", timeout_s=30.0)
async def hang(order: str) -> str:
    SHOP.entered.set()
    try:
        await asyncio.Event().wait()
    finally:
        SHOP.left.set()
    return order


@tool(effect_class="non_idempotent_mutate", boundary="explicit", timeout_s=30.0)
async def hang_before_the_effect(order: str) -> str:
    if SHOP.refuses():
        SHOP.entered.set()
        await asyncio.Event().wait()
    async with side_effect():
        return await _sold(order)


@tool(effect_class="non_idempotent_mutate", timeout_s=30.0)
def hang_plain(order: str) -> str:
    assert SHOP.loop is not None
    SHOP.loop.call_soon_threadsafe(SHOP.entered.set)
    SHOP.go.wait()
    return order


@tool(effect_class="non_idempotent_mutate", isolation="process", timeout_s=30.0)
def hang_alone(order: str) -> str:
    assert SHOP.loop is not None
    SHOP.loop.call_soon_threadsafe(SHOP.entered.set)
    SHOP.go.wait()
    return order


@tool(effect_class="non_idempotent_mutate", boundary="explicit", timeout_s=30.0)
def hang_plain_before_the_effect(order: str) -> str:
    assert SHOP.loop is not None
    if SHOP.refuses():
        SHOP.loop.call_soon_threadsafe(SHOP.entered.set)
        SHOP.go.wait()
    try:
        with side_effect():
            SHOP.sold.append(order)
    except BoundaryError:
        SHOP.loop.call_soon_threadsafe(SHOP.left.set)
        raise
    return order


@tool(effect_class="non_idempotent_mutate", timeout_s=1.0)
def sell_with_much_arithmetic(order: str) -> str:
    hashlib.pbkdf2_hmac("sha256", order.encode(), b"salt", 200_000)
    SHOP.sold.append(order)
    return order


@tool(effect_class="non_idempotent_mutate", timeout_s=7200.0)
async def sell_in_an_hour(order: str) -> str:
    SHOP.entered.set()
    await asyncio.sleep(3600)
    return await _sold(order)


async def _sold(order: str) -> str:
    SHOP.sold.append(order)
    return order


TOOLS = (
    *(sell, price, sell_when_open, sell_what_is_out, sell_by_phone),
    *(hang, hang_before_the_effect, hang_plain, hang_plain_before_the_effect, hang_alone),
    *(sell_in_an_hour, sell_with_much_arithmetic),
)
