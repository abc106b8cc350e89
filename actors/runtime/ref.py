"""An actor's address: how others talk to it. Safe to hold for ever: it never leads to a wrong actor."""

from __future__ import annotations

import asyncio
from typing import Any, Generic, TypeVar, overload

from ...leases.errors import AskTimeoutError
from .grave import Grave, Watcher
from .mailbox import Mailbox, Reply
from .messages import Terminated
from .timer import Timer

M = TypeVar("M", contravariant=True)  # noqa: PLC0105 - M is the message type everywhere in this package
R = TypeVar("R")


def _expire(reply: Reply, path: str, timeout_s: float) -> None:
    if not reply.done():
        what = f"The actor {path} did not answer within {timeout_s} s."
        reply.set_exception(AskTimeoutError(what, next_step="The message may still be handled: ask about its outcome."))


class Ref(Generic[M]):
    """The address of one actor, over all of its lives. Use it in the actor's event loop only."""

    __slots__ = ("__weakref__", "_grave", "_mailbox", "_timer", "path")

    def __init__(self, mailbox: Mailbox, grave: Grave, timer: Timer) -> None:
        self.path = mailbox.owner
        self._mailbox = mailbox
        self._grave = grave
        self._timer = timer

    def __repr__(self) -> str:
        return f"<Ref {self.path}>"

    @property
    def name(self) -> str:
        """The last part of the path."""
        return self.path.rpartition("/")[2]

    @property
    def alive(self) -> bool:
        """False once the actor has ended for good. True while it starts, runs, stops or waits to be restarted."""
        return self._grave.news is None

    @property
    def depth(self) -> int:
        """How many messages wait in its mailbox."""
        return self._mailbox.depth

    def tell(self, message: M) -> None:
        """Send and go on. Never blocks.

        Raises:
            MailboxFullError: slow down; nothing was sent.
            ActorStoppedError: the actor has stopped; nothing was sent.
        """
        self._mailbox.put_nowait(message)

    async def put(self, message: M) -> None:
        """Send as soon as there is room.

        Raises:
            ActorStoppedError: the actor has stopped; nothing was sent.
        """
        await self._mailbox.put(message)

    @overload
    async def ask(self, message: M, *, timeout_s: float) -> object: ...

    @overload
    async def ask(self, message: M, *, timeout_s: float, reply_type: type[R]) -> R: ...

    async def ask(self, message: M, *, timeout_s: float, reply_type: type[Any] | None = None) -> object:
        """Send, and return what the actor's `receive` returns for it. An actor must not ask itself.

        Args:
            message: what to send.
            timeout_s: seconds to wait for the answer.
            reply_type: the class that the answer must be an instance of.

        Raises:
            AskTimeoutError: no answer in time; the message may still be handled.
            ActorStoppedError: the actor stopped first (raised at once), or had stopped.
            MailboxFullError: slow down; nothing was sent.
            TypeError: the answer is not a `reply_type`.
            Exception: whatever the handler raised.
        """
        reply: Reply = asyncio.get_running_loop().create_future()
        self._mailbox.put_nowait(message, reply)
        deadline = self._timer.call_later(timeout_s, _expire, reply, self.path, timeout_s)
        try:
            answer = await reply
        finally:
            deadline.cancel()
        if reply_type is not None and not isinstance(answer, reply_type):
            what = f"{self.path} answered with a {type(answer).__name__}, not with a {reply_type.__name__}"
            raise TypeError(what)
        return answer

    def tell_first(self, message: object) -> None:
        """Put a message of the runtime ahead of all others. Never refused; dropped when the actor has stopped."""
        self._mailbox.put_system(message)

    def watch(self, watcher: Watcher) -> None:
        """Send `watcher` (a Ref) one `Terminated` when this actor ends for good; at once if it has."""
        self._grave.watch(watcher)

    def unwatch(self, watcher: Watcher) -> None:
        """Undo `watch`."""
        self._grave.unwatch(watcher)

    async def stopped(self) -> Terminated:
        """Return when the actor has ended for good, with the reason."""
        return await self._grave.wait()
