"""The bounded queue in front of one actor, with a lane for the runtime's own messages that jumps the queue."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TypeAlias

from ...leases.errors import ActorStoppedError, MailboxFullError, SettingsError

Reply: TypeAlias = asyncio.Future[object]
Entry: TypeAlias = tuple[object, Reply | None]


def stopped_error(path: str) -> ActorStoppedError:
    """The answer to a message that a stopped actor did not handle, or was interrupted in."""
    return ActorStoppedError(
        f"The actor {path} has stopped.",
        next_step="If it had begun this message, treat the message as maybe handled; ask its supervisor's tree why.",
    )


class Mailbox:
    """First in, first out; one reader; any number of writers in the same event loop. Not thread-safe.

    Nothing here allocates but the entry itself: `put_nowait` and `take` are the hot path of every actor.
    """

    __slots__ = ("_closed", "_putters", "_queue", "_system", "_waiter", "capacity", "owner")

    def __init__(self, *, capacity: int, owner: str) -> None:
        if capacity < 1:
            what = f"The mailbox of {owner} cannot have a capacity of {capacity}."
            raise SettingsError(what, next_step="Give a capacity of at least 1.")
        self.capacity = capacity
        self.owner = owner
        self._queue: deque[Entry] = deque()
        self._system: deque[object] = deque()
        self._putters: deque[asyncio.Future[None]] = deque()
        self._waiter: asyncio.Future[None] | None = None
        self._closed = False

    @property
    def depth(self) -> int:
        """How many messages wait. The runtime's own are not counted."""
        return len(self._queue)

    @property
    def closed(self) -> bool:
        """True once nothing more is taken."""
        return self._closed

    def put_nowait(self, message: object, reply: Reply | None = None) -> None:
        """Append a message.

        Raises:
            MailboxFullError: `capacity` messages wait already.
            ActorStoppedError: the mailbox is closed.
        """
        if self._closed:
            raise stopped_error(self.owner)
        if len(self._queue) >= self.capacity:
            what = f"The mailbox of {self.owner} is full ({self.capacity})."
            raise MailboxFullError(what, next_step="Slow down, or wait for room with put.")
        self._queue.append((message, reply))
        if self._waiter is not None:
            self.nudge()

    async def put(self, message: object) -> None:
        """Append a message as soon as there is room.

        Raises:
            ActorStoppedError: the mailbox is closed, or was closed while this waited.
        """
        while not self._closed and len(self._queue) >= self.capacity:
            turn = asyncio.get_running_loop().create_future()
            self._putters.append(turn)
            try:
                await turn
            except asyncio.CancelledError:
                # The room that this writer was given is the next one's, or a slot would stay unused.
                if turn.done() and not turn.cancelled():
                    self._let_one_in()
                raise
        self.put_nowait(message)

    def put_system(self, message: object) -> None:
        """Add a message of the runtime: ahead of all others, never refused; a closed mailbox drops it."""
        if not self._closed:
            self._system.append(message)
            self.nudge()

    def take(self) -> Entry | None:
        """The next message, or None when there is none."""
        if self._system:
            return self._system.popleft(), None
        if self._queue:
            entry = self._queue.popleft()
            if self._putters:
                self._let_one_in()
            return entry
        return None

    async def wait(self) -> None:
        """Return when there may be something to take, or when nudged. One reader at a time."""
        if self._queue or self._system:
            return
        self._waiter = asyncio.get_running_loop().create_future()
        try:
            await self._waiter
        finally:
            self._waiter = None

    def nudge(self) -> None:
        """Wake the reader, so that it looks at its flags."""
        waiter, self._waiter = self._waiter, None
        if waiter is not None and not waiter.done():
            waiter.set_result(None)

    def close(self) -> None:
        """Take nothing more, and answer everybody who waits with ActorStoppedError."""
        self._closed = True
        while self._queue:
            _, reply = self._queue.popleft()
            if reply is not None and not reply.done():
                reply.set_exception(stopped_error(self.owner))
        self._system.clear()
        while self._putters:
            self._let_one_in()

    def _let_one_in(self) -> None:
        while self._putters:
            turn = self._putters.popleft()
            if not turn.done():
                turn.set_result(None)
                return
