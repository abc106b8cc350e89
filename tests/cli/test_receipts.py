"""`mycelium receipts`: what is verified, made again and refused, for people and as JSON."""

from __future__ import annotations

import asyncio
import json
import os
import pty
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import psycopg
import pytest
from typer.testing import CliRunner, Result

from kit.holder import holder
from kit.receipts import KEY, KEYS, SECRET, receipt
from mycelium.cli.main import app
from mycelium.leases.store import open_store
from mycelium.ledger.binding import Binding
from mycelium.ledger.canon import canonical
from mycelium.ledger.identity import identify
from mycelium.ledger.receipts import Receipt, ReceiptFile, ReceiptStream, read_row, receipts_of
from mycelium.ledger.states import EffectClass, Settle
from mycelium.ledger.submit import Intent, submit

WITH_KEY = {"MYCELIUM_RECEIPT_KEY": KEY}


def invoke(*args: object, stdin: bytes = b"", **environ: str) -> Result:
    return CliRunner().invoke(app, ["receipts", *map(str, args)], input=stdin, env=WITH_KEY | environ)


def told(*args: object, code: int = 0, **environ: str) -> dict[str, Any]:
    result = invoke(*args, "--json", stdin=b"", **environ)
    assert result.exit_code == code, result.output
    document: dict[str, Any] = json.loads(result.stdout)
    return document


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "receipts.jsonl"
    asyncio.run(ReceiptFile(path).write([receipt("a"), receipt("b")]))
    return path


async def _settled(url: str, namespace: str, ids: Sequence[str]) -> list[Receipt]:
    """Leave jobs of one tool completed, one of another ready, and give their receipts."""
    async with holder(url, namespace, ["look"]) as worker:
        for name in (*ids, "open"):
            tool = "look" if name in ids else "wait"
            args = canonical({"card": f"opensesame-{name}"})
            identity = identify(tool, EffectClass.READ, args, request_id=name, namespace=namespace)
            await submit(worker.store.calls, [Intent(identity=identity, tool=tool, binding=Binding())])
        for grant in await worker.claim():
            await worker.settle(grant, Settle.COMPLETED, body=b'"hunter"')
        rows = [await read_row(worker.store, name) for name in ids]
    return [KEYS.signer.sign(one) for row in rows for one in receipts_of(row)]


def settled(url: str, namespace: str, *ids: str) -> list[Receipt]:
    return asyncio.run(_settled(url, namespace, ids))


def test_good_receipts_are_counted_and_leave_no_other_word(path: Path) -> None:
    result = invoke("verify", path)
    assert (result.exit_code, result.stdout) == (0, "2 good, 0 bad, 0 repeated, 0 torn\n")
    assert told("verify", path) == {"good": 2, "bad": 0, "torn": 0, "repeated": 0, "verdicts": {}, "flaws": []}


def test_each_bad_receipt_is_named_with_its_place(path: Path) -> None:
    text = path.read_text().replace('"tool":"charge"', '"tool":"refund"', 1)
    path.write_text(text + "nonsense\n" + receipt("a").body().decode()[:300])
    result = invoke("verify", path)
    assert result.exit_code == 1
    assert result.stdout.splitlines() == [
        f"line 1: bad_signature  receipt {receipt('a').receipt_id}  request a  key key-1",
        "line 3: malformed",
        "1 good, 2 bad, 0 repeated, 1 torn",
    ]
    document = told("verify", path, code=1)
    assert document["verdicts"] == {"bad_signature": 1, "malformed": 1}
    assert document["flaws"][0] == {
        "where": "line 1",
        "verdict": "bad_signature",
        "receipt_id": receipt("a").receipt_id,
        "request_id": "a",
        "key_id": "key-1",
    }


def test_what_a_terminal_would_act_on_is_escaped(path: Path) -> None:
    path.write_bytes(receipt("\x1b[2J").body().replace(b'"attempt":1', b'"attempt":2') + b"\n")
    result = invoke("verify", path)
    assert "\x1b" not in result.output
    assert "request \\x1b[2J" in result.stdout


def test_a_killed_writers_half_line_is_told_and_is_no_fault(path: Path) -> None:
    path.write_bytes(path.read_bytes() + receipt("c").body()[:100])
    assert invoke("verify", path).stdout == "2 good, 0 bad, 0 repeated, 1 torn\n"


def test_receipts_come_through_a_pipe_too(path: Path) -> None:
    result = invoke("verify", "-", stdin=path.read_bytes() * 2)
    assert (result.exit_code, result.stdout) == (0, "2 good, 0 bad, 2 repeated, 0 torn\n")


def test_a_wrong_key_an_unknown_key_and_a_changed_key_are_told_apart(path: Path, tmp_path: Path) -> None:
    keys = tmp_path / "keys"
    for written, verdicts in (
        (f"key-1:{'00' * 32}", {"bad_signature": 2}),
        (f"key-2:{SECRET.hex()}", {"unknown_key": 2}),
        (f"key-2:{'00' * 32}\n{KEY}", {}),
    ):
        keys.write_text(written)
        document = told("verify", path, "--key-file", keys, code=int(bool(verdicts)), MYCELIUM_RECEIPT_KEY="")
        assert document["verdicts"] == verdicts


@pytest.mark.parametrize(
    "args, why",
    [
        (["verify", "nowhere.jsonl"], "cannot be read: No such file"),
        (["verify", "."], "cannot be read: Is a directory"),
        (["verify", "s3://bucket"], "no address for receipts"),
        (["verify", "x", "--key-file", "nowhere"], "key file nowhere cannot be read"),
        (["issue", "--to", "x"], "Neither a request id nor --since"),
        (["issue", "--to", "x", "--since", "yesterday"], "'yesterday' is no age"),
        (["create-table", "x"], "not the address of a PostgreSQL server"),
    ],
)
def test_wrong_usage_is_refused_with_what_to_do(args: list[str], why: str) -> None:
    result = invoke(*args)
    assert result.exit_code == 2
    assert why in result.stderr
    assert json.loads(invoke(*args, "--json").stderr)["error"]["next_step"]


def test_without_a_key_nothing_is_verified(path: Path) -> None:
    result = invoke("verify", path, MYCELIUM_RECEIPT_KEY="")
    assert result.exit_code == 2
    assert "no receipt key. Nothing was verified. Ask who signed them for the key" in result.stderr
    assert "no receipt key. Make one: " in invoke("issue", "a", "--to", path, MYCELIUM_RECEIPT_KEY="").stderr
    assert invoke("verify", MYCELIUM_RECEIPTS="").exit_code == 2


def test_a_server_that_is_away_has_its_own_exit_code() -> None:
    result = invoke("verify", "postgresql://ann:opensesame@127.0.0.1:1/books")
    assert result.exit_code == 3
    assert "opensesame" not in result.output


def test_receipts_of_named_jobs_are_made_again_once_with_neither_arguments_nor_result(
    url: str, namespace: str, tmp_path: Path
) -> None:
    expected = settled(url, namespace, "a", "b")
    place = ["--url", url, "--namespace", namespace, "--to", tmp_path / "r"]
    assert invoke("issue", "a", *place).stdout == "Receipts: 1 new, 0 there before.\n"
    assert invoke("issue", "a", "b", *place).stdout == "Receipts: 1 new, 1 there before.\n"
    document = told("issue", "b", *place)
    assert (document["new"], document["there"]) == (0, 1)
    assert document["receipts"] == [{"receipt_id": expected[1].receipt_id, "kind": "settled", "request_id": "b"}]
    body = (tmp_path / "r").read_bytes()
    assert [Receipt.read(line) for line in body.splitlines()] == expected
    assert not [word for word in (b"opensesame", b"hunter", SECRET, SECRET.hex().encode()) if word in body]


def test_a_job_that_is_open_or_not_on_record_has_no_receipt_and_nothing_is_written(
    url: str, namespace: str, tmp_path: Path
) -> None:
    settled(url, namespace, "a")
    place = ["--url", url, "--namespace", namespace, "--to", tmp_path / "r"]
    result = invoke("issue", "a", "open", *place)
    assert (result.exit_code, "has not settled" in result.stderr) == (1, True)
    assert invoke("issue", "a", "nothing", *place).exit_code == 4
    assert not (tmp_path / "r").exists()


def test_all_that_settled_lately_goes_into_the_ledgers_own_stream(url: str, namespace: str) -> None:
    expected = settled(url, namespace, "a", "b", "c")
    place = ["--url", url, "--namespace", namespace]
    for new in (3, 0):
        document = told("issue", "--since", "1h", "--to", "redis:", *place)
        assert (len(document["receipts"]), document["new"], document["there"]) == (3, new, 3 - new)
    assert told("verify", "redis:", *place)["good"] == 3

    async def kept() -> list[Receipt]:
        store = await open_store(url, namespace=namespace)
        try:
            return [Receipt.read(line.body) async for line in ReceiptStream(store).lines()]
        finally:
            await store.aclose()

    assert {one.receipt_id: one for one in asyncio.run(kept())} == {one.receipt_id: one for one in expected}
    assert told("issue", "--since", "0s", "--to", "redis:", *place)["receipts"] == []


def test_a_row_whose_history_does_not_reach_back_is_told_and_holds_up_no_other(
    url: str, namespace: str, tmp_path: Path
) -> None:
    settled(url, namespace, "a", "b")

    async def forget() -> None:
        store = await open_store(url, namespace=namespace)
        record = (await read_row(store, "a")).record
        last = record.history[-1].number
        await store.calls.read("HSET", store.keys.row("a"), f"h{last}", f"{record.changed_ms} note 1 stale")
        await store.aclose()

    asyncio.run(forget())
    place = ["--url", url, "--namespace", namespace, "--to", tmp_path / "r"]
    result = invoke("issue", "--since", "1h", *place)
    assert result.exit_code == 1
    assert "history of transition 'a' does not reach back" in result.stderr
    assert [Receipt.read(line).request_id for line in (tmp_path / "r").read_bytes().splitlines()] == ["b"]


def test_a_late_fact_does_not_make_an_old_outcome_a_new_one(url: str, namespace: str) -> None:
    settled(url, namespace, "a")

    async def age() -> None:
        store = await open_store(url, namespace=namespace)
        record = (await read_row(store, "a")).record
        last = record.history[-1]
        old = f"1000 {last.what} {last.fence} {last.why}"
        late = f"{last.at_ms} note 1 stale"
        key = store.keys.row("a")
        await store.calls.read("HSET", key, f"h{last.number}", old, f"h{last.number + 1}", late, "n", last.number + 1)
        await store.aclose()

    asyncio.run(age())
    place = ["--url", url, "--namespace", namespace, "--to", "redis:"]
    assert told("issue", "--since", "1h", *place)["receipts"] == []
    assert len(told("issue", "a", *place)["receipts"]) == 1


def test_following_once_writes_all_up_to_now_and_tells_what_it_missed(url: str, namespace: str, tmp_path: Path) -> None:
    expected = settled(url, namespace, "a", "b", "c")
    place = ["--once", "--url", url, "--namespace", namespace, "--to", tmp_path / "r"]
    result = invoke("follow", *place)
    assert (result.exit_code, result.output.split(" followed, ")[1]) == (
        0,
        "3 receipts are kept, 0 could not be made, 0 events were dropped before.\n",
    )
    assert [Receipt.read(line) for line in (tmp_path / "r").read_bytes().splitlines()] == expected
    assert told("follow", *place) == {"events": 0, "written": 0, "missed": 0, "lost": 0}

    async def forget() -> None:
        store = await open_store(url, namespace=namespace)
        await store.calls.read("DEL", store.keys.events(), store.keys.row("a"))
        await store.aclose()

    settled(url, namespace, "d")
    asyncio.run(forget())
    assert told("follow", *place, code=1)["lost"] > 0


def test_a_sink_that_is_away_ends_following_once_and_moves_nothing(url: str, namespace: str, tmp_path: Path) -> None:
    settled(url, namespace, "a")
    place = ["--once", "--url", url, "--namespace", namespace, "--to"]
    held = tmp_path / "held"
    held.symlink_to(tmp_path / "none" / "r")
    result = invoke("follow", *place, held)
    assert (result.exit_code, "cannot be written: No such file" in result.stderr) == (1, True)
    assert told("follow", *place, tmp_path / "r")["written"] == 1


def test_a_file_that_could_not_be_written_is_refused_at_once_and_not_with_the_first_receipt(
    url: str, namespace: str, tmp_path: Path
) -> None:
    place = ["--url", url, "--namespace", namespace, "--to"]
    command = [sys.executable, "-P", "-m", "mycelium", "receipts", "follow", *place, str(tmp_path / "none" / "r")]
    follows = subprocess.run(
        command, capture_output=True, text=True, env=os.environ | WITH_KEY, check=False, timeout=60
    )
    assert (follows.returncode, "none of the receipt file is not there" in follows.stderr) == (2, True)
    for verb in (["follow", "--once"], ["issue", "a"]):
        result = invoke(*verb, *place, tmp_path / "none" / "r")
        assert (result.exit_code, "none of the receipt file is not there" in result.stderr) == (2, True)
        assert invoke(*verb, *place, tmp_path).exit_code == 2


def test_a_second_address_gets_what_comes_from_now_on_and_is_filled_by_hand(
    url: str, namespace: str, tmp_path: Path
) -> None:
    settled(url, namespace, "a", "b")
    place = ["--url", url, "--namespace", namespace, "--to"]
    assert told("follow", "--once", *place, tmp_path / "first")["written"] == 2
    assert told("follow", "--once", *place, tmp_path / "second")["written"] == 0
    assert told("issue", "--since", "1h", *place, tmp_path / "second")["new"] == 2


def test_a_follower_of_its_own_goes_on_until_it_is_told_to_stop(url: str, namespace: str, tmp_path: Path) -> None:
    settled(url, namespace, "a")
    path = tmp_path / "r"
    command = [sys.executable, "-P", "-m", "mycelium", "receipts", "follow", "--url", url, "--namespace", namespace]
    with subprocess.Popen([*command, "--to", str(path)], stderr=subprocess.PIPE, env=os.environ | WITH_KEY) as process:
        assert process.stderr is not None
        begun = process.stderr.readline()
        while begun and b"following the ledger" not in begun:
            begun = process.stderr.readline()
        settled(url, namespace, "b")
        process.terminate()
        log = process.stderr.read()
    assert process.returncode == 0
    assert [Receipt.read(line).request_id for line in path.read_bytes().splitlines()] == ["a", "b"]
    assert SECRET.hex().encode() not in log


def test_a_table_is_made_filled_and_verified(url: str, namespace: str, postgres_dsn: str) -> None:
    settled(url, namespace, "a", "b")
    place = ["--url", url, "--namespace", namespace]
    result = invoke("issue", "a", *place, MYCELIUM_RECEIPTS=postgres_dsn)
    assert (result.exit_code, "mycelium receipts create-table" in result.stderr) == (1, True)
    assert invoke("create-table", MYCELIUM_RECEIPTS=postgres_dsn).exit_code == 0
    assert told("create-table", postgres_dsn) == {"table": "mycelium_receipts"}
    for new in (2, 0):
        assert told("issue", "a", "b", "a", *place, MYCELIUM_RECEIPTS=postgres_dsn)["new"] == new
    assert told("verify", MYCELIUM_RECEIPTS=postgres_dsn)["good"] == 2
    with psycopg.connect(postgres_dsn, autocommit=True) as connection:
        connection.execute("UPDATE mycelium_receipts SET body = replace(body, 'look', 'lock') WHERE number = 2")
    document = told("verify", postgres_dsn, code=1)
    assert [flaw["where"] for flaw in document["flaws"]] == ["row 2"]


def test_a_long_file_shows_its_progress_on_a_terminal_alone(path: Path) -> None:
    path.write_bytes(path.read_bytes() * 2000)
    ours, theirs = pty.openpty()
    command = [sys.executable, "-P", "-m", "mycelium", "receipts", "verify", str(path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=theirs, env=os.environ | WITH_KEY) as process:
        os.close(theirs)
        assert process.stdout is not None
        output = process.stdout.read()
        shown = os.read(ours, 4096)
    os.close(ours)
    assert output == b"2 good, 0 bad, 3,998 repeated, 0 torn\n"
    assert b"receipts" in shown
    assert invoke("verify", path).stderr == ""
