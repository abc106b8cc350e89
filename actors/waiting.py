"""Waits for transitions to end: told by a message, and told anyway by a poll when no message comes. It only reads."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Generator
from contextlib import contextmanager

from ..leases.errors import MyceliumError, ReplyLostError, ScriptError, ServerUnavailableError
from ..leases.store import Store
from ..leases.subscription import Heard
from ..ledger.replies import items, text
from ..ledger.states import HELD, TERMINAL, State
from .owners import Owners

_POLLED = 1000
"""Waits that one poll interval is meant for."""


class Watch:
    """One waiter of one transition.

    Args:
        unknown: whether an unknown outcome wakes it too.

    Attributes:
        lost_owner: the session that held it when the server was asked last, if that is lost for good: see `Owners`.
    """

    def __init__(self, *, unknown: bool) -> None:
        self.lost_owner = ""
        self._unknown = unknown
        self._woken = asyncio.Event()
        self._broken: MyceliumError | None = None

    def interested(self, state: State | None) -> bool:
        """Tell whether a state ends the wait. A row that is gone does, as there is nothing to wait for."""
        return state is None or state in TERMINAL or (self._unknown and state is State.UNKNOWN)

    def wake(self) -> None:
        """Have it look."""
        self._woken.set()

    def fail(self, error: MyceliumError) -> None:
        """End its wait with an error that no waiting mends."""
        self._broken = error
        self._woken.set()

    async def changed(self, within_s: float | None = None) -> None:
        """Wait until there is reason to look, or so many seconds.

        Raises:
            MyceliumError: the server will not answer this client any more.
        """
        try:
            async with asyncio.timeout(within_s):
                await self._woken.wait()
        except TimeoutError:
            return
        self._woken.clear()
        if self._broken is not None:
            raise self._broken


class Waiters:
    """All the waits of one client: one subscription and one poll for all of them.

    Args:
        store: the server.
        client_id: names the channel in which the ends of this client's jobs are told.
        poll_s: mean seconds between two polls; messages only make it shorter.

    Attributes:
        poll_s: the same.
    """

    def __init__(self, store: Store, client_id: str, *, poll_s: float) -> None:
        self._store = store
        self._channel = store.keys.settled(client_id)
        self.poll_s = poll_s
        self._owners = Owners(store)
        self._watches: dict[str, set[Watch]] = {}
        self._poll_now = asyncio.Event()
        self._wanted = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []

    @property
    def outstanding(self) -> int:
        """How many transitions are waited for."""
        return len(self._watches)

    @contextmanager
    def watching(self, request_id: str, *, unknown: bool) -> Generator[Watch, None, None]:
        """Watch one transition while the block runs."""
        watch = Watch(unknown=unknown)
        self._watches.setdefault(request_id, set()).add(watch)
        self._wanted.set()
        if not self._tasks:
            # Not before somebody waits: a client that only submits needs neither.
            loop = asyncio.get_running_loop()
            self._tasks = [loop.create_task(work(), name="mycelium-waiters") for work in (self._listen, self._poll)]
        try:
            yield watch
        finally:
            watches = self._watches[request_id]
            watches.discard(watch)
            if not watches:
                del self._watches[request_id]
            if not self._watches:
                self._wanted.clear()

    async def aclose(self) -> None:
        """Stop listening and polling; who still waits, waits in vain, so it is woken with an error."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        what = "The client was closed while somebody waited."
        self._fail(ServerUnavailableError(what, next_step="The job goes on. Connect again and ask by its request id."))

    async def _listen(self) -> None:
        async for word in self._store.listen(self._channel):
            if isinstance(word, Heard):
                for request_id in word.body.decode("utf-8", "replace").split("\t"):
                    for watch in self._watches.get(request_id, ()):
                        watch.wake()
            else:
                # What was told while the connection was away was not heard.
                self._poll_now.set()

    async def _poll(self) -> None:
        while True:
            await self._wanted.wait()
            await self._pause()
            try:
                await self._look()
            except (ServerUnavailableError, ReplyLostError):
                continue  # the server may come back, and the job with it
            except MyceliumError as error:
                self._fail(error)

    async def _pause(self) -> None:
        # With many waits the poll gets rarer rather than dearer: it is only the net under the messages.
        mean_s = self.poll_s * max(1.0, len(self._watches) / _POLLED)
        try:
            async with asyncio.timeout(mean_s * random.uniform(0.5, 1.5)):  # noqa: S311 - no secret
                await self._poll_now.wait()
        except TimeoutError:
            return
        self._poll_now.clear()

    async def _look(self) -> None:
        request_ids = list(self._watches)
        found = await asyncio.gather(*[self._state(request_id) for request_id in request_ids])
        lost = await self._owners.lost(session for state, session in found if state in HELD)
        for request_id, (state, session) in zip(request_ids, found, strict=True):
            for watch in self._watches.get(request_id, ()):
                watch.lost_owner = session if state in HELD and session in lost else ""
                if watch.lost_owner or watch.interested(state):
                    watch.wake()

    async def _state(self, request_id: str) -> tuple[State | None, str]:
        """Where it stands, and who holds it."""
        try:
            reply = await self._store.calls.read("HMGET", self._store.keys.row(request_id), "state", "session")
            state, session = [text(value or b"") for value in items(reply)]
            return State(state), session
        except (ScriptError, ValueError):
            return None, ""  # no row, or none of ours: whoever waits for it looks by itself, and hears so

    def _fail(self, error: MyceliumError) -> None:
        for watches in self._watches.values():
            for watch in watches:
                watch.fail(error)
