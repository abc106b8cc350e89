"""The first seed's code samples, written anew for this package: docs/seed.md has the table of what is called otherwise.

Each test has the heading of its sample in its name, and shows what the sample promises.
"""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from seed.stage import ALLOWED, BrokenError, Stage

from mycelium import (
    ActionLedger,
    ArgsDriftError,
    Binding,
    DecisionIntent,
    DecisionSnapshot,
    EffectClass,
    IdentityConflictError,
    LedgerHardBlockError,
    LedgerPollTimeoutError,
    PredicateVerdict,
    Scope,
    default_ledger,
    execution_scope,
    handoff_scope,
    ledger,
    ledger_sync,
    list_transitions,
    record_external_operation,
    register_decision_predicate,
    side_effect,
)


class Gateway:
    """A provider of payments.

    Attributes:
        charges: what it was sent: amount, recipient and key.
        breaks: whether it fails after it took the money.
    """

    def __init__(self, *, breaks: bool = False) -> None:
        self.charges: list[tuple[float, str, str]] = []
        self.breaks = breaks

    def charge(self, amount: float, recipient: str, key: str = "") -> dict[str, Any]:
        """Take the money."""
        self.charges.append((amount, recipient, key))
        if self.breaks:
            self.breaks = False
            raise ConnectionResetError
        return {"id": f"pi_{len(self.charges)}", "amount": amount}


PAYMENT = Binding(agent_id="payment-agent", policy_version="2026.07.1", effect_class=EffectClass.KEYED_MUTATE)
TURN = Scope(thread_id="t1", run_id="r1", node="tools")


def test_sample_tool_level_idempotency(stage: Stage) -> None:
    gateway = Gateway()

    @ledger_sync(binding=PAYMENT, ledger=stage.noon)
    def send_payment(amount: float, recipient: str) -> dict[str, Any]:
        return gateway.charge(amount, recipient)

    first = send_payment(amount=100.0, recipient="acct_123", tool_call_id="call_abc")
    second = send_payment(amount=100.0, recipient="acct_123", tool_call_id="call_abc")
    assert first == second
    assert len(gateway.charges) == 1


async def test_sample_tool_level_idempotency_of_async_tools(stage: Stage) -> None:
    gateway = Gateway()

    @ledger(binding=PAYMENT, ledger=stage.noon)
    async def send_payment(amount: float, recipient: str) -> dict[str, Any]:
        await asyncio.sleep(0)
        return gateway.charge(amount, recipient)

    both = await asyncio.gather(*(send_payment(100.0, "acct_123", tool_call_id="call_abc") for _ in range(2)))
    assert both[0] == both[1]
    assert len(gateway.charges) == 1


def _send_payment(kept: ActionLedger, gateway: Gateway, amount: float, recipient: str, tool_call_id: str) -> Any:  # noqa: ANN401
    with execution_scope(TURN):
        entry = kept.claim("send_payment", (amount, recipient), {}, PAYMENT, tool_call_id=tool_call_id)
        if entry.completed:
            return entry.result
        kept.record_decision(entry, ALLOWED)
        try:
            result = gateway.charge(amount, recipient)
        except Exception as error:
            kept.fail(entry, error, failed_after_effect=True)
            raise
        kept.complete(entry, result)
        return result


def test_sample_manual_integration(stage: Stage) -> None:
    gateway = Gateway()
    first = _send_payment(stage.noon, gateway, 100.0, "acct_123", "call_abc")
    assert _send_payment(stage.noon, gateway, 100.0, "acct_123", "call_abc") == first
    assert len(gateway.charges) == 1
    with execution_scope(TURN):
        request_id = stage.noon.derive_request_id(
            "send_payment", (100.0, "acct_123"), {}, PAYMENT, tool_call_id="call_abc"
        )
    assert stage.row(request_id).state == "completed"


def test_sample_manual_integration_parks_what_may_have_happened(stage: Stage) -> None:
    gateway = Gateway(breaks=True)
    with pytest.raises(ConnectionResetError):
        _send_payment(stage.noon, gateway, 100.0, "acct_123", "call_abc")
    with pytest.raises(LedgerHardBlockError):
        _send_payment(stage.noon, gateway, 100.0, "acct_123", "call_abc")
    assert len(gateway.charges) == 1


def test_sample_manual_integration_sees_drift_and_another_call_as_the_decorators_do(stage: Stage) -> None:
    gateway = Gateway()
    _send_payment(stage.noon, gateway, 100.0, "acct_123", "call_abc")
    with pytest.raises(ArgsDriftError):
        _send_payment(stage.noon, gateway, 200.0, "acct_123", "call_abc")
    _send_payment(stage.noon, gateway, 100.0, "acct_123", "call_xyz")
    assert len(gateway.charges) == 2


def test_sample_webhook_event_dedupe(stage: Stage) -> None:
    done: list[str] = []
    binding = Binding(agent_id="webhook-worker", policy_version="2026.08.1", effect_class=EffectClass.KEYED_MUTATE)

    def handle_event(event_id: str, work: Any) -> int:  # noqa: ANN401 - a callable
        try:
            entry = stage.noon.claim("stripe.event", (event_id,), {}, binding, request_id=f"stripe:{event_id}")
        except LedgerHardBlockError:
            return 409
        if entry.completed:
            return 200
        stage.noon.record_decision(entry, ALLOWED)
        try:
            stage.noon.complete(entry, work(event_id))
        except BrokenError as error:
            stage.noon.fail(entry, error, failed_after_effect=True)
            return 500
        return 200

    def breaks(event_id: str) -> None:
        raise BrokenError

    assert [handle_event("evt_1", done.append), handle_event("evt_1", done.append)] == [200, 200]
    assert [handle_event("evt_2", breaks), handle_event("evt_2", done.append)] == [500, 409]
    assert done == ["evt_1"]


def test_sample_effect_commit_protocol_register_decision_predicate(stage: Stage) -> None:
    gateway = Gateway()

    def below_limit(intent: DecisionIntent, snapshot: DecisionSnapshot) -> PredicateVerdict:
        return PredicateVerdict(allowed=intent.arguments["amount"] <= 500, reason="above 500")  # type: ignore[operator]

    @ledger_sync(binding=PAYMENT, ledger=stage.noon)
    def send_payment(amount: float, recipient: str) -> dict[str, Any]:
        return gateway.charge(amount, recipient)

    take_back = register_decision_predicate("limit", below_limit)
    try:
        send_payment(100.0, "acct_123", request_id="r1")
        with pytest.raises(LedgerHardBlockError, match="above 500"):
            send_payment(900.0, "acct_123", request_id="r2")
    finally:
        take_back()
    assert [amount for amount, *_ in gateway.charges] == [100.0]
    assert '"limit"' in stage.row("r1").decision
    assert "acct_123" not in stage.row("r1").decision + stage.row("r2").decision


def test_sample_transition_identity_request_id(stage: Stage) -> None:
    gateway = Gateway()

    @ledger_sync(binding=PAYMENT, ledger=stage.noon)
    def charge(amount: int) -> dict[str, Any]:
        return gateway.charge(amount, "acct_123")

    first = charge(amount=10, request_id="charge-order:ORD-123")
    assert charge(amount=10, request_id="charge-order:ORD-123") == first
    with pytest.raises(IdentityConflictError):
        charge(amount=11, request_id="charge-order:ORD-123")
    assert len(gateway.charges) == 1


def test_sample_transition_identity_request_id_from(stage: Stage) -> None:
    gateway = Gateway()

    @ledger_sync(
        ledger=stage.noon, effect_class="keyed_mutate", request_id_from="order_id", key_param="idempotency_key"
    )
    def charge_customer(order_id: str, amount: float, idempotency_key: str = "") -> dict[str, Any]:
        return gateway.charge(amount, order_id, idempotency_key)

    charge_customer("ORD-123", 10.0)
    charge_customer("ORD-123", 10.0)
    row = stage.row("charge_customer:order_id:ORD-123")
    assert gateway.charges == [(10.0, "ORD-123", row.effect_id)]


def test_sample_transition_identity_args_drift(stage: Stage) -> None:
    gateway = Gateway()

    @ledger_sync(binding=PAYMENT, ledger=stage.noon)
    def charge(amount: int) -> dict[str, Any]:
        return gateway.charge(amount, "acct_123")

    @ledger_sync(binding=PAYMENT, ledger=stage.noon, on_args_drift="hard")
    def charge_strict(amount: int) -> dict[str, Any]:
        return gateway.charge(amount, "acct_123")

    with execution_scope(TURN):
        for tool, refused in ((charge, ArgsDriftError), (charge_strict, LedgerHardBlockError)):
            tool(amount=10, tool_call_id="tc-1")
            with pytest.raises(refused):
                tool(amount=11, tool_call_id="tc-1")
        ids = [
            stage.noon.derive_request_id("charge", (), {"amount": amount}, PAYMENT, tool_call_id="tc-1")
            for amount in (10, 11)
        ]
    assert ids[0] != ids[1]
    assert len(gateway.charges) == 2


async def test_sample_resolution_gates_wait_for_transition_async(stage: Stage) -> None:
    kept = stage.noon
    entry = await kept.claim_async("charge", (), {"amount": 1}, PAYMENT, request_id="r1")
    await kept.record_decision_async(entry, ALLOWED)
    with pytest.raises(LedgerPollTimeoutError):
        await kept.wait_for_transition_async("r1", timeout_s=0.05)
    waiting = asyncio.ensure_future(kept.wait_for_transition_async("r1", timeout_s=20.0))
    await kept.complete_async(entry, {"id": "pi_1"})
    assert (await waiting).state == "completed"
    assert (await kept.claim_async("charge", (), {"amount": 1}, PAYMENT, request_id="r1")).result == {"id": "pi_1"}


def test_sample_resolution_gates_handoff_scope(stage: Stage) -> None:
    gateway = Gateway()

    @ledger_sync(binding=PAYMENT, ledger=stage.noon)
    def charge(amount: int) -> dict[str, Any]:
        return gateway.charge(amount, "acct_123")

    with execution_scope(TURN), handoff_scope("supervisor-1", handoff_id="spawn-pay"):
        charge(amount=10, tool_call_id="child-1")
    with execution_scope(TURN):
        # It is for audit: it grants nothing, and is no part of what the call is.
        charge(amount=10, tool_call_id="child-1")
    [line] = stage.ask(lambda store: list_transitions(store, parent="supervisor-1"))
    about = line.record.about
    assert (about.parent_request_id, about.handoff_id, len(gateway.charges)) == ("supervisor-1", "spawn-pay", 1)


def test_sample_marking_the_side_effect_boundary(stage: Stage) -> None:
    gateway = Gateway()

    @ledger_sync(effect_class="payment", boundary="explicit", ledger=stage.noon)
    def send_payment(amount: float, recipient: str) -> str:
        if amount <= 0:
            raise BrokenError("validate")
        with side_effect():
            paid = gateway.charge(amount, recipient)
        if amount > 500:
            raise BrokenError("parse")
        return str(paid["id"])

    outcomes = {"r1": -1.0, "r2": 900.0, "r3": 100.0}
    for request_id, amount in outcomes.items():
        if request_id == "r3":
            send_payment(amount, "acct_123", request_id=request_id)
            continue
        with pytest.raises(BrokenError):
            send_payment(amount, "acct_123", request_id=request_id)
    rows = [stage.row(request_id) for request_id in outcomes]
    assert [(row.state, row.boundary) for row in rows] == [
        ("failed", "not_crossed"),
        ("unknown", "crossed"),
        ("completed", "crossed"),
    ]


async def test_sample_marking_the_side_effect_boundary_of_async_tools(stage: Stage) -> None:
    @ledger(effect_class="payment", boundary="explicit", ledger=stage.noon)
    async def send_payment(amount: float) -> None:
        async with side_effect():
            await asyncio.sleep(0)
            raise BrokenError

    with pytest.raises(BrokenError):
        await send_payment(1.0, request_id="r1")
    assert await asyncio.to_thread(lambda: stage.row("r1").boundary) == "maybe_crossed"


def test_sample_recording_the_provider_handle(stage: Stage) -> None:
    gateway = Gateway()

    @ledger_sync(effect_class="payment", boundary="explicit", ledger=stage.noon)
    def send_payment(amount: float, recipient: str) -> dict[str, Any]:
        with side_effect():
            intent = gateway.charge(amount, recipient)
            record_external_operation(intent["id"])
        return intent

    send_payment(100.0, "acct_123", request_id="r1")
    assert stage.row("r1").ref == "pi_1"


def test_samples_run_with_a_ledger_of_the_process_too(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    """`@ledger_sync` without `ledger=` keeps its record on the server that MYCELIUM_URL names."""
    monkeypatch.setenv("MYCELIUM_URL", stage.url)
    default_ledger.cache_clear()
    gateway = Gateway()

    @ledger_sync(binding=PAYMENT)
    def send_payment(amount: float, recipient: str) -> dict[str, Any]:
        return gateway.charge(amount, recipient)

    try:
        for _ in range(2):
            send_payment(100.0, "acct_123", request_id=stage.namespace)
    finally:
        default_ledger().close()
        default_ledger.cache_clear()
    assert len(gateway.charges) == 1


def test_sample_two_workers_one_effect(stage: Stage) -> None:
    gateway, settings = Gateway(), {"poll_timeout_s": 20.0}
    workers = []
    for _ in range(2):

        @ledger_sync(binding=PAYMENT, ledger=stage.another(settings=settings))
        def send_payment(amount: float, recipient: str) -> dict[str, Any]:
            return gateway.charge(amount, recipient)

        workers.append(send_payment)
    with ThreadPoolExecutor(8) as pool:
        asked = [pool.submit(workers[n % 2], 100.0, "acct_123", request_id="r1") for n in range(8)]
        answers = [one.result() for one in asked]
    assert answers == [{"id": "pi_1", "amount": 100.0}] * 8
    assert len(gateway.charges) == 1
