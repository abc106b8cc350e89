"""Corner cases c1–c11 that the study of the first seed found; docs/seed.md lists what cannot occur here."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from datetime import UTC, datetime
from decimal import Decimal

import pytest
from seed.stage import Body, Hung, Stage, bound, charge, keyed

from kit.ledger import Client, Passed
from mycelium import (
    Boundary,
    LedgerHardBlockError,
    MissingRequestIdentityError,
    OutcomeError,
    Scope,
    State,
    StoreSettings,
    ToolDeclarationError,
    execution_scope,
    ledger_sync,
    side_effect,
    terminal_outcome,
)
from mycelium.ledger.states import Liveness


def test_c1_expired_is_a_view_of_a_row_and_never_stored() -> None:
    assert "expired" not in set(State)
    assert terminal_outcome(State.ATTEMPTING, Boundary.NOT_CROSSED, Liveness.GRACE) == "EXPIRED"


def test_c2_an_idempotent_write_that_died_in_its_external_call_runs_again(stage: Stage) -> None:
    hung = Hung()

    def dies(amount: int) -> str:
        with side_effect():
            hung.stand()
        return "late"

    tool = charge(stage.noon, dies, effect_class="idempotent_mutate", boundary="explicit")
    with hung.during(lambda: tool(1, request_id="r1")):
        again = charge(stage.later, Body(), effect_class="idempotent_mutate", boundary="explicit")
        assert again(1, request_id="r1") == "done"
    # The body that was not dead after all has its own answer, and the record keeps the first one.
    assert hung.answer == "late"
    assert again(1, request_id="r1") == "done"


def test_c3_a_call_from_inside_itself_is_refused_at_once(stage: Stage) -> None:
    def again(amount: int) -> object:
        return tool(amount, request_id="r1")

    tool = charge(stage.noon, again, effect_class="read")
    with pytest.raises(LedgerHardBlockError) as blocked:
        tool(1, request_id="r1")
    assert blocked.value.why == "inside_itself"


def test_c4_a_coroutine_function_or_a_generator_is_no_plain_function() -> None:
    async def later() -> None: ...

    def many() -> Iterator[int]:
        yield 1

    async def many_later() -> AsyncIterator[int]:
        yield 1

    for function in (later, many, many_later):
        with pytest.raises(ToolDeclarationError):
            ledger_sync(effect_class="payment")(function)


def test_c5_a_call_that_nothing_names_is_refused(stage: Stage) -> None:
    body = Body()
    tool = charge(stage.noon, body, effect_class="payment")
    with pytest.raises(MissingRequestIdentityError):
        tool(1)
    with execution_scope(Scope(run_id="run-1")):
        assert tool(1) == tool(1) == "done"
    assert body.runs == 1


def test_c6_a_method_is_no_tool_and_a_bound_one_leaves_its_object_out(stage: Stage) -> None:
    class Shop:
        def __init__(self) -> None:
            self.sold = 0

        def sell(self, amount: int) -> int:
            self.sold += amount
            return self.sold

    with pytest.raises(ToolDeclarationError, match="bound"):
        ledger_sync(effect_class="payment")(Shop.sell)
    first, second = Shop(), Shop()
    for shop in (first, second):
        assert ledger_sync(ledger=stage.noon, effect_class="payment")(shop.sell)(1, request_id="r1") == 1
    assert (first.sold, second.sold) == (1, 0)


def test_c7_a_stored_result_is_nobodys_to_change(stage: Stage) -> None:
    tool = charge(stage.noon, Body({"lines": [1]}), effect_class="payment")
    tool(1, request_id="r1")["lines"].append(2)
    tool(1, request_id="r1")["lines"].append(3)
    assert tool(1, request_id="r1") == {"lines": [1]}


@pytest.mark.parametrize("result", [float("nan"), {"x": float("inf")}, iter([1])])
def test_c8_a_result_that_cannot_be_stored_is_completed_all_the_same(stage: Stage, result: Passed) -> None:
    body = Body(result)
    tool = charge(stage.noon, body, effect_class="payment")
    assert tool(1, request_id="r1") is result
    assert stage.row("r1").state is State.COMPLETED
    with pytest.raises(OutcomeError):
        tool(1, request_id="r1")
    assert body.runs == 1


def test_c9_a_stored_result_comes_back_as_json(stage: Stage) -> None:
    """As theirs on durable storage, and the same on every kind: what a tool has to return is JSON."""
    at = datetime(2026, 12, 1, tzinfo=UTC)
    tool = charge(stage.noon, Body({"at": at, "sum": Decimal("1.50"), "ids": (1, 2)}), effect_class="payment")
    assert tool(1, request_id="r1")["at"] is at
    assert tool(1, request_id="r1") == {"at": "2026-12-01T00:00:00Z", "sum": "1.50", "ids": [1, 2]}


def test_c10_the_providers_key_may_be_given_by_position(stage: Stage) -> None:
    body = Body()
    assert keyed(stage.noon, body)(1, "k1", request_id="r1") == "done"
    assert body.seen == [{"amount": 1, "key": "k1"}]


def test_c11_a_clock_that_is_wrong_reaches_no_row(
    stage: Stage, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = stage.another(store=StoreSettings())
    seconds, _ = client.time()
    monkeypatch.setattr("time.time", lambda: 15.0)
    stage.claimed(kept, "r1", bound("payment"))
    assert 0 <= stage.row("r1").created_ms - seconds * 1000 < 60_000
