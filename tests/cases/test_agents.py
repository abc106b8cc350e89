"""Agents that run their tools again: retried, resumed, replayed, scheduled twice (cases 6, 7, 8, 14-17, 98, 99)."""

from __future__ import annotations

import asyncio
import dataclasses
import functools
import re
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, get_type_hints

import pytest
from cases import tools
from cases.ledgers import open_ledger
from cases.provider import How, Provider
from chaos import tools as traces
from chaos.stage import Stage

import mycelium
from mycelium.actors.inprocess.action_ledger import ActionLedger
from mycelium.actors.inprocess.decorators import ledger_sync
from mycelium.actors.inprocess.tasks import task_ledger_sync
from mycelium.actors.scopes import execution_scope
from mycelium.leases.errors import (
    BadArgumentsError,
    JobUnknownError,
    LedgerHardBlockError,
    MissingRequestIdentityError,
)
from mycelium.ledger.decision import (
    DecisionIntent,
    DecisionSnapshot,
    PredicateVerdict,
    register_decision_predicate,
)
from mycelium.ledger.identity import Scope
from mycelium.ledger.states import State
from mycelium.reconcilers.verdict import Verdict, VerdictWord

OpenLedger = Callable[[], ActionLedger]
Pay = Callable[..., str]


class ModelError(Exception):
    """The model's server answered 500."""


class Interrupted(Exception):  # noqa: N818 - the agent waits for a person, which is no error
    """The agent pauses."""


@pytest.fixture
def pay(kept: ActionLedger, provider: Provider) -> Pay:
    """A write in process, of which nobody can be asked."""
    paid = ledger_sync(ledger=kept)(tools.pay_unasked)

    def call(order: str, **named: object) -> str:
        return str(paid(provider.url, order, **named))

    return call


# ── runs and turns ───────────────────────────────────────────────────────────────────────────────────────────────────


def test_6_a_run_that_is_retried_for_its_model_reuses_what_its_tools_did(pay: Pay, provider: Provider) -> None:
    """Case 6: the tool succeeded, the next model call answered 500: the whole run again, and no second payment."""
    says = iter(["pay", ModelError(), "pay", ModelError(), "pay", "done"])

    def run() -> str:
        with execution_scope(Scope(run_id="run-1")):
            for step in range(9):
                turn = next(says)
                if isinstance(turn, ModelError):
                    raise turn
                if turn == "done":
                    return turn
                with execution_scope(Scope(run_id="run-1", step=step)):
                    assert pay("ORD-1") == "ORD-1"
        raise AssertionError

    for _ in range(2):
        with pytest.raises(ModelError):
            run()
    assert run() == "done"
    assert provider.effects == {"ORD-1": 1}


def test_7_ids_that_the_model_mints_make_no_second_effect_of_a_named_one(pay: Pay, provider: Provider) -> None:
    """Case 7: under one request id nothing runs twice, whatever the message was called; another id is another one."""
    assert pay("ORD-1", request_id="pay:1", tool_call_id="call_a") == "ORD-1"
    for tool_call_id in ("call_a", "call_b", None):
        assert pay("ORD-1", request_id="pay:1", tool_call_id=tool_call_id) == "ORD-1"
    assert provider.effects["ORD-1"] == 1
    pay("ORD-1", request_id="pay:1 again")
    assert provider.effects["ORD-1"] == 2


def test_7_where_a_name_is_asked_for_a_message_is_none(url: str, namespace: str, provider: Provider) -> None:
    """Case 7: a ledger that asks for a request id takes no id of a model for one."""
    with open_ledger(url, namespace) as kept:
        kept.settings = dataclasses.replace(kept.settings, require_request_id=True)
        paid = ledger_sync(ledger=kept)(tools.pay_unasked)
        with pytest.raises(MissingRequestIdentityError):
            paid(provider.url, "ORD-1", tool_call_id="call_a")
    assert not provider.requests


@pytest.mark.parametrize("wrap", [ledger_sync, task_ledger_sync])
def test_8_a_retry_of_the_task_runs_no_write_again(
    kept: ActionLedger, provider: Provider, wrap: Callable[..., Any]
) -> None:
    """Case 8: the tool had its effect and raised: three retries, one effect; and its attempt stands in the record."""

    def notify(order: str) -> str:
        tools.pay_unasked.fn(provider.url, order)
        message = "the parser did not like the answer"
        raise ValueError(message)

    named = {"task_id": "ORD-1"} if wrap is task_ledger_sync else {"request_id": "task:notify:ORD-1"}
    task = wrap(ledger=kept, effect_class="non_idempotent_mutate")(notify)
    with pytest.raises(ValueError, match="parser"):
        task("ORD-1", **named)
    for _ in range(3):
        with pytest.raises(LedgerHardBlockError):
            task("ORD-1", **named)
    row = kept.record("task:notify:ORD-1")
    assert (row.state, row.attempts, row.error) == (State.UNKNOWN, 1, "ValueError")
    assert provider.effects["ORD-1"] == 1


def test_8_and_every_retry_runs_what_is_declared_as_repeatable(kept: ActionLedger, provider: Provider) -> None:
    failing = iter([True, True, False])

    @ledger_sync(ledger=kept, effect_class="idempotent_mutate", retry_delay_s=0)
    def put(order: str) -> str:
        tools.pay_unasked.fn(provider.url, order)
        if next(failing):
            raise ValueError(order)
        return order

    for _ in range(2):
        with pytest.raises(ValueError, match="ORD-1"):
            put("ORD-1", request_id="put:1")
    assert put("ORD-1", request_id="put:1") == put("ORD-1", request_id="put:1") == "ORD-1"
    assert (provider.effects["ORD-1"], kept.record("put:1").attempts) == (3, 3)


def test_14_what_stands_before_a_pause_runs_once_however_often_it_is_resumed(
    new_ledger: OpenLedger, provider: Provider
) -> None:
    """Case 14: the node is replayed from its top; two resumes at once are one."""
    ledgers = [new_ledger(), new_ledger()]
    together = threading.Barrier(2)
    answers: list[str] = []

    def node(kept: ActionLedger) -> None:
        paid = ledger_sync(ledger=kept)(tools.pay_unasked)
        with execution_scope(Scope(thread_id="t", run_id="r", node="pay", step=1)):
            answers.append(paid(provider.url, "ORD-1"))
        raise Interrupted

    def resume(kept: ActionLedger) -> None:
        together.wait(10)
        with pytest.raises(Interrupted):
            node(kept)

    with ThreadPoolExecutor(2) as pool:
        for _ in range(2):
            assert list(pool.map(resume, ledgers)) == [None, None]
    assert (answers, provider.effects) == (["ORD-1"] * 4, {"ORD-1": 1})


# ── what is told ─────────────────────────────────────────────────────────────────────────────────────────────────────

TWO_VALUED = re.compile(r"execut|happen|success|succeed|occurr|dispatch|sent\b|done\b|ok\b", re.IGNORECASE)


def test_15_no_public_type_has_two_values_for_whether_it_happened() -> None:
    """Case 15: nothing that a caller reads says true or false of an effect: `false` would be read as "did not"."""
    found: list[str] = []
    for name in mycelium.__all__:
        kind = getattr(mycelium, name)
        if not isinstance(kind, type):
            continue
        hints = get_type_hints(kind) if dataclasses.is_dataclass(kind) else {}
        members = {field: hints[field] for field in hints}
        for attribute, value in vars(kind).items():
            if isinstance(value, property) and value.fget is not None:
                members[attribute] = get_type_hints(value.fget).get("return")
        found += [f"{name}.{member}" for member, hint in members.items() if hint is bool and TWO_VALUED.search(member)]
    assert found == []


def test_15_the_guard_sees_what_is_two_valued() -> None:
    assert [name for name in ("executed", "was_sent", "is_ok", "ended", "created") if TWO_VALUED.search(name)] == [
        "executed",
        "was_sent",
        "is_ok",
    ]


async def test_15_unknown_is_never_a_value_that_can_be_taken_for_no(pay: Pay, provider: Provider, stage: Stage) -> None:
    """Case 15: in process and by a worker it is an error of its own; a verdict has three words and no truth."""
    provider.fail(How.LOST, How.LOST)
    with pytest.raises(ConnectionError):
        await asyncio.to_thread(pay, "here", request_id="here")
    with pytest.raises(LedgerHardBlockError):
        await asyncio.to_thread(pay, "here", request_id="here")
    await stage.start(app="cases.tools")
    with pytest.raises(JobUnknownError):
        await stage.client.call(tools.pay_unasked.bind(url=provider.url, order="there"), request_id="there")
    assert len(VerdictWord) == 3
    for verdict in (Verdict.completed(1, {"seen": 1}), Verdict.not_executed({"seen": 0}), Verdict.unknown("busy")):
        with pytest.raises(TypeError, match="no truth"):
            bool(verdict)


# ── budgets and schedules ────────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def charged() -> Iterator[list[tuple[str, str]]]:
    """A spend limit of the host: what it counted, by effect and fence."""
    counted: list[tuple[str, str]] = []

    def limit(intent: DecisionIntent, snapshot: DecisionSnapshot) -> PredicateVerdict:
        counted.append((intent.effect_id, snapshot.fence))
        return PredicateVerdict(allowed=len(counted) < 10)

    take_back = register_decision_predicate("spend limit", limit)
    yield counted
    take_back()


async def test_16_a_budget_is_charged_once_for_each_real_dispatch(
    pay: Pay, provider: Provider, stage: Stage, charged: list[tuple[str, str]]
) -> None:
    """Case 16: three recoveries of a run ask no limit about what is on record; one more attempt is one more charge."""
    provider.fail(How.WELL, How.LOST)
    for _ in range(4):
        assert await asyncio.to_thread(pay, "ORD-1", request_id="pay:1") == "ORD-1"
        with pytest.raises((ConnectionError, LedgerHardBlockError)):
            await asyncio.to_thread(pay, "ORD-2", request_id="pay:2")
    assert len(charged) == len(set(charged)) == len(provider.requests) == 2
    counters = await stage.counters()
    assert (counters["submitted"], counters["claimed"], counters["marked"]) == (2, 2, 2)


async def test_17_three_schedulers_make_one_job_of_each_tick(stage: Stage, url: str) -> None:
    """Case 17: every process thinks that it is the one that fires; the name and the due time are the request id."""

    async def scheduler() -> int:
        async with mycelium.connect(url, namespace=stage.namespace) as client:
            jobs = [
                await client.submit(traces.charge.bind(book=stage.book, key=f"tick-{due}"), request_id=f"nightly:{due}")
                for due in range(100)
            ]
        return sum(bool(job.created) for job in jobs)

    assert sum(await asyncio.gather(*[scheduler() for _ in range(3)])) == 100
    await stage.start(slots=16)
    ends = await asyncio.gather(*[stage.client.job(f"nightly:{due}").result(20) for due in range(100)])
    assert Counter(ends) == stage.effects == Counter(f"tick-{due}" for due in range(100))


# ── one intent, many spellings ───────────────────────────────────────────────────────────────────────────────────────


def test_98_one_call_in_many_spellings_is_one_and_what_has_no_form_reaches_nobody(
    kept: ActionLedger, provider: Provider
) -> None:
    """Case 98: the whole rule has its tests with the canonical form; here it holds for calls."""
    noted: list[object] = []

    @ledger_sync(ledger=kept, effect_class="non_idempotent_mutate")
    def note(value: Any) -> int:  # noqa: ANN401 - any value of a caller's
        noted.append(value)
        return len(noted)

    def ends(*values: object) -> set[int]:
        with execution_scope(Scope(run_id="run-1")):
            return {note(value) for value in values}

    groups = [ends(1, 1.0, 1e0), ends({"a": 1, "b": 2}, {"b": 2.0, "a": 1}), ends(0.0, -0.0), ends("1"), ends(True)]
    groups += [ends("\u00e9"), ends("e\u0301")]
    assert [len(group) for group in groups] == [1] * 7
    assert len(set[int]().union(*groups)) == len(noted) == 7
    for refused in (float("nan"), float("inf"), "\ud800", {1: "a"}, {"a": {2: 3}}):
        with pytest.raises(BadArgumentsError):
            ends(refused)
    assert len(noted) == 7


async def test_99_an_alias_and_a_default_are_one_call(kept: ActionLedger, provider: Provider, stage: Stage) -> None:
    """Case 99: named after validation and defaults, in process and on the queue; and the provider sees one of each."""
    transfer = ledger_sync(ledger=kept)(tools.transfer)
    spellings: list[dict[str, Any]] = [
        {"target": {"chainId": 1}},
        {"target": {"network": 1, "label": None}, "amount": 1},
        {"target": {}, "amount": 1.0},
        {"target": tools.Target(chainId=1)},
    ]
    for spelling in spellings:
        with execution_scope(Scope(run_id="run-1")):
            call = functools.partial(transfer.named(), provider.url, "here", **spelling)
            assert await asyncio.to_thread(call) == "here"
    jobs = [
        await stage.client.submit(tools.transfer.bind(url=provider.url, order="there", **spelling), run_id="run-2")
        for spelling in spellings
    ]
    assert [job.created for job in jobs] == [True, False, False, False]
    assert len({job.request_id for job in jobs}) == 1
    with pytest.raises(BadArgumentsError):
        transfer(provider.url, "here", **spellings[0], sum=2.0)
    assert provider.effects == {"here": 1}
