"""A function becomes a tool: its name, its binding, its calls."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Iterator

import pytest

from mycelium.actors.context import current_call
from mycelium.actors.effect import record_external_operation, side_effect
from mycelium.actors.tool import Call, Tool, UndeclaredEffectWarning, tool
from mycelium.leases.errors import (
    BadArgumentsError,
    LeaseError,
    ToolCapabilityDeclarationError,
    ToolDeclarationError,
)
from mycelium.ledger.states import BoundaryMode, Capability, EffectClass, RetryPermission, Spendability
from mycelium.reconcilers.protocol import Lookup
from mycelium.reconcilers.verdict import Verdict


@tool(effect_class="read")
def add(a: int, b: int = 2) -> int:
    """Add two numbers."""
    return a + b


@tool(effect_class=EffectClass.IRREVERSIBLE, boundary="explicit", name="wire.transfer", timeout_s=5)
async def transfer(amount: int) -> str:
    return f"sent {amount}"


async def test_a_tool_can_be_called_like_the_plain_function() -> None:
    assert add(1) == 3
    assert await transfer(5) == "sent 5"


def test_a_tool_has_a_name_and_a_binding() -> None:
    assert (add.name, add.is_async, add.binding.effect_class) == ("add", False, EffectClass.READ)
    assert add.binding.boundary_mode is BoundaryMode.NONE
    assert (transfer.name, transfer.is_async, transfer.binding.timeout_s) == ("wire.transfer", True, 5)
    assert transfer.binding.boundary_mode is BoundaryMode.EXPLICIT
    assert add.__doc__ == "Add two numbers."


def test_bind_names_a_call_and_keeps_its_arguments_out_of_repr() -> None:
    call = add.bind(1, b=4)
    assert call == Call(add, {"a": 1, "b": 4})
    assert repr(call) == "<call of 'add' with a, b>"
    with pytest.raises(BadArgumentsError, match="missing a required argument: 'a'"):
        add.bind()  # type: ignore[call-arg]


def test_a_tool_without_an_effect_class_is_the_strictest_write_and_says_so() -> None:
    def pay(amount: int) -> None:
        del amount

    with pytest.warns(UndeclaredEffectWarning, match="'pay'"):
        declared = tool(pay)
    assert declared.binding.effect_class is EffectClass.NON_IDEMPOTENT_MUTATE
    assert declared.binding.boundary_mode is BoundaryMode.AUTOMATIC


class Asks:
    lag_s = 1.0

    def reconcile(self, lookup: Lookup) -> Verdict:
        return Verdict.unknown("")


def test_all_that_a_tool_declares_is_in_its_binding() -> None:
    @tool(
        effect_class="external_api_mutation",
        boundary="explicit",
        capability="blind",
        spendability="non_replayable",
        retry_permission="manual_reconciliation_required",
        key_param="key",
        key_window_s=60,
        propagate_effect_id_as_provider_key=False,
        request_id_from="order",
        destination="to.email",
        policy_version="2026.07",
        agent_id="billing",
    )
    def pay(order: str, to: dict[str, str], key: str) -> None:
        del order, to, key

    binding = pay.binding
    assert (binding.effect_class, binding.boundary_mode) == (EffectClass.KEYED_MUTATE, BoundaryMode.EXPLICIT)
    assert (binding.capability, binding.spendability) == (Capability.BLIND, Spendability.NON_REPLAYABLE)
    assert binding.retry_permission is RetryPermission.MANUAL
    assert (binding.key_param, binding.key_window_s) == ("key", 60)
    assert not binding.propagate_effect_id_as_provider_key
    assert (binding.request_id_from, binding.destination) == ("order", "to.email")
    assert (binding.policy_version, binding.agent_id) == ("2026.07", "billing")


def test_a_reconciler_is_what_makes_a_write_queryable() -> None:
    def mail(to: str) -> None:
        del to

    assert tool(effect_class="email")(mail).binding.capability is Capability.BLIND
    asked = tool(effect_class="email", reconciler=Asks())(mail)
    assert (asked.binding.reconcilable, asked.binding.capability) == (True, Capability.QUERYABLE)


def test_a_refused_declaration_names_the_tool() -> None:
    def wire(amount: int) -> None:
        del amount

    with pytest.raises(ToolCapabilityDeclarationError, match="'wire': A tool of class irreversible is blind"):
        tool(effect_class="irreversible", capability="queryable")(wire)
    with pytest.raises(ToolDeclarationError, match="'wire' names destination='to\\.iban'"):
        tool(effect_class="irreversible", destination="to.iban")(wire)


class NoLag:
    def reconcile(self, lookup: Lookup) -> Verdict:
        return Verdict.unknown("")


class NoVerb:
    lag_s = 1.0


@pytest.mark.parametrize(
    "declared",
    [
        {"effect_class": "sometimes"},
        {"effect_class": "read", "boundary": "explicit"},
        {"effect_class": "read", "boundary": "wherever"},
        {"effect_class": "read", "name": "two words"},
        {"effect_class": "read", "name": "x" * 129},
        {"effect_class": "read", "timeout_s": 0},
        {"effect_class": "read", "timeout_s": float("nan")},
        {"effect_class": "read", "timeout_s": float("inf")},
        {"effect_class": "read", "max_attempts": 0},
        {"effect_class": "keyed_mutate", "key_param": "other"},
        {"effect_class": "keyed_mutate", "reconciler": NoLag()},
        {"effect_class": "keyed_mutate", "reconciler": NoVerb()},
        {"effect_class": "read", "colour": "blue"},
        {"effect_class": "read", "spendability": "single_use"},
        {"effect_class": "keyed_mutate", "retry_permission": "safe_retry"},
        {"effect_class": "keyed_mutate", "propagate_effect_id_as_provider_key": True},
        {"effect_class": "keyed_mutate", "request_id_from": "order"},
        {"effect_class": "keyed_mutate", "destination": "to.email"},
        {"effect_class": "keyed_mutate", "agent_id": "x" * 129},
    ],
)
def test_a_declaration_that_cannot_hold_is_refused(declared: dict[str, object]) -> None:
    def pay(amount: int) -> None:
        del amount

    with pytest.raises(ToolDeclarationError):
        tool(**declared)(pay)  # type: ignore[call-overload]


def test_what_is_no_function_with_one_result_is_refused() -> None:
    def many() -> Iterator[int]:
        yield 1

    async def many_async() -> AsyncIterator[int]:
        yield 1

    for wrong in (many, many_async, int, "text", lambda: 1):
        with pytest.raises(ToolDeclarationError):
            tool(effect_class="read")(wrong)  # type: ignore[arg-type]


async def test_outside_a_worker_the_helpers_do_nothing_and_warn_once() -> None:
    with pytest.warns(RuntimeWarning, match="record nothing here"):
        effect = side_effect()
    with effect:
        pass
    async with side_effect():
        await record_external_operation("pi_1")
    for wrong in ("", "x" * 513, "\ud800", 5):
        with pytest.raises(BadArgumentsError):
            record_external_operation(wrong)  # type: ignore[arg-type]
    with pytest.raises(LeaseError, match=re.escape("No tool call is running here.")):
        current_call()


def test_types_follow_the_function() -> None:
    plain: Tool[..., int] = add
    awaited: Tool[..., str] = transfer
    result: int = add(1)
    call: Call[str] = transfer.bind(amount=1)
    assert (plain, awaited, result, call.tool) == (add, transfer, 3, transfer)
