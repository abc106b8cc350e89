"""The first seed's tables of boundaries, reconciling, stale leases, releases, death and storage, row by row.

A row that a test of a fact covers is not repeated: docs/seed.md says which.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor

import pytest
from seed.stage import (
    ABSENT,
    CANNOT_SAY,
    HAPPENED,
    LATER_S,
    Body,
    BrokenError,
    Hung,
    Provider,
    Stage,
    bound,
    charge,
    doubtful,
    meanwhile,
    until,
)

from kit.ledger import Client, Passed
from kit.proxy import FaultProxy
from mycelium import (
    LedgerHardBlockError,
    LedgerOutcomeAlreadySetError,
    Lookup,
    NotExecuted,
    Record,
    ServerError,
    State,
    Store,
    StoreSettings,
    Verdict,
    ledger,
    list_transitions,
    mark_dead,
    record_external_operation,
    release,
    side_effect,
)

PAYMENT = bound("payment")
BY: Passed = {"by": "ops@example.com", "reason": "looked it up"}


# ── "Marking the side-effect boundary" ───────────────────────────────────────────────────────────────────────────────


def test_boundary_table_a_crash_inside_the_external_call_is_unknown_and_blocked(stage: Stage) -> None:
    hung, body = Hung(), Body()

    def dies(amount: int) -> None:
        with side_effect():
            hung.stand()

    tool = charge(stage.noon, dies, effect_class="payment", boundary="explicit")
    with hung.during(lambda: tool(1, request_id="r1")):
        with pytest.raises(LedgerHardBlockError):
            charge(stage.later, body, effect_class="payment", boundary="explicit")(1, request_id="r1")
        assert stage.row("r1").state is State.UNKNOWN
    assert body.runs == 0


def test_a_boundary_only_moves_forward(stage: Stage) -> None:
    def twice(amount: int) -> None:
        with side_effect():
            pass
        with side_effect():
            raise BrokenError

    tool = charge(stage.noon, twice, effect_class="payment", boundary="explicit")
    with pytest.raises(BrokenError):
        tool(1, request_id="r1")
    assert stage.row("r1").boundary == "crossed"


def test_a_tool_may_prove_that_nothing_happened_even_past_its_mark(stage: Stage) -> None:
    body = Body(breaks=[NotExecuted("declined")])
    with pytest.raises(NotExecuted):
        charge(stage.noon, body, effect_class="payment")(1, request_id="r1")
    assert stage.row("r1").state is State.FAILED


# ── "Recording the provider handle", "Reconciling automatically" ─────────────────────────────────────────────────────


def test_a_handle_that_was_recorded_before_the_call_survives_the_worker_and_is_told_in_the_refusal(
    stage: Stage,
) -> None:
    hung = Hung()

    def dies(amount: int) -> None:
        record_external_operation("key-1")
        with side_effect():
            hung.stand()

    tool = charge(stage.noon, dies, effect_class="payment", boundary="explicit")
    with hung.during(lambda: tool(1, request_id="r1")):
        with pytest.raises(LedgerHardBlockError, match="key-1"):
            charge(stage.later, Body(), effect_class="payment", boundary="explicit")(1, request_id="r1")
        assert stage.row("r1").ref == "key-1"


def test_reconcile_table_completed_gives_the_providers_result(stage: Stage) -> None:
    body, tool = doubtful(stage, reconciler=Provider(HAPPENED))
    assert tool(1, request_id="r1") == {"id": "pi_1"}
    assert body.runs == 1


def test_reconcile_table_not_executed_runs_exactly_once_more(stage: Stage) -> None:
    body, tool = doubtful(stage, reconciler=Provider(ABSENT))
    assert tool(1, request_id="r1") == tool(1, request_id="r1") == "done"
    assert body.runs == 2


def test_reconcile_table_unknown_blocks_as_without_a_reconciler(stage: Stage) -> None:
    body, tool = doubtful(stage, reconciler=Provider(CANNOT_SAY))
    for _ in range(2):
        with pytest.raises(LedgerHardBlockError):
            tool(1, request_id="r1")
    assert body.runs == 1


def test_a_provider_is_asked_only_about_what_would_be_blocked(stage: Stage) -> None:
    provider = Provider(HAPPENED)
    tool = charge(stage.noon, Body(), effect_class="payment", reconciler=provider)
    tool(1, request_id="r1")
    tool(1, request_id="r1")
    assert provider.asked == []


def test_a_reconciler_of_the_whole_ledger_serves_the_tools_that_name_none(stage: Stage) -> None:
    body, provider = Body(breaks=[BrokenError()]), Provider(HAPPENED)
    tool = charge(stage.another(reconciler=provider), body, effect_class="payment")
    with pytest.raises(BrokenError):
        tool(1, request_id="r1")
    assert tool(1, request_id="r1") == {"id": "pi_1"}


def test_a_reconciler_that_hangs_has_said_nothing(stage: Stage) -> None:
    hung = Hung()

    class Hangs(Provider):
        def reconcile(self, lookup: Lookup, /) -> Verdict:
            hung.stand()
            return HAPPENED

    body = Body(breaks=[BrokenError()])
    kept = stage.another(reconciler=Hangs(), settings={"reconcile_timeout_s": 0.1})
    tool = charge(kept, body, effect_class="payment")
    with pytest.raises(BrokenError):
        tool(1, request_id="r1")
    with pytest.raises(LedgerHardBlockError):
        tool(1, request_id="r1")
    hung.go_on()
    assert body.runs == 1


async def test_an_adapter_that_awaits_is_preferred(stage: Stage) -> None:
    class Awaits(Provider):
        async def reconcile_async(self, lookup: Lookup, /) -> Verdict:
            await asyncio.sleep(0)
            return HAPPENED

    body = Body(breaks=[BrokenError()])

    @ledger(ledger=stage.noon, effect_class="payment", reconciler=Awaits(CANNOT_SAY))
    async def charge(amount: int) -> object:
        return body(amount=amount)

    with pytest.raises(BrokenError):
        await charge(1, request_id="r1")
    assert await charge(1, request_id="r1") == {"id": "pi_1"}


def test_of_two_that_hear_not_executed_one_runs_and_the_other_gets_its_result(stage: Stage) -> None:
    """As the section on resetting what was not executed says."""
    body, _ = doubtful(stage)
    peers = [
        charge(
            stage.another(settings={"poll_timeout_s": 20.0}), body, effect_class="payment", reconciler=Provider(ABSENT)
        )
        for _ in range(4)
    ]
    with ThreadPoolExecutor(4) as pool:
        asked = [pool.submit(tool, 1, request_id="r1") for tool in peers]
        answers = [one.result() for one in asked]
    assert (answers, body.runs) == (["done"] * 4, 2)


# ── "Stale lease + reconcile" ────────────────────────────────────────────────────────────────────────────────────────


def test_stale_lease_table_a_waiter_whose_owner_dies_meanwhile_asks_the_provider(stage: Stage, client: Client) -> None:
    body, answers = Body(), list[object]()
    provider = Provider(HAPPENED)
    hung = Hung()

    def dies(amount: int) -> None:
        hung.stand()
        raise SystemExit

    owner = charge(stage.noon, dies, effect_class="payment")
    kept = stage.another(settings={"poll_timeout_s": 20.0})
    waiter = charge(kept, body, effect_class="payment", reconciler=provider)
    with hung.during(lambda: owner(1, request_id="r1")), meanwhile(lambda: waiter(1, request_id="r1"), answers):
        until(lambda: client.hget(stage.key("r1"), "waiters"))
        stage.ask(lambda store: mark_dead(store, "r1", override=True, **BY))
    assert (answers, body.runs) == ([{"id": "pi_1"}], 0)


# ── "Operator runbook" ───────────────────────────────────────────────────────────────────────────────────────────────


def test_release_never_deletes_what_is_on_record(stage: Stage) -> None:
    doubtful(stage)
    before = stage.row("r1")
    after = stage.ask(lambda store: release(store, "r1", verified="not_executed", **BY), LATER_S)
    kept = (after.resolution, after.resolved_by, after.resolution_reason, after.released_from)
    assert kept == ("not_executed", BY["by"], BY["reason"], "unknown")
    assert (after.effect_id, after.history[: len(before.history)]) == (before.effect_id, before.history)


def test_what_is_stuck_is_listed_with_what_to_do_about_it(stage: Stage) -> None:
    doubtful(stage)
    charge(stage.noon, Body(), effect_class="payment")(1, request_id="r2")
    [line] = stage.ask(lambda store: list_transitions(store, stuck=True), LATER_S)
    assert (line.record.request_id, line.record.tool) == ("r1", "charge")
    assert str(line.advice)


def test_death_table_a_death_is_signed_and_then_a_release_goes_through(stage: Stage) -> None:
    hung = Hung()

    def dies(amount: int) -> None:
        hung.stand()
        raise SystemExit

    with hung.during(lambda: charge(stage.noon, dies, effect_class="payment")(1, request_id="r1")):

        async def bury(store: Store) -> Record:
            await mark_dead(store, "r1", override=True, **BY)
            return await release(store, "r1", verified="not_executed", **BY)

        released = stage.ask(bury)
    assert (released.state, released.dead_by) == (State.READY, BY["by"])
    assert charge(stage.noon, Body(), effect_class="payment")(1, request_id="r1") == "done"


# ── "What happens when storage is down" ──────────────────────────────────────────────────────────────────────────────


async def test_storage_table_a_completion_that_cannot_be_recorded_is_raised_and_the_call_is_blocked_later(
    stage: Stage, start_proxy: Callable[[str], Awaitable[FaultProxy]]
) -> None:
    proxy = await start_proxy(stage.url)
    hasty = StoreSettings(call_timeout_s=0.3, patience_s=0.3, now_ms=stage.noon.settings.store.now_ms)
    ran: list[int] = []

    @ledger(ledger=stage.another(url=proxy.url, store=hasty), effect_class="payment")
    async def pay(amount: int) -> str:
        ran.append(amount)
        proxy.shut()
        return "paid"

    with pytest.raises(ServerError):
        await pay(1, request_id="r1")
    row = await asyncio.to_thread(stage.row, "r1")
    assert (row.state, ran) == (State.ATTEMPTING, [1])

    @ledger(ledger=stage.later, effect_class="payment", name="pay")
    async def pay_later(amount: int) -> None:
        pytest.fail("it ran again")

    with pytest.raises(LedgerHardBlockError):
        await pay_later(1, request_id="r1")


# ── "Transition matrix", "Fenced mutations" ──────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("settle", ["complete", "fail_before", "fail_after"])
@pytest.mark.parametrize("state", ["completed", "failed", "dead holder"])
def test_matrix_nothing_leaves_an_end_and_nothing_is_written_from_behind(stage: Stage, state: str, settle: str) -> None:
    kept, entry = stage.noon, stage.attempting(stage.noon, "r1", PAYMENT)
    if state == "completed":
        kept.complete(entry, 1)
    elif state == "failed":
        kept.fail(entry, BrokenError(), failed_after_effect=False)
    else:
        stage.ask(lambda store: mark_dead(store, "r1", override=True, **BY))
        stage.ask(lambda store: release(store, "r1", verified="not_executed", **BY))
    before = stage.row("r1")
    same = (state, settle) in {("completed", "complete"), ("failed", "fail_before")}
    verbs: dict[str, Callable[[], None]] = {
        "complete": lambda: kept.complete(entry, 2),
        "fail_before": lambda: kept.fail(entry, BrokenError(), failed_after_effect=False),
        "fail_after": lambda: kept.fail(entry, BrokenError(), failed_after_effect=True),
    }
    if same:
        # The same word again is the same settlement, whose reply may have been lost: nothing changes.
        verbs[settle]()
    else:
        with pytest.raises(LedgerOutcomeAlreadySetError):
            verbs[settle]()
    assert (stage.row("r1").state, stage.row("r1").fence) == (before.state, before.fence)
    if state == "completed":
        assert stage.claimed(kept, "r1", PAYMENT).result == 1


def test_a_refused_settlement_never_hides_what_the_tool_raised(stage: Stage) -> None:
    hung = Hung()

    def fails_late(amount: int) -> None:
        hung.stand()
        raise BrokenError("its own")

    tool = charge(stage.noon, fails_late, effect_class="payment", boundary="explicit")
    with hung.during(lambda: tool(1, request_id="r1")):
        assert charge(stage.later, Body(), effect_class="payment", boundary="explicit")(1, request_id="r1") == "done"
    assert isinstance(hung.answer, BrokenError)
    assert stage.row("r1").state is State.COMPLETED
