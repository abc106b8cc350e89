"""Submitting: what joins, what conflicts, what is refused, and how many round trips it takes."""

from __future__ import annotations

import asyncio
import functools
import math
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from kit.holder import holder, key_dump
from kit.shop import TOOLS, charge, look_up, refund
from mycelium.actors.client import Client, ClientSettings, connect
from mycelium.actors.job import Job
from mycelium.actors.submissions import CallOptions, Submission, tools_by_name
from mycelium.leases.errors import (
    BadArgumentsError,
    BadCallError,
    IdentityConflictError,
    MissingRequestIdentityError,
    MyceliumError,
    PayloadTooLargeError,
    ScriptError,
    SettingsError,
    UnknownToolError,
)
from mycelium.ledger.limits import Concurrency, Rate
from mycelium.ledger.line import Priority
from mycelium.ledger.states import State
from mycelium.ledger.submit import Retention


async def test_a_call_by_its_tool_and_by_name_is_the_same_call(url: str, namespace: str) -> None:
    async with connect(url, namespace=namespace, tools=TOOLS) as client:
        first = await client.submit(charge.bind("ORD-1", 10), request_id="charge:1")
        again = await client.submit(
            "charge", {"amount": 10, "order": "ORD-1", "currency": "EUR"}, request_id="charge:1"
        )
        assert (first.created, again.created) == (True, False)
        assert await again.state() is State.READY
        record = await again.record()
        assert (record.request_id, record.tool, record.attempts) == ("charge:1", "charge", 0)


async def test_another_call_under_the_same_id_is_refused_alone(url: str, namespace: str) -> None:
    async with connect(url, namespace=namespace, tools=TOOLS) as client:
        await client.submit(charge.bind("ORD-1"), request_id="one")
        before = await key_dump(client.store)
        calls = [charge.bind("ORD-1", 11), charge.bind("ORD-2"), look_up.bind("ORD-1")]
        for call in calls:
            with pytest.raises(IdentityConflictError, match="'one'") as refused:
                await client.submit(call, request_id="one")
            assert refused.value.state == State.READY
        together = await asyncio.gather(
            client.submit(charge.bind("ORD-1", 12), request_id="one"),
            client.submit(charge.bind("ORD-2"), request_id="two"),
            return_exceptions=True,
        )
        assert isinstance(together[0], IdentityConflictError)
        assert isinstance(together[1], Job)
        changed = {key for key, value in (await key_dump(client.store)).items() if before.get(key) != value}
        assert not any(b":row:one" in key or b":args:one" in key for key in changed)


async def test_a_run_derives_the_identity_and_the_models_id_takes_no_part(url: str, namespace: str) -> None:
    async with connect(url, namespace=namespace) as client:
        one = await client.submit(look_up.bind("A"), run_id="r1", step=3, tool_call_id="call_x")
        two = await client.submit(look_up.bind("A"), run_id="r1", step=3, tool_call_id="call_y")
        other = await client.submit(look_up.bind("A"), run_id="r1", step=3, ordinal=1, tool_call_id="call_x")
        assert (one.request_id, one.created, two.created) == (two.request_id, True, False)
        assert other.request_id != one.request_id
        record = await one.record()
        assert (record.about.run_id, record.about.step, record.about.tool_call_id) == ("r1", 3, "call_x")


async def test_a_key_that_the_caller_chose_is_sent_and_is_no_part_of_the_identity(url: str, namespace: str) -> None:
    async with connect(url, namespace=namespace) as client, holder(url, namespace, ["refund"]) as worker:
        await client.submit(refund.bind("A", key="mine"), request_id="refund:A")
        assert not (await client.submit(refund.bind("A"), request_id="refund:A")).created  # type: ignore[call-arg]
        [grant] = await worker.claim()
        assert grant.args == b'{"key":"mine","order":"A"}'


async def test_submits_of_many_coroutines_go_out_together(url: str, namespace: str) -> None:
    async with connect(url, namespace=namespace) as client:
        await client.submit(look_up.bind("first"), run_id="r")
        pipelines, sent = client.store.calls.pipelines, client.store.calls.sent
        jobs = await asyncio.gather(*[client.submit(look_up.bind(str(at)), run_id="r") for at in range(250)])
        assert client.store.calls.sent - sent == 3
        assert client.store.calls.pipelines - pipelines == 3
        assert len({job.request_id for job in jobs}) == 250


async def test_many_with_options_of_their_own_take_one_round_trip_a_hundred(url: str, namespace: str) -> None:
    in_a_day = datetime.now(UTC) + timedelta(days=1)
    submissions = [
        Submission(
            look_up.bind(str(at)),
            request_id=f"job-{at}",
            queue=f"q{at % 3}",
            priority=tuple(Priority)[at % 5],
            tenant=f"t{at % 7}",
            labels={"at": str(at)},
            limits=[Concurrency("order:{order}", 1), Rate("fleet", 1000)],
            deadline=in_a_day,
            start_by=60.0 + at,
            timeout_s=5.0,
            idle_timeout_s=1.0,
            delay_s=float(at % 2),
        )
        for at in range(250)
    ]
    async with connect(url, namespace=namespace) as client:
        await client.submit(look_up.bind("first"), run_id="r")
        pipelines, sent = client.store.calls.pipelines, client.store.calls.sent
        jobs = await client.submit_many(submissions)
        assert (client.store.calls.sent - sent, client.store.calls.pipelines - pipelines) == (3, 3)
        assert isinstance(jobs[249], Job)
        record = await jobs[249].record()
        assert (record.queue, record.priority, record.tenant) == ("q0", Priority.BACKGROUND, "t4")
        assert (record.state, record.about.labels) == (State.DELAYED, {"at": "249"})
        assert record.deadline_ms == round(in_a_day.timestamp() * 1000)
        assert record.start_by_ms == record.created_ms + 309_000


async def test_two_equal_calls_in_one_batch_are_one_job(url: str, namespace: str) -> None:
    async with connect(url, namespace=namespace) as client:
        jobs = await asyncio.gather(*[client.submit(look_up.bind("A"), request_id="same") for _ in range(5)])
        assert [job.created for job in jobs] == [True, False, False, False, False]
        assert await client.store.calls.read("ZCARD", client.store.keys.line("default:2:look_up:")) == 1


async def test_many_are_submitted_and_the_errors_are_entries(url: str, namespace: str) -> None:
    async with connect(url, namespace=namespace, tools=TOOLS) as client:
        await client.submit(charge.bind("ORD-1"), request_id="taken")
        await client.store.calls.read("SET", client.store.keys.row("not-ours"), "text")
        answers = await client.submit_many(
            [
                Submission(charge.bind("ORD-2"), request_id="a"),
                Submission("chrage", {}, request_id="b"),
                Submission(charge.bind("ORD-3"), request_id="taken"),
                Submission(charge.bind("ORD-4"), request_id="not-ours"),
                Submission("charge", {"order": "ORD-5"}, request_id="c"),
            ]
        )
        kinds = [type(answer) for answer in answers]
        assert kinds == [Job, UnknownToolError, IdentityConflictError, ScriptError, Job]
        assert [answer.request_id for answer in answers if isinstance(answer, Job)] == ["a", "c"]


async def test_a_delayed_job_waits_for_its_time(url: str, namespace: str) -> None:
    async with connect(url, namespace=namespace) as client:
        job = await client.submit(look_up.bind("A"), request_id="later", delay_s=3600)
        assert await job.state() is State.DELAYED


DEEP: object = functools.reduce(lambda inner, _: [inner], range(200), 1)  # type: ignore[arg-type, return-value]

BAD: list[tuple[str, object, dict[str, object] | None, CallOptions, type[MyceliumError]]] = [
    ("unknown tool", "chrage", {}, {"request_id": "x"}, UnknownToolError),
    ("no call", 5, None, {"request_id": "x"}, BadCallError),
    ("bound and arguments", charge.bind("A"), {"order": "A"}, {"request_id": "x"}, BadCallError),
    ("missing argument", "charge", {}, {"request_id": "x"}, BadArgumentsError),
    ("extra argument", "charge", {"order": "A", "tip": 1}, {"request_id": "x"}, BadArgumentsError),
    ("wrong type", "charge", {"order": "A", "amount": "ten"}, {"request_id": "x"}, BadArgumentsError),
    ("a list of arguments", "charge", ["A"], {"request_id": "x"}, BadArgumentsError),  # type: ignore[list-item]
    ("a number as a name", "charge", {1: "A"}, {"request_id": "x"}, BadArgumentsError),  # type: ignore[dict-item]
    ("NaN", "anything", {"value": math.nan}, {"request_id": "x"}, BadArgumentsError),
    ("infinity, inside", "anything", {"value": [{"a": math.inf}]}, {"request_id": "x"}, BadArgumentsError),
    ("lone surrogate", "anything", {"value": "\ud800"}, {"request_id": "x"}, BadArgumentsError),
    ("too deep", "anything", {"value": DEEP}, {"request_id": "x"}, BadArgumentsError),
    ("no JSON", "anything", {"value": object()}, {"request_id": "x"}, BadArgumentsError),
    ("an integer without end", "anything", {"value": 10**5000}, {"request_id": "x"}, BadArgumentsError),
    ("too large", "charge", {"order": "x" * (1 << 20)}, {"request_id": "x"}, PayloadTooLargeError),
    ("neither id nor run", "charge", {"order": "A"}, {}, MissingRequestIdentityError),
    ("blank id", "charge", {"order": "A"}, {"request_id": " "}, BadCallError),
    ("long id", "charge", {"order": "A"}, {"request_id": "x" * 257}, BadCallError),
    ("unprintable id", "charge", {"order": "A"}, {"request_id": "a\tb"}, BadCallError),
    ("surrogate id", "charge", {"order": "A"}, {"request_id": "\ud800"}, BadArgumentsError),
    ("id that is no text", "charge", {"order": "A"}, {"request_id": 7}, BadCallError),  # type: ignore[typeddict-item]
    ("blank run", "charge", {"order": "A"}, {"run_id": ""}, BadCallError),
    ("surrogate run", "charge", {"order": "A"}, {"run_id": "\udcff"}, BadCallError),
    ("negative step", "charge", {"order": "A"}, {"run_id": "r", "step": -1}, BadCallError),
    ("step that is a truth", "charge", {"order": "A"}, {"run_id": "r", "step": True}, BadCallError),
    ("surrogate hint", "charge", {"order": "A"}, {"request_id": "x", "tool_call_id": "\ud800"}, BadCallError),
    ("long hint", "charge", {"order": "A"}, {"request_id": "x", "tool_call_id": "x" * 1025}, BadCallError),
    ("negative delay", "charge", {"order": "A"}, {"request_id": "x", "delay_s": -1}, BadCallError),
    ("endless delay", "charge", {"order": "A"}, {"request_id": "x", "delay_s": math.inf}, BadCallError),
    ("NaN delay", "charge", {"order": "A"}, {"request_id": "x", "delay_s": math.nan}, BadCallError),
    (
        "no retention",
        "charge",
        {"order": "A"},
        {"request_id": "x", "retention": Retention(result=timedelta(milliseconds=1))},
        BadCallError,
    ),
    (
        "retention below the key window",
        "refund",
        {"order": "A"},
        {"request_id": "x", "retention": Retention(row=timedelta(hours=1))},
        BadCallError,
    ),
]


@pytest.fixture
async def client(url: str, namespace: str) -> Client:
    return await connect(url, namespace=namespace, tools=TOOLS)


@pytest.mark.parametrize("call,arguments,options,kind", [row[1:] for row in BAD], ids=[row[0] for row in BAD])
async def test_a_bad_call_is_refused_and_writes_nothing(
    client: Client, call: str, arguments: dict[str, object], options: CallOptions, kind: type[MyceliumError]
) -> None:
    async with client:
        before = await key_dump(client.store)
        assert list(before) == [client.store.keys.meta().encode()]
        with pytest.raises(BadCallError) as refused:
            await client.submit(call, arguments, **options)
        assert type(refused.value) is kind
        assert refused.value.next_step
        assert await key_dump(client.store) == before


async def test_an_unknown_tool_is_told_with_the_names_that_are_near(client: Client) -> None:
    async with client:
        with pytest.raises(UnknownToolError, match="Do you mean charge"):
            await client.submit("chrage", {"order": "A"}, request_id="x")


def test_the_limits_of_a_client_are_checked() -> None:
    broken: list[dict[str, Any]] = [{"poll_s": 0.0}, {"poll_s": math.nan}, {"max_args_bytes": 0}]
    for values in broken:
        with pytest.raises(SettingsError):
            ClientSettings(**values)
    with pytest.raises(BadCallError, match="no tool"):
        tools_by_name([len])  # type: ignore[list-item]


async def test_a_submit_that_is_cancelled_before_it_left_is_not_sent(client: Client) -> None:
    async with client:
        task = asyncio.create_task(client.submit(look_up.bind("A"), request_id="never"))
        other = asyncio.create_task(client.submit(look_up.bind("B"), request_id="sent"))
        asyncio.get_running_loop().call_soon(task.cancel)
        await other
        with pytest.raises(asyncio.CancelledError):
            await task
        rows = [client.store.keys.row(request_id) for request_id in ("never", "sent")]
        assert [await client.store.calls.read("EXISTS", row) for row in rows] == [0, 1]
