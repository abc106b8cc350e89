"""The tools of these pages: a bakery whose till is a file, one line an effect, for anybody to count."""

from __future__ import annotations

import os
import time
from pathlib import Path

from mycelium import Lookup, NotExecuted, Verdict, current_call, record_external_operation, side_effect, tool

SHOP = Path(os.environ.get("BAKERY", "."))


def ring(line: str) -> None:
    """Have an effect: one line in the till."""
    with (SHOP / "till").open("a") as till:
        till.write(f"{line}\n")


def lines_of(key: str) -> list[str]:
    """What the till has of one key."""
    till = SHOP / "till"
    return [line for line in till.read_text().splitlines() if line.startswith(key)] if till.exists() else []


class Till:
    """Asks the till what became of a sale. Reading is all that it does."""

    lag_s = 0.0

    def reconcile(self, lookup: Lookup, /) -> Verdict:
        """Find the sale by the key that was sent with it."""
        found = lines_of(lookup.effect_id)
        if len(found) > 1:
            return Verdict.unknown(f"{len(found)} sales under one key")
        if found:
            return Verdict.completed({"sold": lookup.arguments["cake"]}, evidence=found[0])
        return Verdict.not_executed({"looked_for": lookup.effect_id})


@tool(effect_class="read")
async def price(cake: str) -> int:
    """A read has no effect: it may run again at will."""
    return {"rye": 3, "apple": 5}[cake]


@tool(effect_class="read", retry_delay_s=0.01)
async def flaky_price(cake: str) -> int:
    """Fails the first time."""
    if current_call().attempt == 1:
        raise ConnectionError(cake)
    return 5


@tool(effect_class="non_idempotent_mutate")
def sell(cake: str, pieces: int = 1) -> dict[str, object]:
    """A write: the runtime records that it is about to happen before its first line."""
    ring(f"{current_call().effect_id} {cake} {pieces}")
    return {"sold": cake, "pieces": pieces}


@tool(effect_class="non_idempotent_mutate")
def sell_what_is_out(cake: str) -> None:
    """Refused, and the tool can prove that nothing was sold."""
    why = f"no {cake} left"
    raise NotExecuted(why)


@tool(effect_class="non_idempotent_mutate")
def sell_and_break(cake: str) -> None:
    """Sells, and then something breaks: nobody can tell from the error whether it was sold."""
    ring(f"{current_call().effect_id} {cake}")
    raise OSError("the receipt printer is out of paper")


@tool(effect_class="non_idempotent_mutate", boundary="explicit")
def sell_carefully(cake: str, break_at: str = "") -> dict[str, object]:
    """Says itself where its effect begins, so that what breaks earlier broke before the effect."""
    if break_at == "before":
        raise ValueError("broken before the sale")
    with side_effect():
        record_external_operation(f"sale-of-{cake}")
        ring(f"{current_call().effect_id} {cake}")
        if break_at == "inside":
            raise OSError("broken in the middle of the sale")
    return {"sold": cake}


@tool(effect_class="non_idempotent_mutate", reconciler=Till())
def sell_by_till(cake: str, break_at: str = "") -> dict[str, object]:
    """A sale that can be looked up."""
    if break_at == "before" and current_call().attempt == 1:
        raise OSError("the line was dead")
    ring(f"{current_call().effect_id} {cake}")
    if break_at == "after":
        raise OSError("the line went dead")
    return {"sold": cake}


@tool(effect_class="non_idempotent_mutate", reconciler=Till())
def sell_slowly(cake: str) -> dict[str, object]:
    """Sells at once and then keeps the customer waiting for as long as a file named `hold` is there."""
    ring(f"{current_call().effect_id} {cake}")
    while (SHOP / "hold").exists():
        time.sleep(0.02)
    return {"sold": cake}
