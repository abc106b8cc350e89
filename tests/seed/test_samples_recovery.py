"""The first seed's samples of reconciling, releases, storage that is down, and tasks, written anew for this package."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from seed.stage import HASTY, LATER_S, Body, BrokenError, Hung, Stage, bound, charge, doubtful, keyed

from kit.ledger import Client
from mycelium import (
    ActionLedger,
    Capability,
    LedgerHardBlockError,
    LedgerReleaseRefusedError,
    LedgerSoftBlockError,
    Lookup,
    Record,
    ServerError,
    StaticTokenOperatorAuthorizer,
    Store,
    Verdict,
    ledger_sync,
    list_transitions,
    mark_dead,
    record_external_operation,
    release,
    side_effect,
    task_ledger,
    task_ledger_sync,
)


class Stripe:
    """A provider with payment intents, by the key that they were made with."""

    def __init__(self) -> None:
        self.intents: dict[str, str] = {}
        self.answers = True

    def pay(self, key: str, status: str = "succeeded") -> str:
        """Make a payment, and lose the answer once where it is told to."""
        self.intents[key] = status
        if not self.answers:
            self.answers = True
            raise ConnectionResetError
        return f"pi_{len(self.intents)}"


class StripeReconciler:
    """Read-only: never charges, never retries."""

    lag_s = 0.0

    def __init__(self, stripe: Stripe) -> None:
        self.stripe = stripe

    def reconcile(self, lookup: Lookup, /) -> Verdict:
        """Ask for the payment by its handle."""
        status = self.stripe.intents.get(lookup.external_operation_ref or "", "none")
        if status == "succeeded":
            return Verdict.completed({"status": status}, evidence=lookup.external_operation_ref)
        if status in {"canceled", "requires_payment_method"}:
            return Verdict.not_executed(evidence=status)
        return Verdict.unknown("no such intent yet")


def _paying(stage: Stage, stripe: Stripe, status: str) -> Any:  # noqa: ANN401 - a decorated function
    @ledger_sync(effect_class="payment", reconciler=StripeReconciler(stripe), ledger=stage.noon)
    def send_payment(amount: float, idempotency_key: str) -> str:
        record_external_operation(idempotency_key)
        with side_effect():
            return stripe.pay(idempotency_key, status)

    return send_payment


@pytest.mark.parametrize(
    "status, second", [("succeeded", {"status": "succeeded"}), ("canceled", "pi_1"), ("processing", None)]
)
def test_sample_reconciling_automatically(stage: Stage, status: str, second: object) -> None:
    stripe = Stripe()
    stripe.answers = False
    send_payment = _paying(stage, stripe, status)
    with pytest.raises(ConnectionResetError):
        send_payment(100.0, "key-1", request_id="r1")
    if second is None:
        with pytest.raises(LedgerHardBlockError, match="key-1"):
            send_payment(100.0, "key-1", request_id="r1")
    else:
        assert send_payment(100.0, "key-1", request_id="r1") == second


def test_sample_what_happens_when_storage_is_down_the_full_pattern(stage: Stage) -> None:
    """Handle before the call, a mark around it, a reconciler: nothing runs twice, and nothing is lost."""
    stripe = Stripe()
    send_payment = _paying(stage, stripe, "succeeded")
    assert send_payment(100.0, "key-1", request_id="r1") == "pi_1"
    away = stage.another(url="redis://127.0.0.1:1", store=HASTY)

    @ledger_sync(effect_class="payment", ledger=away)
    def pay(amount: float) -> None:
        pytest.fail("it ran")

    with pytest.raises(ServerError):
        pay(100.0, request_id="r1")
    assert list(stripe.intents) == ["key-1"]


def test_sample_read_only_soft_block_defer_read_only_unknown(stage: Stage, client: Client) -> None:
    @ledger_sync(effect_class="read", ledger=stage.noon, defer_read_only_unknown=True)
    def search_docs(query: str) -> None:
        raise BrokenError

    with pytest.raises(BrokenError):
        search_docs("x", request_id="r1")
    client.hset(stage.key("r1"), "state", "unknown")
    with pytest.raises(LedgerSoftBlockError):
        search_docs("x", request_id="r1")


def test_sample_enforcing_the_same_provider_idempotency_key(stage: Stage) -> None:
    body = Body()
    tool = keyed(stage.noon, body, key_window_s=86_400.0)
    tool(1, request_id="r1")
    assert body.seen[0]["key"] == stage.row("r1").effect_id


def test_sample_tool_capabilities(stage: Stage) -> None:
    binding = bound("keyed_mutate", key_param="key", capability=Capability.QUERYABLE)
    assert binding.effective_capability is Capability.QUERYABLE


def test_sample_operator_runbook_in_python(stage: Stage) -> None:
    body, _ = doubtful(stage)

    async def runbook(store: Store) -> list[tuple[str, str, str]]:
        stuck = await list_transitions(store, stuck=True)
        seen = [(line.record.request_id, line.record.tool, str(line.record.state)) for line in stuck]
        await release(store, "r1", verified="not_executed", by="ops@example.com", reason="provider shows no charge")
        return seen

    assert stage.ask(runbook, LATER_S) == [("r1", "charge", "unknown")]
    assert charge(stage.noon, body, effect_class="payment")(1, request_id="r1") == "done"


def test_sample_operator_runbook_static_token_operator_authorizer(stage: Stage) -> None:
    doubtful(stage)
    authorizer = StaticTokenOperatorAuthorizer({"ops@example.com": "presented"})

    def releasing(credential: str | None) -> Any:  # noqa: ANN401 - a coroutine function
        how: dict[str, Any] = {"verified": "not_executed", "by": "ops@example.com", "reason": "no charge"}

        async def present(store: Store) -> Record:
            return await release(store, "r1", authorizer=authorizer, credential=credential, **how)

        return present

    with pytest.raises(LedgerReleaseRefusedError):
        stage.ask(releasing("wrong"), LATER_S)
    assert stage.ask(releasing("presented"), LATER_S).resolved_by == "ops@example.com"


def test_sample_operator_runbook_mark_dead(stage: Stage) -> None:
    stage.attempting(stage.noon, "r1", bound("payment"))

    async def runbook(store: Store) -> str:
        await mark_dead(store, "r1", by="ops@example.com", reason="confirmed dead", override=True)
        done = await release(
            store, "r1", verified="not_executed", by="ops@example.com", reason="worker died before effect"
        )
        return str(done.state)

    assert stage.ask(runbook) == "ready"


def test_sample_task_level_idempotency(stage: Stage) -> None:
    paid: list[str] = []

    @task_ledger_sync(effect_class="payment", ledger=stage.noon)
    def process_invoice(invoice_id: str) -> dict[str, str]:
        paid.append(invoice_id)
        return {"invoice_id": invoice_id, "status": "paid"}

    first = process_invoice(invoice_id="inv-42", task_id="invoice-42")
    assert process_invoice(invoice_id="inv-42", task_id="invoice-42") == first
    assert paid == ["inv-42"]


def test_sample_task_level_idempotency_id_from(stage: Stage) -> None:
    paid: list[float] = []

    @task_ledger_sync(id_from=["invoice_id"], effect_class="payment", ledger=stage.noon)
    def process_invoice(invoice_id: str, amount: float) -> float:
        paid.append(amount)
        return amount

    assert process_invoice(invoice_id="inv-42", amount=100.0) == 100.0
    assert process_invoice("inv-42", 200.0) == 100.0
    assert paid == [100.0]


async def test_sample_task_level_idempotency_of_async_tasks(stage: Stage) -> None:
    paid: list[str] = []

    @task_ledger(id_from=["invoice_id"], effect_class="payment", ledger=stage.noon)
    async def process_invoice(invoice_id: str) -> str:
        await asyncio.sleep(0)
        paid.append(invoice_id)
        return invoice_id

    assert [await process_invoice("inv-42"), await process_invoice("inv-42")] == ["inv-42", "inv-42"]
    assert paid == ["inv-42"]


def test_sample_correction_retries(stage: Stage) -> None:
    results = ["bad", "good"]

    @task_ledger_sync(effect_class="payment", ledger=stage.noon)
    def process_invoice(invoice_id: str) -> str:
        return results.pop(0)

    assert process_invoice(invoice_id="inv-42", task_id="invoice-42-attempt-1") == "bad"
    assert process_invoice(invoice_id="inv-42", task_id="invoice-42-attempt-2") == "good"
    assert process_invoice(invoice_id="inv-42", task_id="invoice-42-attempt-1") == "bad"


def test_a_task_that_died_is_no_task_that_is_pending_for_ever(stage: Stage) -> None:
    """D12: tasks are the same machine as tools."""
    hung = Hung()

    def make(kept: ActionLedger, stands: bool) -> Any:  # noqa: ANN401, FBT001 - a decorated function
        @task_ledger_sync(effect_class="idempotent_mutate", ledger=kept)
        def process_invoice(invoice_id: str) -> str:
            if stands:
                hung.stand()
            return invoice_id

        return process_invoice

    with hung.during(lambda: make(stage.noon, stands=True)("inv-42", task_id="t1")):
        assert make(stage.later, stands=False)("inv-42", task_id="t1") == "inv-42"
