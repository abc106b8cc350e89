"""Receipts in the ledger's own stream and in PostgreSQL, and the choice between all sinks."""

from __future__ import annotations

import asyncio
import dataclasses
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import psycopg
import pytest

from kit.fixtures import StartServer
from kit.ledger import connect
from kit.proxy import FaultProxy
from kit.receipts import KEYS, SECRET, receipt
from mycelium.leases.errors import ReceiptError, ServerUnavailableError, SettingsError
from mycelium.leases.store import Store, StoreSettings, open_store
from mycelium.ledger.receipts import Receipt, ReceiptFile, ReceiptStream, Tally, sink_of
from mycelium.ledger.receipts.stream import ReceiptItem, append_receipts_script
from mycelium.ledger.receipts.table import DDL, ReceiptTable


async def tally(source: ReceiptStream | ReceiptTable) -> tuple[int, int, int]:
    """Good, bad, repeated."""
    found = Tally(KEYS)
    async for line in source.lines():
        found.add(line)
    return found.good, sum(found.bad.values()), found.repeated


@pytest.fixture
async def store(url: str, namespace: str) -> AsyncIterator[Store]:
    store = await open_store(url, namespace=namespace)
    yield store
    await store.aclose()


@pytest.fixture
async def table(postgres_dsn: str) -> AsyncIterator[ReceiptTable]:
    table = ReceiptTable(postgres_dsn)
    await table.create_table()
    yield table
    await table.aclose()


async def test_a_receipt_that_is_emitted_again_is_in_the_stream_once(store: Store) -> None:
    await ReceiptStream(store).write([receipt("a"), receipt("a"), receipt("b")])
    await ReceiptStream(store).write([receipt("b")])
    assert await tally(ReceiptStream(store)) == (2, 0, 0)


async def test_many_receipts_come_back_in_their_order(store: Store) -> None:
    sent = [receipt(str(number)) for number in range(1_203)]
    await ReceiptStream(store).write(sent)
    assert [line.body async for line in ReceiptStream(store).lines()] == [one.body() for one in sent]


async def test_a_lost_reply_appends_nothing_twice(proxy: FaultProxy, namespace: str) -> None:
    store = await open_store(proxy.url, namespace=namespace, settings=StoreSettings(patience_s=20))
    try:
        await ReceiptStream(store).write([receipt("first")])
        arm = proxy.drop_close(append_receipts_script(receipt=[ReceiptItem("", b"")]).script.sha.encode())
        await ReceiptStream(store).write([receipt("a"), receipt("b")])
        await asyncio.wait_for(arm.fired.wait(), 5)
        assert arm.seen == 2
        assert await tally(ReceiptStream(store)) == (3, 0, 0)
    finally:
        await store.aclose()


async def test_what_was_trimmed_from_the_stream_does_not_come_back(store: Store) -> None:
    await ReceiptStream(store).write([receipt("a"), receipt("b")])
    await store.calls.read("XTRIM", store.keys.receipts(), "MAXLEN", 1)
    await ReceiptStream(store).write([receipt("a")])
    assert await tally(ReceiptStream(store)) == (1, 0, 0)


async def test_an_entry_that_somebody_else_put_there_is_bad(store: Store) -> None:
    await ReceiptStream(store).write([receipt("a")])
    for words in (("receipt", receipt("b").body()[:-1]), ("other", receipt("b").body())):
        await store.calls.read("XADD", store.keys.receipts(), "*", *words)
    assert await tally(ReceiptStream(store)) == (1, 2, 0)


async def test_a_server_that_is_full_refuses_and_keeps_nothing_of_the_batch(
    start_server: StartServer, namespace: str
) -> None:
    url = start_server().url
    store = await open_store(url, namespace=namespace, settings=StoreSettings(patience_s=0.2))
    try:
        with connect(url) as client:
            client.config_set("maxmemory", "1")
            with pytest.raises(ServerUnavailableError, match="did not run"):
                await ReceiptStream(store).write([receipt("a")])
            client.config_set("maxmemory", "0")
        assert await tally(ReceiptStream(store)) == (0, 0, 0)
    finally:
        await store.aclose()


async def test_a_receipt_that_is_emitted_again_is_in_the_table_once(table: ReceiptTable, postgres_dsn: str) -> None:
    other = ReceiptTable(postgres_dsn)
    await table.create_table()
    await asyncio.gather(*[sink.write([receipt("a"), receipt("a"), receipt("b")]) for sink in (table, other)])
    await table.write([])
    await other.aclose()
    assert await tally(table) == (2, 0, 0)


async def test_many_receipts_come_back_from_the_table_in_their_order(table: ReceiptTable) -> None:
    sent = [receipt(str(number), reason="“Café”") for number in range(2_003)]
    await table.write(sent)
    assert [line.body async for line in table.lines()] == [one.body() for one in sent]


async def test_many_that_make_the_table_at_once_all_find_it_there(postgres_dsn: str) -> None:
    tables = [ReceiptTable(postgres_dsn) for _ in range(8)]
    try:
        await asyncio.gather(*[table.create_table() for table in tables])
        await tables[0].write([receipt("a")])
        assert await tally(tables[1]) == (1, 0, 0)
    finally:
        for table in tables:
            await table.aclose()


async def test_a_row_under_another_id_or_with_another_body_is_bad(table: ReceiptTable, postgres_dsn: str) -> None:
    await table.write([receipt("a"), receipt("b"), receipt("c")])
    with psycopg.connect(postgres_dsn, autocommit=True) as connection:
        connection.execute(
            "UPDATE mycelium_receipts SET receipt_id = 'x' WHERE receipt_id = %s", [receipt("a").receipt_id]
        )
        connection.execute(
            "UPDATE mycelium_receipts SET body = replace(body, 'completed', 'failed') WHERE receipt_id = %s",
            [receipt("b").receipt_id],
        )
    assert await tally(table) == (1, 2, 0)


async def test_a_connection_that_the_server_ended_is_made_again(table: ReceiptTable, postgres_dsn: str) -> None:
    await table.write([receipt("a")])
    with psycopg.connect(postgres_dsn, autocommit=True) as connection:
        connection.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
            "WHERE application_name = 'mycelium' AND query LIKE '%mycelium_receipts%'"
        )
    await table.write([receipt("b")])
    assert await tally(table) == (2, 0, 0)


async def test_a_table_that_is_not_there_is_named_with_the_command_that_makes_it(postgres_dsn: str) -> None:
    table = ReceiptTable(postgres_dsn)
    with pytest.raises(ReceiptError, match=r"no table mycelium_receipts.*mycelium receipts create-table"):
        await table.write([receipt("a")])
    await table.aclose()


async def test_a_server_that_is_away_is_told_without_its_password() -> None:
    table = ReceiptTable("postgresql://ann:opensesame@127.0.0.1:1/books")
    with pytest.raises(ServerUnavailableError, match=r"at 127\.0\.0\.1:1/books cannot be reached") as away:
        await table.write([receipt("a")])
    assert "opensesame" not in f"{away.value!r} {away.value.__cause__!r}"
    with pytest.raises(SettingsError, match="cannot be read") as broken:
        ReceiptTable("postgresql://ann:opensesame@host:port/books?nonsense=opensesame")
    assert "opensesame" not in f"{broken.value!r} {broken.value.__cause__!r}"


async def test_no_sink_keeps_a_key(store: Store, table: ReceiptTable, tmp_path: Path) -> None:
    for sink in (ReceiptFile(tmp_path / "r"), ReceiptStream(store), table):
        await sink.write([receipt("a")])
    kept = [(tmp_path / "r").read_bytes()]
    kept += [line.body async for line in ReceiptStream(store).lines()]
    kept += [line.body async for line in table.lines()]
    assert len(set(kept)) == 2
    assert not [body for body in kept if SECRET in body or SECRET.hex().encode() in body]


async def test_the_address_chooses_the_sink(store: Store, tmp_path: Path) -> None:
    for address in (str(tmp_path / "r"), f"file://{tmp_path}/r", "r.jsonl", "./a:b"):
        assert isinstance(sink_of(address), ReceiptFile)
    sink = sink_of(f"file://{tmp_path}/a%20b")
    assert isinstance(sink, ReceiptFile)
    assert sink.path == tmp_path / "a b"
    assert isinstance(sink_of("redis:", store=store), ReceiptStream)
    assert isinstance(sink_of("postgresql://host/books"), ReceiptTable)
    assert isinstance(sink_of("postgres://host/books"), ReceiptTable)


@pytest.mark.parametrize(
    "address",
    [
        "",
        "redis://:opensesame@host:6379",
        "s3://opensesame",
        "mysql:opensesame",
        "file://host/opensesame",
        "file:",
        "redis:",
    ],
)
def test_another_address_is_refused_without_telling_it(address: str) -> None:
    with pytest.raises(SettingsError) as refused:
        sink_of(address)
    assert "opensesame" not in repr(refused.value)


def test_without_the_extra_the_refusal_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "psycopg", None)
    monkeypatch.delitem(sys.modules, "mycelium.ledger.receipts.table")
    with pytest.raises(SettingsError, match=r"pip install 'mycelium\[postgres\]'"):
        sink_of("postgresql://host/books")


def test_the_document_has_the_table_as_it_is_made_and_every_field() -> None:
    document = (Path(__file__).parents[2] / "docs" / "receipts.md").read_text(encoding="utf-8")
    assert DDL in document
    assert [field.name for field in dataclasses.fields(Receipt) if f"`{field.name}`" not in document] == []
