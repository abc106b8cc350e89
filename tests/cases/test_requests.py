"""Requests that fail on their way, and providers that remember more or less of them (cases 9-11, 87-97)."""

from __future__ import annotations

import asyncio
import socket
import subprocess
import sys
from collections.abc import Callable
from typing import Any, cast

import pytest
from cases import tools
from cases.provider import IN_PROGRESS, REUSED, How, Keeps, Provider, ProviderError, send
from chaos.stage import Stage, until, until_async

from mycelium.actors.inprocess.action_ledger import ActionLedger
from mycelium.actors.inprocess.decorators import ledger, ledger_sync
from mycelium.actors.load import AnyTool
from mycelium.actors.tool import SyncTool, tool
from mycelium.leases.errors import IdentityConflictError, LedgerHardBlockError, NotExecuted
from mycelium.ledger.states import State

OpenLedger = Callable[[], ActionLedger]
APP = "cases.tools"


def calls_of(declared: AnyTool, kept: ActionLedger) -> Callable[..., Any]:
    return ledger_sync(ledger=kept)(cast("SyncTool[..., Any]", declared))


def end_of(call: Callable[[], object]) -> object:
    """What a call comes to: its result, or its exception."""
    try:
        return call()
    except Exception as error:  # noqa: BLE001 - whatever it is, it is looked at
        return error


# ── in doubt ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_9_a_client_that_gave_up_proves_nothing_and_the_provider_is_asked(
    kept: ActionLedger, provider: Provider
) -> None:
    """Case 9: the client's time-out came first; the same call again asks, and sends nothing."""
    provider.fail(How.HELD)
    pay = calls_of(tools.pay, kept)

    def call() -> object:
        return pay(provider.url, "ORD-1", patience_s=tools.IMPATIENT_S, request_id="pay:ORD-1")

    with pytest.raises(TimeoutError):
        call()
    assert kept.record("pay:ORD-1").state is State.UNKNOWN
    provider.let_go.set()
    assert end_by_asking(call) == "ORD-1"
    assert (len(provider.requests), provider.effects["ORD-1"]) == (1, 1)
    assert kept.record("pay:ORD-1").state is State.COMPLETED


def end_by_asking(call: Callable[[], object]) -> object:
    """Call again until the provider's word is not "not yet" any more."""
    for _ in range(200):
        try:
            return call()
        except LedgerHardBlockError:
            continue
    raise AssertionError


async def test_9_a_cancelled_call_is_no_failed_one(kept: ActionLedger, provider: Provider) -> None:
    """Case 9: "cancelled" from the host is a wish. The thread that sends goes on, and the record says so."""
    provider.fail(How.HELD)

    @tool(effect_class="non_idempotent_mutate")
    async def pay_async(url: str, order: str) -> str:
        return await asyncio.to_thread(tools.pay.fn, url, order)  # type: ignore[arg-type]

    paid = ledger(ledger=kept)(pay_async)
    task = asyncio.ensure_future(paid(provider.url, "ORD-1", request_id="pay:ORD-1"))
    await until(lambda: provider.requests)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    record = await asyncio.to_thread(kept.record, "pay:ORD-1")
    assert (record.state, record.ended) == (State.UNKNOWN, False)
    provider.let_go.set()
    with pytest.raises(LedgerHardBlockError):
        await paid(provider.url, "ORD-1", request_id="pay:ORD-1")
    await until(lambda: provider.effects["ORD-1"] == 1)
    assert len(provider.requests) == 1


@pytest.mark.parametrize("how", [How.LOST, How.BROKEN_AFTER, How.BROKEN_BEFORE])
def test_10_after_the_request_left_no_error_sends_it_again(kept: ActionLedger, provider: Provider, how: How) -> None:
    """Cases 10, 93, 95: whether the provider took it or not, its answer did not say; nobody sends it by guess."""
    provider.fail(how)
    pay = calls_of(tools.pay_carefully, kept)
    with pytest.raises((OSError, ProviderError)):
        pay(provider.url, "ORD-1", request_id="pay:ORD-1")
    for _ in range(3):
        with pytest.raises(LedgerHardBlockError, match="may have had its effect"):
            pay(provider.url, "ORD-1", request_id="pay:ORD-1")
    assert len(provider.requests) == 1
    assert kept.record("pay:ORD-1").state is State.UNKNOWN


def test_10_a_refused_connection_is_proof_if_the_tool_says_so(kept: ActionLedger, provider: Provider) -> None:
    """Case 10: nothing left this machine: failed, not unknown; another request id sends it."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        nobody = f"127.0.0.1:{taken.getsockname()[1]}"
    pay = calls_of(tools.pay_carefully, kept)
    with pytest.raises(NotExecuted):
        pay(nobody, "ORD-1", request_id="pay:ORD-1")
    assert kept.record("pay:ORD-1").state is State.FAILED
    assert pay(provider.url, "ORD-1", request_id="pay:ORD-1:2") == "ORD-1"
    assert provider.effects["ORD-1"] == 1


def test_10_and_a_class_that_may_be_sent_again_is_sent_under_the_same_name(
    kept: ActionLedger, provider: Provider
) -> None:
    """Case 10: cut before the connection, a keyed write is sent again, and its window begins with that."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        where = [provider.url, f"127.0.0.1:{taken.getsockname()[1]}"]

    @ledger_sync(ledger=kept, effect_class="keyed_mutate", key_param="key", key_window_s=tools.WINDOW_S)
    def pay(order: str, key: str = "") -> str:
        try:
            send(where.pop(), key, what=order)
        except ConnectionRefusedError as refused:
            said = "nobody listens there"
            raise NotExecuted(said) from refused
        return order

    with pytest.raises(NotExecuted):
        pay("ORD-1", request_id="pay:1")
    assert pay("ORD-1", request_id="pay:1") == "ORD-1"
    assert provider.effects["ORD-1"] == 1


def test_11_a_program_that_hangs_is_no_failed_one(kept: ActionLedger, provider: Provider) -> None:
    """Case 11, in process: the time-out of a subprocess comes after its effect."""
    script = "import sys, time; from cases.provider import send; send(sys.argv[1], '', what='comment'); time.sleep(60)"

    @ledger_sync(ledger=kept, effect_class="non_idempotent_mutate")
    def comment(url: str) -> None:
        with subprocess.Popen([sys.executable, "-c", script, url], env={"PYTHONPATH": ":".join(sys.path)}) as child:
            try:
                while not provider.effects["comment"]:
                    child.poll()
                child.wait(0.1)
            finally:
                child.kill()

    with pytest.raises(subprocess.TimeoutExpired):
        comment(provider.url, request_id="comment:1")
    with pytest.raises(LedgerHardBlockError):
        comment(provider.url, request_id="comment:1")
    assert provider.effects["comment"] == 1
    assert kept.record("comment:1").state is State.UNKNOWN


# ── keys ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_87_other_arguments_under_one_name_never_reach_the_wire(kept: ActionLedger, provider: Provider) -> None:
    pay = calls_of(tools.pay_keyed, kept)
    pay(provider.url, "ORD-1", request_id="pay:1")
    with pytest.raises(IdentityConflictError):
        pay(provider.url, "ORD-2", request_id="pay:1")
    assert [request.body["what"] for request in provider.requests] == ["ORD-1"]


@pytest.mark.parametrize("declared", [tools.pay_with_note, tools.pay_or_refuse], ids=["raises", "says it failed"])
def test_87_a_reused_key_is_no_proof_that_nothing_happened(
    kept: ActionLedger, provider: Provider, declared: AnyTool
) -> None:
    """Case 87: the provider refuses the second request, and the first one had its effect: unknown, whatever is said."""
    provider.fail(How.LOST)
    pay = calls_of(declared, kept)
    with pytest.raises(ConnectionError):
        pay(provider.url, "ORD-1", request_id="pay:1")
    with pytest.raises((ProviderError, NotExecuted), match=str(REUSED)):
        pay(provider.url, "ORD-1", request_id="pay:1")
    assert provider.effects["ORD-1"] == 1
    assert kept.record("pay:1").state is State.UNKNOWN


@pytest.mark.parametrize("how", [How.LOST, How.BROKEN_BEFORE, How.BROKEN_AFTER])
@pytest.mark.parametrize("keeps", Keeps)
def test_88_what_a_provider_keeps_changes_how_a_call_ends_and_not_how_often(
    kept: ActionLedger, provider: Provider, keeps: Keeps, how: How
) -> None:
    """Case 88: one gives a kept error again, another runs anew; both get the first key."""
    provider.keeps = keeps
    provider.fail(how)
    runs_anew = keeps is Keeps.GOOD and how is How.BROKEN_AFTER
    # Such a provider does what it did once more, with an error under the same key: its key protects from nothing.
    pay = calls_of(tools.pay_once_by_key if runs_anew else tools.pay_keyed, kept)
    ends = [end_of(lambda: pay(provider.url, "ORD-1", request_id="pay:1")) for _ in range(3)]
    assert len(set(provider.keys)) == 1
    assert provider.effects["ORD-1"] == (0 if (how, keeps) == (How.BROKEN_BEFORE, Keeps.ALL) else 1)
    if how is How.LOST or (how, keeps) == (How.BROKEN_BEFORE, Keeps.GOOD):
        assert kept.record("pay:1").state is State.COMPLETED
        assert ends[1] == ends[2] == provider.keys[0]
    else:
        assert kept.record("pay:1").state is State.UNKNOWN
        assert len(provider.requests) == (1 if runs_anew else 3)


async def test_88_a_worker_does_not_ask_a_kept_error_for_ever(stage: Stage, provider: Provider) -> None:
    """Case 88: it is sent again by key, as often as attempts last, and then waits for a person."""
    provider.fail(How.BROKEN_AFTER)
    await stage.start(app=APP)
    job = await stage.client.submit(tools.pay_keyed.bind(url=provider.url, order="ORD-1"), request_id="pay:1")
    limit = tools.pay_keyed.binding.max_attempts

    async def worn_out() -> bool:
        record = await job.record()
        return record.state is State.UNKNOWN and record.attempts == limit

    await until_async(worn_out, 10)
    asked = (await job.record()).history[-1].number
    await until_async(lambda: looked_at_again(stage, tools.pay_keyed, "pay:1"), 10)
    record = await job.record()
    assert (record.state, record.history[-1].number) == (State.UNKNOWN, asked)
    assert provider.keys == [record.effect_id] * limit
    assert provider.effects["ORD-1"] == 1


async def looked_at_again(stage: Stage, declared: AnyTool, request_id: str) -> bool:
    """Whether the reconciler has been at a row since it became unknown."""
    store = stage.client.store
    due = await store.calls.read("ZSCORE", store.keys.unknown(declared.name), request_id)
    since = await store.calls.read("HGET", store.keys.row(request_id), "unknown_ms")
    return float(due) > float(since)  # type: ignore[arg-type]


def test_89_a_request_in_progress_is_neither_done_nor_failed(kept: ActionLedger, provider: Provider) -> None:
    """Case 89: 409 says "ask later", and later the stored answer comes."""
    provider.fail(How.HELD)
    pay = calls_of(tools.pay_keyed, kept)

    def call() -> object:
        return end_of(lambda: pay(provider.url, "ORD-1", patience_s=tools.IMPATIENT_S, request_id="pay:1"))

    assert isinstance(call(), TimeoutError)
    second = call()
    assert isinstance(second, ProviderError)
    assert second.status == IN_PROGRESS
    assert kept.record("pay:1").state is State.UNKNOWN
    provider.let_go.set()
    for _ in range(200):
        if call() == provider.keys[0]:
            break
    assert kept.record("pay:1").state is State.COMPLETED
    assert (set(provider.keys), provider.effects["ORD-1"]) == ({provider.keys[0]}, 1)


@pytest.mark.parametrize(
    "declared, why",
    [(tools.pay_without_window, "not_resent"), (tools.pay_in_short_window, "key_over")],
    ids=["no window", "window over on arrival"],
)
def test_90_a_key_that_may_be_forgotten_sends_nothing_again(
    kept: ActionLedger, provider: Provider, declared: AnyTool, why: str
) -> None:
    """Case 90: the window is declared, or there is none; and what arrives after it is a new payment."""
    provider.fail(How.LOST)
    pay = calls_of(declared, kept)
    with pytest.raises(ConnectionError):
        pay(provider.url, "ORD-1", request_id="pay:1")
    with pytest.raises(LedgerHardBlockError) as blocked:
        pay(provider.url, "ORD-1", request_id="pay:1")
    assert blocked.value.why == why
    assert len(provider.requests) == 1


async def test_90_nor_does_a_worker(stage: Stage, provider: Provider) -> None:
    provider.fail(How.LOST, How.LOST)
    await stage.start(app=APP)
    declared = (tools.pay_without_window, tools.pay_in_short_window)
    jobs = [
        await stage.client.submit(kind.bind(url=provider.url, order=kind.name), request_id=kind.name)
        for kind in declared
    ]
    await until_async(lambda: stage.in_state([job.request_id for job in jobs], State.UNKNOWN))
    await until_async(lambda: looked_at_again(stage, tools.pay_in_short_window, "pay_in_short_window"))
    after = await stage.client.submit(tools.pay_keyed.bind(url=provider.url, order="after"), request_id="after")
    await after.result(10)
    assert provider.effects == {"pay_without_window": 1, "pay_in_short_window": 1, "after": 1}


def test_91_each_request_of_one_call_has_a_key_of_its_own_that_stays(kept: ActionLedger, provider: Provider) -> None:
    """Case 91: the second request does not get the first one's key, and a repeat sends both as before."""
    provider.fail(How.WELL, How.LOST)
    pay = calls_of(tools.reserve_and_pay, kept)
    with pytest.raises(ConnectionError):
        pay(provider.url, "ORD-1", request_id="pay:1")
    key = pay(provider.url, "ORD-1", request_id="pay:1")
    assert provider.keys == [f"{key}:reserve", f"{key}:pay"] * 2
    assert provider.effects == {"reserve ORD-1": 1, "pay ORD-1": 1}


@pytest.mark.parametrize("how", [How.LOST, How.BROKEN_AFTER])
def test_94_a_message_is_found_by_the_id_that_names_its_effect(
    kept: ActionLedger, provider: Provider, how: How
) -> None:
    """Cases 93 to 95: accepted, and then an error: unknown, found by its Message-ID, and not sent again."""
    provider.fail(how)
    mail = calls_of(tools.mail, kept)
    with pytest.raises((OSError, ProviderError)):
        mail(provider.url, "ORD-1", request_id="mail:1")
    assert kept.record("mail:1").state is State.UNKNOWN
    mail(provider.url, "ORD-1", request_id="mail:1")
    (request,) = provider.requests
    record = kept.record("mail:1")
    assert (record.state, record.ref) == (State.COMPLETED, request.body["what"])
    assert record.effect_id in record.ref


def test_94_a_second_attempt_has_the_first_ones_message_id(kept: ActionLedger, provider: Provider) -> None:
    """Case 94: not found, so it is sent once more; and whoever looks, finds both under one id."""
    provider.fail(How.BROKEN_BEFORE)
    mail = calls_of(tools.mail, kept)
    with pytest.raises(ProviderError):
        mail(provider.url, "ORD-1", request_id="mail:1")
    assert end_by_asking(lambda: mail(provider.url, "ORD-1", request_id="mail:1")) == "ORD-1"
    first, second = provider.requests
    assert first == second
    assert provider.effects.total() == 1


async def test_95_a_worker_that_died_in_between_changes_nothing(stage: Stage, provider: Provider) -> None:
    """Case 95: the reply is lost and the worker killed: what was sent is in the store, not in a process's memory."""
    provider.fail(How.HELD)
    first = await stage.start(app=APP)
    job = await stage.client.submit(tools.mail.bind(url=provider.url, order="ORD-1"), request_id="mail:1")
    await until(lambda: provider.requests)
    first.kill()
    await first.exited()
    provider.let_go.set()
    await stage.start(app=APP)
    assert await job.result(15) is not None
    record = await job.record()
    assert (len(provider.requests), record.attempts) == (1, 1)
    assert record.ref == provider.requests[0].body["what"]


async def test_97_a_caller_that_gives_no_key_sends_one(kept: ActionLedger, provider: Provider, stage: Stage) -> None:
    """Case 97: the runtime fills it in, in process and in a worker, and the effect names it."""
    assert calls_of(tools.pay_keyed, kept)(provider.url, "here", request_id="here") == provider.keys[0]
    assert kept.record("here").effect_id == provider.keys[0]
    await stage.start(app=APP)
    job = await stage.client.submit(tools.pay_keyed.bind(url=provider.url, order="there"), request_id="there")
    assert await job.result(10) == provider.keys[1] == (await job.record()).effect_id
    assert provider.keys[0] != provider.keys[1]
