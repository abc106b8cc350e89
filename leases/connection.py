"""One connection to the server: sends a batch in one write, reads every reply, and never keeps an unread one."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Protocol, cast

import hiredis
from redis.asyncio import Redis
from redis.exceptions import RedisError

from .faults import code_of, is_reply
from .scripts import Arg

Reply = list[object] | bytes | int | None
Words = tuple[Arg, ...]

_pack = cast("Callable[[Words], bytes]", hiredis.pack_command)  # pyright: ignore[reportUnknownMemberType]


class _Connection(Protocol):
    """What is used of the library's connection; much of it is untyped there."""

    @property
    def is_connected(self) -> bool: ...

    async def connect(self) -> None: ...

    async def can_read(self) -> bool: ...

    async def send_packed_command(self, command: bytes, check_health: bool) -> None: ...  # noqa: FBT001 - as there

    async def read_response(self, *, timeout: float, disconnect_on_error: bool) -> object: ...

    async def disconnect(self, nowait: bool) -> None: ...  # noqa: FBT001 - as there


class UnsentError(Exception):
    """No connection could be made: nothing of the batch was sent. The cause is the error of the library."""


class Wire:
    """A pooled connection that one task uses at a time.

    The library's connection is driven directly rather than through its pipeline: the pipeline hides what matters after
    an error, namely whether the batch was sent and which of its replies came. `greet` runs on each new connection
    before any command of a batch does.
    """

    def __init__(
        self,
        client: Redis,
        *,
        call_timeout_s: float,
        greet: Callable[[Wire], Awaitable[None]] | None = None,
    ) -> None:
        self._pool: Any = client.connection_pool
        self._timeout_s = call_timeout_s
        self._greet = greet
        self._connection: _Connection | None = None

    async def open(self) -> None:
        """Make sure that there is a connection in step with the server.

        Raises:
            UnsentError: there is none to be had.
        """
        connection = self._connection
        try:
            if connection is not None and connection.is_connected:
                if not await connection.can_read():
                    return
                # Closed by the other side, or a reply that nobody waits for: either way out of step.
                await self.drop()
            if connection is None:
                connection = self._connection = cast("_Connection", await self._pool.get_connection())
            await connection.connect()
            if self._greet is not None:
                await self._greet(self)
        except Exception as error:
            await self.drop()
            raise UnsentError from error
        except BaseException:
            await self.drop()
            raise

    async def exchange(self, batch: Sequence[bytes]) -> list[Reply | BaseException]:
        """Send a batch of packed commands and read its replies.

        Returns:
            One entry a command: its reply, the server's refusal, or, where the connection broke before the reply came,
            the error that broke it.
        """
        connection = self._connection
        if connection is None:
            raise UnsentError
        replies: list[Reply | BaseException] = []
        try:
            async with asyncio.timeout(self._timeout_s) as deadline:
                await connection.send_packed_command(b"".join(batch), check_health=False)
                if deadline.expired():
                    # Before Python 3.12 the library's `asyncio.wait_for` may lose the cancellation that a deadline is.
                    raise TimeoutError  # noqa: TRY301 - it goes the way of the deadline's own
                for _ in batch:
                    replies.append(await _reply(connection))  # noqa: PERF401 - what came before an error is kept
        except Exception as error:  # noqa: BLE001 - whatever broke it, what was not answered may have run
            await self.drop()
            replies.extend([error] * (len(batch) - len(replies)))
        except BaseException:
            await self.drop()
            raise
        if any(isinstance(reply, RedisError) and code_of(reply) == "READONLY" for reply in replies):
            # A replica answers: the next connection may find the master.
            await self.drop()
        return replies

    async def drop(self) -> None:
        """Close the connection; the next `open` makes a new one."""
        if self._connection is not None:
            await self._connection.disconnect(nowait=True)

    async def aclose(self) -> None:
        """Close the connection and give it back to the pool."""
        if self._connection is not None:
            await self.drop()
            await self._pool.release(self._connection)
            self._connection = None


async def _reply(connection: _Connection) -> Reply | BaseException:
    try:
        # The batch has one deadline; one timer a reply would cost more than the reply.
        return cast("Reply", await connection.read_response(timeout=math.inf, disconnect_on_error=False))
    except RedisError as error:
        if is_reply(error):
            return error
        raise


def pack(words: Words) -> bytes:
    """Write one command as the server reads it.

    Raises:
        TypeError: a word is neither text, bytes nor a number.
    """
    return _pack(words)
