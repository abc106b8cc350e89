"""An operator's verbs from plain code: what is stuck is listed, released once, and only by who may."""

from __future__ import annotations

import pytest

from mycelium import (
    ActionLedger,
    LedgerAlreadyResolvedError,
    LedgerHardBlockError,
    LedgerReleaseRefusedError,
    LedgerWorkerAliveError,
    State,
    StaticTokenOperatorAuthorizer,
    ToolDeclarationError,
    ledger_sync,
    tool,
)

BY, SEEN = "ops", "no charge in the dashboard"


def charge(kept: ActionLedger, sent: list[str], *, fails: bool) -> object:
    @ledger_sync(effect_class="non_idempotent_mutate", ledger=kept, name="charge")
    def body(order: str) -> str:
        sent.append(order)
        if fails:
            raise ConnectionError(order)
        return order

    return body("A", request_id="charge:A")


def test_what_is_stuck_is_found_and_released_to_run_once_more(url: str, namespace: str) -> None:
    sent: list[str] = []
    with ActionLedger(url, namespace=namespace) as kept:
        with pytest.raises(ConnectionError):
            charge(kept, sent, fails=True)
        [stuck] = kept.desk.list_transitions(stuck=True)
        assert stuck.record.request_id == "charge:A"
        assert any("release charge:A" in command for command in stuck.advice.commands)
        assert kept.desk.release("charge:A", verified="not_executed", by=BY, reason=SEEN).resolution == "not_executed"
        with pytest.raises(LedgerAlreadyResolvedError):
            kept.desk.release("charge:A", verified="not_executed", by=BY, reason=SEEN)
        assert charge(kept, sent, fails=False) == "A"
        assert kept.desk.look_at("charge:A").record.state is State.COMPLETED
    assert sent == ["A", "A"]


def test_what_happened_answers_the_next_call_and_nothing_runs(url: str, namespace: str) -> None:
    sent: list[str] = []
    with ActionLedger(url, namespace=namespace) as kept:
        with pytest.raises(ConnectionError):
            charge(kept, sent, fails=True)
        kept.desk.release("charge:A", verified="completed", result={"id": "pi_1"}, by=BY, reason=SEEN)
        assert charge(kept, sent, fails=False) == {"id": "pi_1"}
    assert sent == ["A"]


def test_without_the_token_nobody_releases(url: str, namespace: str) -> None:
    sent: list[str] = []
    authorizer = StaticTokenOperatorAuthorizer({"ops": "correct horse"})
    with ActionLedger(url, namespace=namespace, operator_authorizer=authorizer) as kept:
        with pytest.raises(ConnectionError):
            charge(kept, sent, fails=True)
        for credential in (None, "", "wrong"):
            with pytest.raises(LedgerReleaseRefusedError) as refused:
                kept.desk.release("charge:A", verified="not_executed", credential=credential, by=BY, reason=SEEN)
            assert "correct horse" not in str(refused.value)
        with pytest.raises(LedgerHardBlockError):
            charge(kept, sent, fails=False)
        kept.desk.release("charge:A", verified="not_executed", credential="correct horse", by=BY, reason=SEEN)
    assert sent == ["A"]


def test_a_holder_that_renews_is_not_declared_dead(url: str, namespace: str) -> None:
    with ActionLedger(url, namespace=namespace) as kept:
        said: list[object] = []

        @ledger_sync(effect_class="non_idempotent_mutate", ledger=kept, name="slow")
        def slow() -> str:
            with pytest.raises(LedgerWorkerAliveError):
                kept.desk.mark_dead("slow", by="ops", reason="it seems to hang")
            said.append(kept.record("slow").state)
            return "done"

        assert slow(request_id="slow") == "done"
        assert said == [State.ATTEMPTING]


def test_what_a_declared_tool_is_told_once_more_is_refused() -> None:
    @tool(effect_class="read")
    def look(order: str) -> str:
        return order

    with pytest.raises(ToolDeclarationError, match="declared already, and comes with effect_class"):
        ledger_sync(effect_class="irreversible")(look)
