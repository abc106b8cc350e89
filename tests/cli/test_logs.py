"""Log lines wait for their reader in a thread of their own: whoever logs does not."""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
import time
from collections.abc import Generator
from contextlib import contextmanager

from mycelium.cli.logs import JsonLines, PatientLines


@contextmanager
def full_pipe() -> Generator[tuple[int, int]]:
    """A pipe that takes not one byte more, until somebody reads."""
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    try:
        while True:
            os.write(writing, b"x")
    except BlockingIOError:
        os.set_blocking(writing, True)
    try:
        yield reading, writing
    finally:
        for descriptor in (reading, writing):
            os.close(descriptor)


def log_into(handler: logging.Handler, lines: int) -> None:
    for number in range(lines):
        handler.handle(logging.LogRecord("mycelium.x", logging.INFO, "", 0, "line %d", (number,), None))


def read_until(reading: int, end: bytes) -> bytes:
    told = b""
    while end not in told:
        told += os.read(reading, 1 << 16)
    return told.lstrip(b"x")


def test_what_has_no_room_is_dropped_and_counted_when_somebody_reads() -> None:
    with full_pipe() as (reading, writing):
        handler = PatientLines(writing, room=10)
        handler.setFormatter(JsonLines())
        log_into(handler, 100)  # nobody reads: this would be for ever
        told = [json.loads(line)["message"] for line in read_until(reading, b"dropped").splitlines()[:-1]]
        # What was in the writer's hand and what had room came through, in order; the rest is only a number.
        assert told == [f"line {number}" for number in range(len(told))]
        assert len(told) in {10, 11}
        handler.close()


def test_the_number_of_dropped_lines_is_right() -> None:
    with full_pipe() as (reading, writing):
        handler = PatientLines(writing, room=10)
        handler.setFormatter(logging.Formatter("%(message)s"))
        log_into(handler, 100)
        lines = read_until(reading, b"read them\n").decode().splitlines()
        handler.close()
    assert lines[-1] == f"{100 - (len(lines) - 1)} log lines were dropped: nobody read them"


def test_what_is_queued_is_written_at_the_end_but_not_waited_for_long() -> None:
    reading, writing = os.pipe()
    handler = PatientLines(writing)
    log_into(handler, 100)
    handler.close()
    os.close(writing)
    with os.fdopen(reading, "rb") as stream:
        assert stream.read().count(b"\n") == 100
    with full_pipe() as (reading, writing):
        handler = PatientLines(writing, room=1)
        log_into(handler, 3)
        begun = time.monotonic()
        handler.close()
        assert time.monotonic() - begun < 5
        read_until(reading, b"line 0\n")


def test_a_record_that_cannot_be_formatted_is_told_as_that() -> None:
    reading, writing = os.pipe()
    handler = PatientLines(writing)
    handler.handle(logging.LogRecord("mycelium.x", logging.INFO, "", 0, "%d", ("no number",), None))
    handler.close()
    os.close(writing)
    with os.fdopen(reading, "rb") as stream:
        assert stream.read() == b"a record of mycelium.x cannot be written: TypeError\n"


def test_a_process_ends_although_nobody_reads_what_it_logs() -> None:
    program = (
        "import logging\nfrom mycelium.cli.logs import LogFormat, log_to_stderr\n"
        "log_to_stderr(LogFormat.TEXT)\n"
        "for _ in range(20_000): logging.info('x' * 100)\n"
        "print('logged', flush=True)"
    )
    command = [sys.executable, "-c", program]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        try:
            assert process.wait(30) == 0
        finally:
            process.kill()
        assert process.stdout is not None
        assert process.stdout.read() == b"logged\n"
