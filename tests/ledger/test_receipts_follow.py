"""Receipts follow the ledger: each outcome and each release has one, whoever follows and whatever dies meanwhile."""

from __future__ import annotations

import asyncio
import logging
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from kit.holder import Holder, holder
from kit.receipts import KEYS, SECRET, facts, kept
from kit.servers import RealServer
from mycelium.leases.errors import ReceiptError, ScriptError
from mycelium.leases.store import Store, StoreSettings, open_store
from mycelium.ledger.binding import Binding
from mycelium.ledger.canon import canonical
from mycelium.ledger.identity import identify
from mycelium.ledger.receipts import (
    Follower,
    FollowReport,
    OnFailure,
    Receipt,
    ReceiptFile,
    ReceiptWriter,
    receipts_to,
    run_once,
)
from mycelium.ledger.receipts.table import ReceiptTable
from mycelium.ledger.release import Verified, release
from mycelium.ledger.states import EffectClass, Settle
from mycelium.ledger.submit import Intent, submit
from mycelium.ledger.sweep import expire
from mycelium.ledger.verdict import Said, due, record_if_unknown

WRITE, READ = EffectClass.NON_IDEMPOTENT_MUTATE, EffectClass.READ
LATER_MS = 4_102_444_800_000
"""The year 2100: every session has lapsed."""

EVERY_WAY = [
    ("asked", "settled", "completed"),
    ("asked", "settled", "unknown"),
    ("done", "settled", "completed"),
    ("failed", "settled", "failed"),
    ("late", "settled", "completed"),
    ("late", "settled", "unknown"),
    ("lost", "settled", "unknown"),
    ("released", "released", "completed"),
    ("released", "settled", "completed"),
    ("released", "settled", "unknown"),
    ("rerun", "released", "ready"),
    ("rerun", "settled", "completed"),
    ("rerun", "settled", "unknown"),
    ("worn", "settled", "dead"),
]
"""What `settle_in_every_way` leaves behind."""


async def settle_in_every_way(url: str, namespace: str) -> None:
    """By a turn, late, by a verdict, by a person, and by the sweep."""
    async with holder(url, namespace, ["t"]) as worker:
        for name in ("asked", "done", "failed", "late", "released", "rerun"):
            await put(worker, name)
        await put(worker, "worn", READ)
        grants = {grant.request_id: grant for grant in await worker.claim()}
        await worker.settle(grants["done"], Settle.COMPLETED, body=b'"hunter"')
        await worker.settle(grants["failed"], Settle.FAILED, body=b'{"detail":"hunter"}', error="Declined")
        await worker.settle(grants["worn"], Settle.RETRY, error="Away")
        for name in ("asked", "late", "released", "rerun"):
            await worker.settle(grants[name], Settle.UNKNOWN, error="Timeout")
        await worker.settle(grants["late"], Settle.COMPLETED, body=b"1")
        doubts = {doubt.request_id: doubt for doubt in await due(worker.store.calls, ["t"], page=10, put_off_s=0.0)}
        await record_if_unknown(worker.store.calls, doubts["asked"], Said.COMPLETED, by="test", body=b"2")
        happened, reason = Verified.COMPLETED, "seen in the book"
        await release(worker.store, "released", verified=happened, result=None, by="ann", reason=reason)
        await release(worker.store, "rerun", verified=Verified.NOT_EXECUTED, by="bob", reason="not in the book")
        [again] = await worker.claim()
        await worker.complete(again, 3)
        await put(worker, "lost")
        await worker.claim()
        later = await open_store(url, namespace=namespace, settings=StoreSettings(now_ms=LATER_MS))
        await expire(later, worker.session.id)
        await later.aclose()


async def put(worker: Holder, name: str, effect_class: EffectClass = WRITE) -> None:
    """Submit one job, with a secret in its arguments."""
    args = canonical({"card": f"opensesame-{name}"})
    identity = identify("t", effect_class, args, request_id=name, namespace=worker.store.keys.namespace)
    binding = Binding(effect_class=effect_class, max_attempts=1 if effect_class is READ else 3)
    await submit(worker.store.calls, [Intent(identity=identity, tool="t", binding=binding)])


async def complete(worker: Holder, *names: str) -> None:
    """Submit and complete jobs, one event each."""
    for name in names:
        await put(worker, name)
        [grant] = await worker.claim()
        await worker.complete(grant, name)


class Sink:
    """Somebody's own: it does something before it keeps what it gets, or instead."""

    def __init__(self, before: Callable[[], Awaitable[object]] | None = None) -> None:
        self.before = before
        self.kept: list[Receipt] = []

    async def write(self, receipts: Sequence[Receipt]) -> None:
        if self.before is not None:
            await self.before()
        self.kept += receipts

    async def aclose(self) -> None: ...


async def away() -> None:
    """The sink of the moment."""
    raise ReceiptError("The disk is full.", next_step="Mend it.")


@pytest.fixture
async def store(url: str, namespace: str) -> AsyncIterator[Store]:
    store = await open_store(url, namespace=namespace)
    yield store
    await store.aclose()


@pytest.fixture(params=["file", "stream", "table"])
async def address(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Where receipts go: each kind of sink in turn."""
    if request.param == "file":
        return str(tmp_path / "receipts.jsonl")
    if request.param == "stream":
        return "redis:"
    dsn: str = request.getfixturevalue("postgres_dsn")
    table = ReceiptTable(dsn)
    await table.create_table()
    await table.aclose()
    return dsn


async def followed(store: Store, address: str, *, page: int = 3) -> FollowReport:
    """Follow once, into an address."""
    writer = receipts_to(address, keys=KEYS)(store)
    try:
        return await run_once(store, writer, page=page)
    finally:
        await writer.aclose()


async def test_whatever_a_call_comes_to_by_whatever_way_has_one_receipt(
    url: str, namespace: str, store: Store, address: str
) -> None:
    await settle_in_every_way(url, namespace)
    report = await followed(store, address)
    found = await kept(address, store)
    assert facts(found) == EVERY_WAY
    assert (report.written, report.missed, report.lost) == (len(EVERY_WAY), 0, 0)
    assert await followed(store, address) == FollowReport()
    assert facts(await kept(address, store)) == EVERY_WAY
    people = {(one.request_id, one.by, one.reason) for one in found if one.by}
    assert people == {("released", "ann", "seen in the book"), ("rerun", "bob", "not in the book")}
    body = b"".join(one.body() for one in found)
    assert not [secret for secret in (b"opensesame", b"hunter", SECRET, SECRET.hex().encode()) if secret in body]


async def test_what_settles_later_is_followed_from_where_it_was_left(
    url: str, namespace: str, store: Store, address: str
) -> None:
    async with holder(url, namespace, ["t"]) as worker:
        await complete(worker, "a", "b")
        assert (await followed(store, address)).written == 2
        await complete(worker, "c")
        assert (await followed(store, address)).written == 1
    assert [one.request_id for one in await kept(address, store)] == ["a", "b", "c"]


KILLED = """  # killed when the sink has taken the third batch, before the place moves
import asyncio, os, signal, sys
sys.path.insert(0, sys.argv[1])
from kit.receipts import KEYS
from mycelium.leases.store import open_store
from mycelium.ledger.receipts import ReceiptWriter, run_once, sink_of

class Deadly:
    def __init__(self, sink): self.sink, self.left = sink, 3
    async def write(self, receipts):
        await self.sink.write(receipts)
        self.left -= 1
        if not self.left: os.kill(os.getpid(), signal.SIGKILL)

async def follow(url, namespace, address):
    store = await open_store(url, namespace=namespace)
    await run_once(store, ReceiptWriter(KEYS.signer, Deadly(sink_of(address, store=store))), page=4)

asyncio.run(follow(*sys.argv[2:]))
"""


async def test_a_follower_that_is_killed_between_sink_and_place_costs_and_doubles_nothing(
    url: str, namespace: str, store: Store, address: str
) -> None:
    await settle_in_every_way(url, namespace)
    command = [sys.executable, "-P", "-c", KILLED, str(Path(__file__).parents[1]), url, namespace, address]
    run = await asyncio.to_thread(subprocess.run, command, capture_output=True, text=True, check=False)
    assert run.returncode == -signal.SIGKILL, run.stderr
    before = facts(await kept(address, store))
    assert before
    assert before != EVERY_WAY
    report = await followed(store, address, page=100)
    assert facts(await kept(address, store)) == EVERY_WAY
    assert len(EVERY_WAY) > report.written > len(EVERY_WAY) - len(before), "the last page came again, no other did"


async def test_several_followers_at_once_write_one_receipt_each(
    url: str, namespace: str, store: Store, address: str
) -> None:
    await settle_in_every_way(url, namespace)
    other = await open_store(url, namespace=namespace)
    reports = await asyncio.gather(*[followed(one, address, page=1) for one in (store, other, store, other)])
    await other.aclose()
    assert facts(await kept(address, store)) == EVERY_WAY
    assert sum(report.lost + report.missed for report in reports) == 0


async def test_a_follower_that_was_overtaken_moves_nothing_back(
    url: str, namespace: str, store: Store, tmp_path: Path
) -> None:
    address = str(tmp_path / "receipts")
    async with holder(url, namespace, ["t"]) as worker:
        await complete(worker, "a", "b", "c")
    slow = Sink(before=lambda: followed(store, address))
    report = await run_once(store, ReceiptWriter(KEYS.signer, slow), page=3)
    assert facts(slow.kept) == [("a", "settled", "completed")], "it went on behind the one that had overtaken it"
    assert report.written == 1
    assert (await followed(store, address)).events == 0


async def test_the_place_survives_a_restart_of_the_server(
    durable_server: RealServer, namespace: str, tmp_path: Path
) -> None:
    address = str(tmp_path / "receipts")
    async with holder(durable_server.url, namespace, ["t"]) as worker:
        await complete(worker, "a")
        assert (await followed(worker.store, address)).written == 1
    await durable_server.restart_async()
    async with holder(durable_server.url, namespace, ["t"]) as worker:
        assert await followed(worker.store, address) == FollowReport()
        await complete(worker, "b")
        assert (await followed(worker.store, address)).written == 1
        assert [one.request_id for one in await kept(address, worker.store)] == ["a", "b"]


@pytest.mark.parametrize("left", [4, 0])
async def test_events_that_were_dropped_too_early_are_counted_and_said_loudly_once(
    left: int, url: str, namespace: str, store: Store, caplog: pytest.LogCaptureFixture
) -> None:
    sink = Sink()
    writer = ReceiptWriter(KEYS.signer, sink)
    async with holder(url, namespace, ["t"]) as worker:
        await complete(worker, "a")
        await run_once(store, writer)
        await complete(worker, "b", "c", "d")
        seen: Any = await store.calls.read("XLEN", store.keys.events())
        await store.calls.read("XTRIM", store.keys.events(), "MAXLEN", left)
        with caplog.at_level(logging.ERROR):
            report = await run_once(store, writer)
            assert await run_once(store, writer) == FollowReport()
        # Each call is as many events as the first, which was followed; and of the others so many are left.
        assert report.lost == seen - seen // 4 - left
        [line] = [record.getMessage() for record in caplog.records if record.levelno == logging.ERROR]
        assert f"dropped {report.lost} events after number {seen // 4}" in line
        await complete(worker, "e")
        await run_once(store, writer)
    assert [one.request_id for one in sink.kept] == ["a", *(["d"] if left else []), "e"]


async def test_a_hole_in_the_middle_is_noticed_too(url: str, namespace: str, store: Store) -> None:
    async with holder(url, namespace, ["t"]) as worker:
        await complete(worker, "a", "b")
    entries: Any = await store.calls.read("XRANGE", store.keys.events(), "-", "+")
    await store.calls.read("XDEL", store.keys.events(), entries[1][0], entries[2][0])
    report = await run_once(store, ReceiptWriter(KEYS.signer, Sink()))
    assert (report.written, report.lost) == (2, 2)


async def test_while_the_sink_is_away_the_place_stands_and_afterwards_all_is_caught_up(
    url: str, namespace: str, store: Store, caplog: pytest.LogCaptureFixture
) -> None:
    sink = Sink(away)
    follower = Follower(store, ReceiptWriter(KEYS.signer, sink))
    async with holder(url, namespace, ["t"]) as worker:
        with caplog.at_level(logging.INFO, logger="mycelium.ledger.receipts"):
            for name in ("a", "b", "c"):
                await complete(worker, name)
                assert await follower.step() == FollowReport()
            sink.before = None
            await follower.step()
            await follower.step()
    assert [one.request_id for one in sink.kept] == ["a", "b", "c"]
    told = [(record.levelname, record.getMessage()) for record in caplog.records]
    assert [line for line in told if "receipts" in line[1]] == [
        ("ERROR", "receipts wait: The disk is full. Mend it."),
        ("INFO", "receipts are written again: 3"),
    ]


async def test_a_batch_may_be_given_up_instead(url: str, namespace: str, store: Store) -> None:
    sink = Sink(away)
    writer = ReceiptWriter(KEYS.signer, sink, OnFailure.WARN)
    async with holder(url, namespace, ["t"]) as worker:
        await complete(worker, "a", "b")
        assert (await run_once(store, writer)).missed == 2
        sink.before = None
        await complete(worker, "c")
        await run_once(store, writer)
    assert [one.request_id for one in sink.kept] == ["c"]


async def test_a_row_that_is_gone_is_missed_and_keeps_nothing_back(
    url: str, namespace: str, store: Store, caplog: pytest.LogCaptureFixture
) -> None:
    sink = Sink()
    writer = ReceiptWriter(KEYS.signer, sink)
    async with holder(url, namespace, ["t"]) as worker:
        await complete(worker, "a", "b", "c")
    await store.calls.read("DEL", store.keys.row("a"))
    await store.calls.read("HSET", store.keys.row("b"), "state", "nonsense")
    report = await run_once(store, writer)
    assert (report.written, report.missed) == (1, 2)
    assert await run_once(store, writer) == FollowReport()
    lines = [record.getMessage() for record in caplog.records if "cannot be made" in record.getMessage()]
    assert [line.split(":")[0] for line in lines] == ["2 receipts cannot be made, of a, b"]
    assert [one.request_id for one in sink.kept] == ["c"]


async def test_what_somebody_else_put_among_the_events_is_passed_over(url: str, namespace: str, store: Store) -> None:
    sink = Sink()
    async with holder(url, namespace, ["t"]) as worker:
        await complete(worker, "a")
        for words in (("x", "y"), ("seq", "-1", "at", "0"), ("seq", "1", "at", "1", "moves", "nothing\tat all")):
            await store.calls.read("XADD", store.keys.events(), "*", *words)
        await complete(worker, "b")
        await run_once(store, ReceiptWriter(KEYS.signer, sink), page=1)
    assert [one.request_id for one in sink.kept] == ["a", "b"]


async def test_a_place_that_is_none_of_ours_is_refused_and_told(store: Store, caplog: pytest.LogCaptureFixture) -> None:
    await store.calls.read("HSET", store.keys.meta(), "followed", "nonsense")
    writer = ReceiptWriter(KEYS.signer, Sink())
    with pytest.raises(ScriptError, match="Delete the field `followed`"):
        await run_once(store, writer)
    assert await Follower(store, writer).step() == FollowReport()
    assert [record.levelname for record in caplog.records if "receipts wait" in record.getMessage()] == ["ERROR"]


async def test_a_defect_in_a_sink_or_in_ours_reaches_nobody(url: str, namespace: str, store: Store) -> None:
    async with holder(url, namespace, ["t"]) as worker:
        await complete(worker, "a")

    class Broken(ReceiptWriter):
        async def write(self, receipts: Sequence[Receipt]) -> int:
            raise ZeroDivisionError

    assert await Follower(store, Broken(KEYS.signer, Sink())).step() == FollowReport()


async def test_the_last_step_writes_what_is_left_and_waits_for_no_sink_for_ever(
    url: str, namespace: str, store: Store, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with holder(url, namespace, ["t"]) as worker:
        await complete(worker, "a")
    hanging = Sink(asyncio.Event().wait)
    await Follower(store, ReceiptWriter(KEYS.signer, hanging)).aclose(within_s=0.05)
    assert "not caught up within 0.05 s" in caplog.text
    path = tmp_path / "receipts"
    await Follower(store, ReceiptWriter(KEYS.signer, ReceiptFile(path))).aclose()
    assert facts(await kept(str(path), store)) == [("a", "settled", "completed")]


async def test_a_ledger_that_is_away_is_waited_for(
    durable_server: RealServer, namespace: str, caplog: pytest.LogCaptureFixture
) -> None:
    sink = Sink()
    async with holder(durable_server.url, namespace, ["t"]) as worker:
        await complete(worker, "a")
    store = await open_store(durable_server.url, namespace=namespace, settings=StoreSettings(patience_s=0.2))
    follower = Follower(store, ReceiptWriter(KEYS.signer, sink))
    durable_server.kill()
    assert await follower.step() == FollowReport()
    await durable_server.restart_async()
    await follower.step()
    await store.aclose()
    assert facts(sink.kept) == [("a", "settled", "completed")]
    assert [record.levelname for record in caplog.records if "receipts put off" in record.getMessage()] == ["WARNING"]
