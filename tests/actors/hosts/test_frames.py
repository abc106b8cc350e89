"""Frames survive any cutting of the stream; rubbish is noticed."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as some

from mycelium.actors.hosts.frames import (
    TO_CONTROL,
    TO_HOST,
    Cancel,
    Done,
    Hello,
    MarkReply,
    Outcome,
    Ping,
    Splitter,
    ToHost,
    ToolFacts,
    append_frame,
)
from mycelium.leases.errors import PayloadTooLargeError
from mycelium.ledger.binding import Binding
from mycelium.ledger.states import Boundary

FRAMES: list[ToHost] = [Ping(1), Cancel(7), MarkReply(0, 1, ok=False, why="x" * 300), Ping(2**40)]


@given(some.lists(some.integers(min_value=1, max_value=60), min_size=1))
def test_a_stream_cut_anywhere_gives_the_same_frames(cuts: list[int]) -> None:
    stream = bytearray()
    for frame in FRAMES:
        append_frame(stream, frame)
    splitter, found, at = Splitter(TO_HOST), [], 0
    for cut in [*cuts, len(stream)]:
        found += splitter.feed(bytes(stream[at : at + cut]))
        at += cut
    assert found == FRAMES
    assert splitter.fault == ""


@pytest.mark.parametrize("rubbish", [b"\xff" * 8, b"\0\0\0\1\xc1", b"\0\0\0\2\x91\x63"])
def test_frames_before_rubbish_are_given_and_nothing_after_it(rubbish: bytes) -> None:
    stream = bytearray()
    append_frame(stream, Ping(1))
    splitter = Splitter(TO_HOST)
    assert splitter.feed(bytes(stream) + rubbish + bytes(stream)) == [Ping(1)]
    assert splitter.fault
    assert splitter.feed(bytes(stream)) == []


def test_a_frame_above_the_limit_leaves_the_buffer_as_it_was() -> None:
    buffer = bytearray(b"before")
    with pytest.raises(PayloadTooLargeError):
        append_frame(buffer, Done(0, Outcome.COMPLETED, Boundary.CROSSED, b"x" * 100), limit=50)
    assert buffer == b"before"
    with pytest.raises(UnicodeEncodeError):
        append_frame(buffer, MarkReply(0, 1, ok=True, why="\ud800"))
    assert buffer == b"before"


def test_bindings_travel_whole() -> None:
    hello = Hello(1, {"pay": ToolFacts(Binding(key_param="key", key_window_s=60.0, timeout_s=5.0), 2.0)})
    assert TO_CONTROL.decode(msgspec.msgpack.encode(hello)) == hello
