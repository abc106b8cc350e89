"""Tools whose effects a provider counts, and the adapter that asks it: for workers and for ledgers in process."""

from __future__ import annotations

import os
from typing import Annotated

from cases.provider import seen, send
from pydantic import BaseModel, ConfigDict, Field

from mycelium.actors.context import current_call
from mycelium.actors.effect import record_external_operation, side_effect
from mycelium.actors.tool import tool
from mycelium.leases.errors import NotExecuted
from mycelium.reconcilers.protocol import Lookup
from mycelium.reconcilers.verdict import Verdict

WINDOW_S = 3600.0
TIMEOUT_S = 2.0
IMPATIENT_S = 0.2


class Found:
    """Looks for what the call would have done; what it finds is always up to date."""

    lag_s = 0.1

    def reconcile(self, lookup: Lookup) -> Verdict:
        what = lookup.external_operation_ref or str(lookup.arguments["order"])
        number = seen(str(lookup.arguments["url"]), what)
        evidence = {"what": what, "seen": number}
        return Verdict.completed(what, evidence) if number else Verdict.not_executed(evidence)


@tool(effect_class="non_idempotent_mutate", timeout_s=TIMEOUT_S, reconciler=Found())
def pay(url: str, order: str, patience_s: float = TIMEOUT_S) -> str:
    """A payment that can be found again."""
    send(url, "", what=order, timeout_s=patience_s)
    return order


@tool(effect_class="non_idempotent_mutate", timeout_s=TIMEOUT_S)
def pay_unasked(url: str, order: str) -> str:
    """A payment that nobody can be asked about."""
    send(url, "", what=order)
    return order


@tool(effect_class="non_idempotent_mutate", boundary="explicit", timeout_s=TIMEOUT_S)
def pay_carefully(url: str, order: str) -> str:
    """A payment that says what a refused connection proves."""
    with side_effect():
        try:
            send(url, "", what=order)
        except ConnectionRefusedError as refused:
            said = "nobody listens there"
            raise NotExecuted(said) from refused
    return order


@tool(effect_class="keyed_mutate", key_param="key", key_window_s=WINDOW_S, timeout_s=TIMEOUT_S, retry_delay_s=0.05)
def pay_keyed(url: str, order: str, key: str = "", patience_s: float = TIMEOUT_S) -> str:
    """A payment whose provider de-duplicates by key."""
    send(url, key, what=order, timeout_s=patience_s)
    return key


@tool(effect_class="keyed_mutate", key_param="key", timeout_s=TIMEOUT_S)
def pay_without_window(url: str, order: str, key: str = "") -> str:
    """The same, and nobody declared how long the key is remembered."""
    send(url, key, what=order)
    return key


@tool(effect_class="keyed_mutate", key_param="key", key_window_s=TIMEOUT_S, timeout_s=TIMEOUT_S)
def pay_in_short_window(url: str, order: str, key: str = "") -> str:
    """The same, and a request may arrive when its key is forgotten."""
    send(url, key, what=order)
    return key


@tool(
    effect_class="keyed_mutate",
    key_param="key",
    key_window_s=WINDOW_S,
    timeout_s=TIMEOUT_S,
    retry_permission="manual_reconciliation_required",
)
def pay_once_by_key(url: str, order: str, key: str = "") -> str:
    """The same, of a provider that keeps nothing under a key after an error."""
    send(url, key, what=order)
    return key


@tool(effect_class="keyed_mutate", key_param="key", key_window_s=WINDOW_S, timeout_s=TIMEOUT_S)
def pay_with_note(url: str, order: str, key: str = "") -> str:
    """A careless tool: its request has something in it that is new each time."""
    send(url, key, what=order, note=os.urandom(8).hex())
    return key


@tool(effect_class="keyed_mutate", key_param="key", key_window_s=WINDOW_S, timeout_s=TIMEOUT_S)
def pay_or_refuse(url: str, order: str, key: str = "") -> str:
    """A careless tool: it takes every answer but 200 for proof that nothing happened."""
    try:
        send(url, key, what=order, note=os.urandom(8).hex())
    except Exception as error:
        if "answered" in str(error):
            raise NotExecuted(str(error)) from error
        raise
    return key


@tool(effect_class="keyed_mutate", key_param="key", key_window_s=WINDOW_S, timeout_s=TIMEOUT_S)
def reserve_and_pay(url: str, order: str, key: str = "") -> str:
    """Two requests in one call, each with a key of its own."""
    send(url, f"{key}:reserve", what=f"reserve {order}")
    send(url, f"{key}:pay", what=f"pay {order}")
    return key


@tool(effect_class="non_idempotent_mutate", timeout_s=TIMEOUT_S, reconciler=Found())
def mail(url: str, order: str) -> str:
    """A message whose Message-ID names the effect, so that the mailbox can be searched for it."""
    message_id = f"<{current_call().effect_id}@mycelium>"
    record_external_operation(message_id)
    send(url, "", what=message_id)
    return order


class Target(BaseModel):
    """A field with another name, and defaults."""

    model_config = ConfigDict(populate_by_name=True)

    network: int = Field(default=1, alias="chainId")
    label: str | None = None


@tool(effect_class="non_idempotent_mutate", timeout_s=TIMEOUT_S)
def transfer(url: str, order: str, target: Target, amount: Annotated[float, Field(alias="sum")] = 1.0) -> str:
    """A payment that can be spelt in many ways; but its own parameters have one name each."""
    send(url, "", what=order, network=target.network, amount=amount)
    return order
