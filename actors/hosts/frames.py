"""What the control process and a tool host say to each other: small tagged messages, each behind a 4-byte length."""

from __future__ import annotations

import math
import struct
from enum import StrEnum
from typing import Generic, TypeVar

import msgspec

from ...leases.errors import PayloadTooLargeError, ToolDeclarationError
from ...ledger.binding import Binding
from ...ledger.states import Boundary, BoundaryMode, EffectClass
from ...reconcilers.verdict import VerdictWord
from ..schedules.facts import ScheduleFacts
from ..terms import Isolation

F = TypeVar("F")

FRAME_LIMIT_BYTES = 64 << 20
NEVER_BEGAN = "mycelium.NeverBegan"
"""The error class of an attempt that was cancelled before the first line of its body."""
NO_PROGRESS = "mycelium.NoProgress"
"""The error class of an attempt that was past its idle timeout, where its host could still tell."""
_LENGTH = struct.Struct(">I")


class Outcome(StrEnum):
    """How a run ended, as the host saw it. What follows from it is decided where the record is."""

    COMPLETED = "completed"
    """The body returned; its result is in the frame."""
    NOT_EXECUTED = "not_executed"
    """The body raised `NotExecuted`, or never began."""
    FAILED = "failed"
    """The body raised something else. The boundary tells whether an effect may exist."""
    TIMEOUT = "timeout"
    """The body was past its time and has ended without a result."""
    CANCELLED = "cancelled"
    """The body was cancelled after it began, and has ended without a result."""
    REFUSED = "refused"
    """The body never began: no such tool here, or the stored arguments do not fit it."""


class Again(StrEnum):
    """What a body that failed said of being run again."""

    CLASS = "class"
    """Nothing: its class decides."""
    LATER = "later"
    """After a time that it named; charged as an attempt."""
    SNOOZE = "snooze"
    """After a time that it named; not charged, for it proved that nothing was done."""
    NEVER = "never"
    """Not at all, though its class may allow it."""


class ToolFacts(msgspec.Struct, frozen=True, array_like=True):
    """What the control process must know of a tool, so that it never imports tool code.

    Attributes:
        binding: the declared facts.
        lag_s: the lag of the tool's reconciler in seconds; None: it has no reconciler.
        isolation: what its bodies share with others.
        idle_timeout_s: seconds without progress after which an attempt is past its time; None: no such limit.
        is_async: it runs on its host's loop, which can cancel it.
    """

    binding: Binding
    lag_s: float | None = None
    isolation: Isolation = Isolation.HOST
    idle_timeout_s: float | None = None
    is_async: bool = True

    @property
    def in_line(self) -> bool:
        """Whether its bodies run one at a time in their host, and wait there for their turn."""
        return self.isolation is Isolation.HOST and not self.is_async


# ── control → host ───────────────────────────────────────────────────────────────────────────────────────────────────


class Run(msgspec.Struct, frozen=True, array_like=True, tag=1):
    """Run one attempt in a free slot.

    Attributes:
        boundary: what is already on record when the frame is sent.
        effect_class: as it was granted: what the record will be judged by.
        mode: who marks, as it was granted.
        begin_by_s: the body begins before this instant of the machine's boot clock, or not at all: the control process
            trusts its session until then, and this one may be frozen between the frame and the first line (L7).
        key: what is sent as the provider's key, where a parameter of the tool carries it.
        idle_timeout_s: seconds without progress after which it is past its time; 0: no such limit.
    """

    slot: int
    request_id: str
    effect_id: str
    tool: str
    fence: str
    attempt: int
    args: bytes
    timeout_s: float
    boundary: Boundary
    effect_class: EffectClass = EffectClass.IRREVERSIBLE
    mode: BoundaryMode = BoundaryMode.AUTOMATIC
    begin_by_s: float = math.inf
    key: str = ""
    idle_timeout_s: float = 0.0


class MarkReply(msgspec.Struct, frozen=True, array_like=True, tag=2):
    """The answer to the mark with the number `n`.

    `ok` means: written durably under this attempt's fence, and the effect may start before `begin_by_s` (see `Run`).
    """

    slot: int
    n: int
    ok: bool
    why: str = ""
    begin_by_s: float = math.inf


class Cancel(msgspec.Struct, frozen=True, array_like=True, tag=3):
    """Cancel what runs in a slot. The answer is its `Done`; a plain function only ends by itself."""

    slot: int


class Ask(msgspec.Struct, frozen=True, array_like=True, tag=4):
    """Ask the tool's reconciler about a call in doubt. `slot` only pairs the answer; it takes no slot of a run."""

    slot: int
    tool: str
    request_id: str
    effect_id: str
    idempotency_key: str | None
    external_operation_ref: str | None
    args: bytes
    unknown_since_s: float
    attempt: int
    timeout_s: float


class Stop(msgspec.Struct, frozen=True, array_like=True, tag=5):
    """End when all runs have ended, or after the grace."""

    grace_s: float


class Ping(msgspec.Struct, frozen=True, array_like=True, tag=6):
    """Are you there?"""

    n: int


# ── host → control ───────────────────────────────────────────────────────────────────────────────────────────────────


class Hello(msgspec.Struct, frozen=True, array_like=True, tag=11):
    """The host is ready for these tools and has these schedules; or it has a problem, which it tells, and ends."""

    pid: int
    tools: dict[str, ToolFacts]
    problem: str = ""
    schedules: dict[str, ScheduleFacts] = {}


class Done(msgspec.Struct, frozen=True, array_like=True, tag=12):
    """A run has ended, and its slot is free. Threads and tasks that the tool itself left behind can mark nothing more.

    Attributes:
        slot: the slot of its `Run`.
        outcome: how it ended.
        boundary: the furthest that the attempt can have come.
        body: the result as JSON, if completed. `{"$unencodable": type}` or `{"$too_large": bytes}` stand for a result
            that was seen but cannot be kept; error_class then says so.
        error_class: dotted name of the exception's class; empty if there was none.
        detail: the exception's own words, at most 500 characters. Stored, never logged.
        ref: what `record_external_operation` was given last, if anything.
        where: file, line and function that raised; never what was said. This may be logged.
        over: nothing of it can still send; False where tasks that the body started still run.
        fence: that of its `Run`: slots are used again, and a copy of the host may tell what was over long ago.
        again: what the body said of being run again.
        after_s: after how many seconds, where it named a time.
    """

    slot: int
    outcome: Outcome
    boundary: Boundary
    body: bytes = b""
    error_class: str = ""
    detail: str = ""
    ref: str | None = None
    where: str = ""
    fence: str = ""
    over: bool = True
    again: Again = Again.CLASS
    after_s: float = 0.0


class Mark(msgspec.Struct, frozen=True, array_like=True, tag=13):
    """Write the boundary (always `maybe_crossed`) and the reference durably, then answer with the same `n`.

    The fence is as in `Done`.
    """

    slot: int
    n: int
    boundary: Boundary
    ref: str | None = None
    fence: str = ""


class Answer(msgspec.Struct, frozen=True, array_like=True, tag=14):
    """What the reconciler said. `body` and `evidence` are JSON; both are empty if unknown."""

    slot: int
    verdict: VerdictWord
    body: bytes = b""
    evidence: bytes = b""
    reason: str = ""


class Pong(msgspec.Struct, frozen=True, array_like=True, tag=15):
    """Here. `lag_s` is how late the host's loop was at worst since the last one."""

    n: int
    lag_s: float


class Progress(msgspec.Struct, frozen=True, array_like=True, tag=16):
    """How far a run has come, in its own words: stored for people, never logged. Its idle time begins anew.

    The fence is as in `Done`.
    """

    slot: int
    fence: str
    done: float
    total: float | None = None
    note: str = ""


ToHost = Run | MarkReply | Cancel | Ask | Stop | Ping
ToControl = Hello | Done | Mark | Answer | Pong | Progress

TO_HOST: msgspec.msgpack.Decoder[ToHost] = msgspec.msgpack.Decoder(ToHost)
TO_CONTROL: msgspec.msgpack.Decoder[ToControl] = msgspec.msgpack.Decoder(ToControl)
_ENCODER = msgspec.msgpack.Encoder()


def append_frame(buffer: bytearray, frame: ToHost | ToControl, limit: int = FRAME_LIMIT_BYTES) -> None:
    """Encode a frame at the end of a buffer.

    Raises:
        PayloadTooLargeError: the frame is above the limit; the buffer is as before, as with any other error.
    """
    at = len(buffer)
    buffer += b"\0\0\0\0"
    try:
        _ENCODER.encode_into(frame, buffer, -1)
    except BaseException:
        del buffer[at:]
        raise
    size = len(buffer) - at - _LENGTH.size
    if size > limit:
        del buffer[at:]
        what = f"A {type(frame).__name__} frame takes {size:,} bytes; the limit is {limit:,}."
        raise PayloadTooLargeError(what, next_step="It was not sent. Store the body elsewhere and pass a reference.")
    _LENGTH.pack_into(buffer, at, size)


class Splitter(Generic[F]):
    """Cuts a byte stream into frames.

    Args:
        decoder: of this direction's frames.
        limit: bytes of the largest frame that is waited for.

    Attributes:
        fault: why nothing more can be read: not our stream, or a frame above the limit. Empty while all is well.
    """

    __slots__ = ("_decoder", "_limit", "_rest", "fault")

    def __init__(self, decoder: msgspec.msgpack.Decoder[F], limit: int = FRAME_LIMIT_BYTES) -> None:
        self._decoder = decoder
        self._limit = limit
        self._rest = b""
        self.fault = ""

    def feed(self, data: bytes) -> list[F]:
        """Take what was read; give the frames that are whole now, also those before a fault."""
        data = self._rest + data if self._rest else data
        frames: list[F] = []
        at = 0
        while (body := self._next(data, at)) is not None:
            try:
                frames.append(self._decoder.decode(body))
            except (msgspec.DecodeError, ToolDeclarationError) as error:
                self.fault = f"not a frame of ours ({type(error).__name__})"
                break
            at += _LENGTH.size + len(body)
        self._rest = data[at:]
        return frames

    def _next(self, data: bytes, at: int) -> memoryview | None:
        if self.fault or len(data) - at < _LENGTH.size:
            return None
        (length,) = _LENGTH.unpack_from(data, at)
        if length > self._limit:
            self.fault = f"a frame of {length:,} bytes was announced; the limit is {self._limit:,}"
            return None
        begin = at + _LENGTH.size
        return memoryview(data)[begin : begin + length] if begin + length <= len(data) else None
