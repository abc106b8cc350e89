"""Receipts in a file: none is lost, doubled or taken for tampering, whoever writes and whenever a writer is killed."""

from __future__ import annotations

import asyncio
import fcntl
import io
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from kit.receipts import KEYS, receipt
from mycelium.leases.errors import ReceiptError
from mycelium.ledger.receipts import Receipt, ReceiptFile, Tally, Verdict
from mycelium.ledger.receipts.file import TORN, read_lines
from mycelium.ledger.receipts.receipt import MAX_BYTES

WRITER = """
import asyncio, sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
from kit.receipts import receipt
from mycelium.ledger.receipts import ReceiptFile

async def write(path, name, count):
    sink = ReceiptFile(Path(path))
    for number in range(count):
        await sink.write([receipt(f"{name}-{number}", reason="x" * 2000)])
        print(number, flush=True)

asyncio.run(write(sys.argv[2], sys.argv[3], int(sys.argv[4])))
"""


def writer(path: Path, name: str, count: int) -> subprocess.Popen[str]:
    """A process that appends receipts one by one, and prints the number of each that was acknowledged."""
    tests = str(Path(__file__).parents[1])
    command = [sys.executable, "-P", "-c", WRITER, tests, str(path), name, str(count)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def write(sink: ReceiptFile, *receipts: Receipt) -> None:
    asyncio.run(sink.write(receipts))


def tally(path: Path) -> Tally:
    found = Tally(KEYS)
    with path.open("rb") as stream:
        for line in read_lines(stream):
            found.add(line)
    return found


def counts(path: Path) -> tuple[int, int, int, int]:
    """Good, bad, repeated, torn."""
    found = tally(path)
    return found.good, sum(found.bad.values()), found.repeated, found.torn


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "receipts.jsonl"


def test_what_was_written_is_there_for_its_owner_alone(path: Path) -> None:
    write(ReceiptFile(path), receipt("a"), receipt("b"))
    write(ReceiptFile(path))
    assert [Receipt.read(line) for line in path.read_bytes().splitlines()] == [receipt("a"), receipt("b")]
    assert path.stat().st_mode & 0o777 == 0o600


def test_a_receipt_that_is_emitted_again_is_there_once(path: Path) -> None:
    sink = ReceiptFile(path)
    write(sink, receipt("a"), receipt("a"), receipt("b"))
    write(sink, receipt("b"))
    write(ReceiptFile(path), receipt("a"), receipt("c"))
    write(sink, receipt("c"))
    assert counts(path) == (3, 0, 0, 0)


def test_a_file_that_was_renamed_away_is_begun_anew(path: Path) -> None:
    sink = ReceiptFile(path)
    write(sink, receipt("a"))
    write(sink, receipt("a"))
    path.rename(path.with_suffix(".1"))
    write(sink, receipt("a"))
    assert counts(path) == (1, 0, 0, 0)
    write(sink, receipt("a"))
    path.rename(path.with_suffix(".2"))
    write(ReceiptFile(path), receipt("b"), receipt("c"))
    write(sink, receipt("a"))
    assert counts(path) == (3, 0, 0, 0)


def test_two_processes_that_append_at_once_lose_nothing(path: Path) -> None:
    writers = [writer(path, name, 100) for name in ("left", "right")]
    try:
        for process in writers:
            process.communicate(timeout=60)
            assert process.returncode == 0
    finally:
        for process in writers:
            process.kill()
    assert counts(path) == (200, 0, 0, 0)


@pytest.mark.parametrize("acknowledged", [0, 7, 23])
def test_a_writer_that_is_killed_loses_nothing_that_it_acknowledged(path: Path, acknowledged: int) -> None:
    with writer(path, "killed", 10_000) as process:
        assert process.stdout is not None
        while int(process.stdout.readline()) < acknowledged:
            pass
        process.send_signal(signal.SIGKILL)
        last = [*process.stdout.read().split(), str(acknowledged)]
    told = max(int(number) for number in last)
    good, bad, repeated, torn = counts(path)
    assert (bad, repeated) == (0, 0)
    assert good >= told + 1
    assert torn <= 1
    write(ReceiptFile(path), receipt("after"))
    assert counts(path) == (good + 1, 0, 0, torn)


def test_half_a_line_is_told_wherever_a_writer_was_killed_and_costs_no_other_receipt(path: Path) -> None:
    whole = receipt("torn").body() + b"\n"
    for cut in range(1, len(whole)):
        path.write_bytes(receipt("before").body() + b"\n" + whole[:cut])
        complete = cut == len(whole) - 1
        assert counts(path) == ((2, 0, 0, 0) if complete else (1, 0, 0, 1)), cut
        if cut % 40 == 1 or complete:
            write(ReceiptFile(path), receipt("after"))
            assert counts(path) == ((3, 0, 0, 0) if complete else (2, 0, 0, 1)), cut
            # What was torn was never acknowledged: it is written when it is emitted again.
            write(ReceiptFile(path), receipt("torn"))
            assert counts(path) == ((3, 0, 0, 0) if complete else (3, 0, 0, 1)), cut


def test_a_flipped_byte_is_never_taken_for_half_a_line(path: Path) -> None:
    body = receipt("a").body() + b"\n" + receipt("b").body() + b"\n"
    for at in range(len(body)):
        path.write_bytes(body[:at] + bytes([body[at] ^ 1]) + body[at + 1 :])
        assert counts(path)[1] >= 1, at


def test_a_whole_receipt_that_was_marked_as_torn_is_malformed() -> None:
    found = Tally(KEYS)
    for line in read_lines(io.BytesIO(receipt("a").body() + TORN + b"\n")):
        found.add(line)
    assert found.bad == {Verdict.MALFORMED: 1}


def test_a_line_without_end_is_read_in_pieces_and_is_one_malformed_line() -> None:
    stream = io.BytesIO(b"x" * (5 * MAX_BYTES) + b"\n" + receipt("a").body() + b"\n\n" + b"[" * (2 * MAX_BYTES))
    lines = list(read_lines(stream))
    assert [line.where for line in lines] == ["line 1", "line 2", "line 4"]
    assert max(len(line.body) for line in lines) <= MAX_BYTES + 1
    found = Tally(KEYS)
    for line in lines:
        found.add(line)
    assert (found.good, found.torn, found.bad) == (1, 0, {Verdict.MALFORMED: 2})


def test_another_kind_of_file_is_not_cut_and_not_joined(path: Path) -> None:
    path.write_bytes(b"notes\nwithout an end")
    write(ReceiptFile(path), receipt("a"))
    assert path.read_bytes() == b"notes\nwithout an end\n" + receipt("a").body() + b"\n"


def test_a_disk_that_takes_only_a_part_leaves_nothing_of_the_batch(path: Path) -> None:
    sink = ReceiptFile(path)
    write(sink, receipt("a"))
    program = (
        "import asyncio, resource, signal, sys; from pathlib import Path; sys.path.insert(0, sys.argv[1])\n"
        "from kit.receipts import receipt; from mycelium.ledger.receipts import ReceiptFile\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[3]), resource.RLIM_INFINITY))\n"
        "asyncio.run(ReceiptFile(Path(sys.argv[2])).write([receipt('b'), receipt('c')]))\n"
    )
    limit = str(path.stat().st_size * 2)
    command = [sys.executable, "-P", "-c", program, str(Path(__file__).parents[1]), str(path), limit]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    assert "ReceiptError" in run.stderr
    assert "File too large" in run.stderr
    assert counts(path) == (1, 0, 0, 0)


def test_a_place_that_keeps_nothing_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for place, why in (
        (Path(os.devnull), "not a regular file"),
        (tmp_path / "pipe", "not a regular file"),
        (tmp_path, "cannot be written: Is a directory"),
        (tmp_path / "no" / "where", "cannot be written: No such file"),
    ):
        with pytest.raises(ReceiptError, match=why):
            write(ReceiptFile(place), receipt("a"))


def test_a_writer_that_stands_still_holds_nobody_up_for_ever(path: Path) -> None:
    path.touch()
    with path.open("rb") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        with pytest.raises(ReceiptError, match=r"Another process holds .* for 0\.05 s"):
            write(ReceiptFile(path, lock_timeout_s=0.05), receipt("a"))

    async def write_at_once() -> None:
        await asyncio.gather(*[ReceiptFile(path).write([receipt(str(number))]) for number in range(20)])

    asyncio.run(write_at_once())
    assert counts(path) == (20, 0, 0, 0)
