"""Gathers the commands of many coroutines into few round trips, and repeats what may be repeated.

Whatever is queued when a lane is free goes out as one batch. A lane is a task of the channel's own with its own
connection, so that a cancelled caller never leaves a connection with an unread reply: what was sent runs, and nobody
hears of it.

Commands that are queued together may be repeated apart, so the channel keeps no order between two calls: who needs one
waits for the first. A repeated command is the identical one; each script is written so that running it again changes
nothing more.
"""

from __future__ import annotations

import asyncio
import random
from collections import deque
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field
from enum import Enum
from typing import Final

from redis.asyncio import Redis

from .connection import Reply, UnsentError, Wire, Words, pack
from .errors import ReplyLostError, ScriptError, ServerError, ServerUnavailableError, ServerUnfitError
from .faults import Fault, classify, classify_unsent, spoken
from .keys import Keyspace
from .scripts import Arg, Command, Script

_BATCH = 256
_BACKOFF_FIRST_S = 0.01
_BACKOFF_CAP_S = 1.0
_LOADS = 2
"""After so many NOSCRIPT in a row the source itself is sent: the script cache is flushed faster than we fill it."""


class Patience(Enum):
    """How long a call repeats itself, where the caller does not say."""

    CHANNEL = "channel"
    """As long as the channel was told to."""


@dataclass(slots=True, eq=False)
class _Call:
    future: asyncio.Future[Reply]
    name: str
    words: Words
    packed: bytes
    script: Script[...] | None = None
    timer: asyncio.TimerHandle | None = None
    tries: int = 0
    noscripts: int = 0
    in_flight: bool = False
    maybe_run: bool = False
    last: str = "it was never sent"
    cause: BaseException | None = None


@dataclass(slots=True)
class Counts:
    """What the channel did since it was made."""

    sent: int = 0
    """Commands sent, repeats included."""
    pipelines: int = 0
    """Batches sent."""
    retries: int = 0
    """Commands that were queued again."""


@dataclass(slots=True, eq=False)
class _Queue:
    calls: deque[_Call] = field(default_factory=deque[_Call])
    idle: deque[asyncio.Future[None]] = field(default_factory=deque[asyncio.Future[None]])

    def put(self, calls: Iterable[_Call]) -> None:
        self.calls.extend(calls)
        self._wake()

    async def ready(self) -> None:
        """Wait until there is something to take."""
        while not self.calls:
            sleeper = asyncio.get_running_loop().create_future()
            self.idle.append(sleeper)
            await sleeper

    def take(self) -> list[_Call]:
        """Take one batch, without those that were cancelled or ran out of patience while they waited."""
        batch: list[_Call] = []
        while self.calls and len(batch) < _BATCH:
            call = self.calls.popleft()
            if not call.future.done():
                batch.append(call)
        if self.calls:
            self._wake()
        return batch

    def _wake(self) -> None:
        while self.idle:
            sleeper = self.idle.popleft()
            if not sleeper.done():
                sleeper.set_result(None)
                return


class Channel:
    """A gathered, repeating way to the server.

    Args:
        client: the library's client; only its connection pool is used. Its own retries must be off.
        keys: names the hash tag that each script gets as its KEYS.
        name: for messages.
        call_timeout_s: how long one batch may take from its first byte to its last reply.
        lanes: how many batches may be in flight, each on a connection of its own.
        now_ms: what scripts take for the time; 0 is the server's own.
        patience_s: how long a call repeats itself by default; None is for ever.
        greet: runs on each new connection before anything else does.
        revive: runs when no connection could be made, before the next try.
    """

    def __init__(  # noqa: PLR0913 - each is a decision of whoever opens the store
        self,
        client: Redis,
        keys: Keyspace,
        *,
        name: str,
        call_timeout_s: float,
        lanes: int = 2,
        now_ms: int = 0,
        patience_s: float | None = None,
        greet: Callable[[Wire], Awaitable[None]] | None = None,
        revive: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        self.name = name
        self.keys = keys
        self.now_ms = now_ms
        self.counts = Counts()
        self._patience_s = patience_s
        self._revive = revive
        self._queue = _Queue()
        self._wires = [Wire(client, call_timeout_s=call_timeout_s, greet=greet) for _ in range(lanes)]
        self._tasks: list[asyncio.Task[None]] = []
        self._open: set[_Call] = set()
        self._closed = False

    @property
    def sent(self) -> int:
        """Commands sent, repeats included."""
        return self.counts.sent

    @property
    def pipelines(self) -> int:
        """Batches sent."""
        return self.counts.pipelines

    @property
    def outstanding(self) -> int:
        """Calls that wait for their answer."""
        return len(self._open)

    @property
    def retries(self) -> int:
        """Commands that were queued again."""
        return self.counts.retries

    async def run(self, command: Command, *, patience_s: float | Patience | None = Patience.CHANNEL) -> Reply:
        """Run a script, again and again until the server has answered or patience is over.

        Args:
            command: what a script function packed.
            patience_s: seconds in all, waiting in the queue included; None is for ever.

        Returns:
            The raw reply. Bytes stay bytes.

        Raises:
            ServerUnavailableError: patience is over, and each try is proved not to have run.
            ReplyLostError: patience is over, and the command may have run.
            ServerUnfitError: the server will not serve this client.
            ScriptError: the script failed in the server.
        """
        script = command.script
        words: Words = ("EVALSHA", script.sha, 1, self.keys.tag, self.now_ms, *command.args)
        return await self._call(script.name, words, script, patience_s)

    async def read(self, *words: Arg, patience_s: float | Patience | None = Patience.CHANNEL) -> Reply:
        """Run a plain command that only reads; replies and errors are those of `run`, shaped as in RESP2."""
        return await self._call(str(words[0]), words, None, patience_s)

    async def aclose(self) -> None:
        """End every call that waits, let the batches in flight come home, and close the connections."""
        if self._closed:
            return
        self._closed = True
        for call in [call for call in self._open if not call.in_flight]:
            self._give_up(call, "the channel was closed")
        flying = [call.future for call in self._open]
        if flying:
            await asyncio.wait(flying)
        while running := {task for task in self._tasks if not task.done()}:
            # One cancel is not enough: a time-out that ends in the same moment can swallow it.
            for task in running:
                task.cancel()
            await asyncio.wait(running, timeout=0.1)
        for wire in self._wires:
            await wire.aclose()

    async def _call(
        self, name: str, words: Words, script: Script[...] | None, patience_s: float | Patience | None
    ) -> Reply:
        loop = asyncio.get_running_loop()
        call = _Call(loop.create_future(), name, words, pack(words), script)
        if self._closed:
            raise self._over(call, "the channel is closed")
        seconds: Final = self._patience_s if isinstance(patience_s, Patience) else patience_s
        if seconds is not None:
            call.timer = loop.call_later(seconds, self._give_up, call, "patience is over")
        if not self._tasks:
            self._tasks = [self._start_lane(wire) for wire in self._wires]
        self._open.add(call)
        self._queue.put([call])
        try:
            return await call.future
        finally:
            self._open.discard(call)
            if call.timer is not None:
                call.timer.cancel()

    def _start_lane(self, wire: Wire) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(self._lane(wire), name=f"{self.name}-lane")
        task.add_done_callback(self._lane_ended)
        return task

    def _lane_ended(self, task: asyncio.Task[None]) -> None:
        """Tell the loop of a lane that a defect has ended: who waits for it without patience would wait for ever."""
        # Cancelled by the loop that ends, it was asked to.
        if not (self._closed or task.cancelling()):
            error = asyncio.CancelledError() if task.cancelled() else task.exception()
            said = f"a lane of {self.name} has ended"
            task.get_loop().call_exception_handler({"message": said, "exception": error, "task": task})

    async def _lane(self, wire: Wire) -> None:
        while not self._closed:
            await self._queue.ready()
            try:
                # Before the batch is taken: a call is in somebody's hands only while its bytes may be on the way.
                await wire.open()
            except UnsentError as error:
                if self._revive is not None:
                    await self._revive()
                cause = error.__cause__ or error
                self._sort_out([(call, classify_unsent(cause), cause) for call in self._queue.take()])
                continue
            batch = self._queue.take()
            if batch:
                await self._carry(wire, batch)

    async def _carry(self, wire: Wire, batch: list[_Call]) -> None:
        """Take one batch to the server and bring each call its answer, or queue it again."""
        lines, places = _lay_out(batch)
        for call in batch:
            call.in_flight = True
        self.counts.pipelines += 1
        self.counts.sent += len(batch)
        replies = await wire.exchange(lines)
        failed: list[tuple[_Call, Fault, BaseException]] = []
        for call, place in zip(batch, places, strict=True):
            call.in_flight = False
            reply = replies[place]
            if isinstance(reply, BaseException):
                failed.append((call, classify(reply), reply))
            elif not call.future.done():
                call.future.set_result(reply)
        if failed:
            self._sort_out(failed)

    def _sort_out(self, failed: list[tuple[_Call, Fault, BaseException]]) -> None:
        at_once: list[_Call] = []
        later: list[_Call] = []
        for call, fault, error in failed:
            call.maybe_run = call.maybe_run or fault is Fault.MAYBE_RUN
            call.last, call.cause = spoken(error), error
            if call.future.done():
                continue
            if fault is Fault.REFUSED or fault is Fault.BROKEN:
                call.future.set_exception(_final(call, fault))
            elif self._closed:
                self._give_up(call, "the channel was closed")
            elif fault is Fault.NOSCRIPT:
                call.noscripts += 1
                at_once.append(call)
            else:
                call.tries += 1
                later.append(call)
        self.counts.retries += len(at_once) + len(later)
        if at_once:
            self._queue.put(at_once)
        if later:
            # Full jitter, one draw a batch: what failed together may well go together again.
            tries = min(16, *(call.tries for call in later))
            delay_s = random.uniform(0, min(_BACKOFF_CAP_S, _BACKOFF_FIRST_S * 2**tries))  # noqa: S311 - no secret
            asyncio.get_running_loop().call_later(delay_s, self._queue.put, later)

    def _give_up(self, call: _Call, why: str) -> None:
        if not call.future.done():
            call.maybe_run = call.maybe_run or call.in_flight
            call.future.set_exception(self._over(call, why))

    def _over(self, call: _Call, why: str) -> ServerError:
        if call.maybe_run:
            what = f"{call.name} was sent and no reply came; {why} on {self.name} (last: {call.last})."
            next_step = "It may have run: repeat the identical call, or read how things stand."
            return _caused(call, ReplyLostError(what, next_step=next_step))
        what = f"{call.name} did not run: {why} on {self.name} (last: {call.last})."
        next_step = "Nothing was changed: repeat it when the server answers again."
        return _caused(call, ServerUnavailableError(what, next_step=next_step))


def _final(call: _Call, fault: Fault) -> ServerError:
    if fault is Fault.REFUSED:
        what = f"The server refuses {call.name}: {call.last}"
        next_step = "Correct the credentials, the permissions or the address; then start again."
        return _caused(call, ServerUnfitError(what, next_step=next_step))
    what = f"{call.name} failed in the server: {call.last}"
    next_step = "Nothing is repeated: report it, and look at the key that it names."
    return _caused(call, ScriptError(what, next_step=next_step))


def _caused(call: _Call, error: ServerError) -> ServerError:
    # It is handed over in a future, where no `from` can say so.
    error.__cause__ = call.cause
    return error


def _lay_out(batch: list[_Call]) -> tuple[list[bytes], list[int]]:
    """Give the lines to send, with a SCRIPT LOAD in front of what the server did not know, and each call's place."""
    lines: list[bytes] = []
    places: list[int] = []
    loaded: set[str] = set()
    for call in batch:
        script, line = call.script, call.packed
        if script is not None and call.noscripts >= _LOADS:
            line = pack(("EVAL", script.source, *call.words[2:]))
        elif script is not None and call.noscripts and script.sha not in loaded:
            lines.append(pack(("SCRIPT", "LOAD", script.source)))
            loaded.add(script.sha)
        places.append(len(lines))
        lines.append(line)
    return lines, places
