"""Gathers the submits of many coroutines: what is handed in during one turn of the loop goes out together."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ..leases.channel import Channel
from ..leases.errors import MyceliumError
from ..ledger.submit import BATCH, Intent, Submitted, submit

_BATCH_BYTES = 4 << 20
"""Arguments in one script call: a call that carries more keeps the server from everybody else for too long."""


@dataclass(slots=True, eq=False)
class _Entry:
    intent: Intent
    future: asyncio.Future[Submitted]


class Gatherer:
    """Submits intents in batches.

    Args:
        calls: the channel for job traffic.
        client_id: who is told when the jobs end.
    """

    def __init__(self, calls: Channel, client_id: str) -> None:
        self._calls = calls
        self._client_id = client_id
        self._waiting: list[_Entry] = []
        self._tasks: set[asyncio.Task[None]] = set()

    async def submit(self, intent: Intent) -> Submitted:
        """Hand in one intent. A caller who is cancelled before the batch left submits nothing; later, it is submitted.

        Raises:
            IdentityConflictError: the request id names another effect.
            ServerError: the server could not be asked; submitting again joins what was taken.
        """
        return await self._put(intent)

    async def submit_all(self, intents: list[Intent]) -> list[Submitted | MyceliumError]:
        """Hand in several intents; an error of one is its entry in the answer."""
        answers = await asyncio.gather(*[self._put(intent) for intent in intents], return_exceptions=True)
        for answer in answers:
            if isinstance(answer, BaseException) and not isinstance(answer, MyceliumError):
                raise answer
        return [answer for answer in answers if isinstance(answer, (Submitted, MyceliumError))]

    async def aclose(self) -> None:
        """Wait for the batches that are on the way."""
        while self._tasks:
            await asyncio.wait(self._tasks)

    def _put(self, intent: Intent) -> asyncio.Future[Submitted]:
        loop = asyncio.get_running_loop()
        if not self._waiting:
            # Runs after the coroutines that are ready now, so that theirs go along.
            loop.call_soon(self._flush)
        entry = _Entry(intent, loop.create_future())
        self._waiting.append(entry)
        return entry.future

    def _flush(self) -> None:
        entries, self._waiting = self._waiting, []
        task = asyncio.get_running_loop().create_task(self._send(entries))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _send(self, entries: list[_Entry]) -> None:
        for batch in _batches(entries):
            live = [entry for entry in batch if not entry.future.done()]
            try:
                taken = await submit(self._calls, [entry.intent for entry in live], client_id=self._client_id)
            except Exception as error:  # noqa: BLE001 - it is each caller's to handle
                for entry in live:
                    _fail(entry, error)
            else:
                _answer(live, taken)


def _batches(entries: list[_Entry]) -> Iterator[list[_Entry]]:
    batch: list[_Entry] = []
    size = 0
    for entry in entries:
        weight = len(entry.intent.identity.args)
        if batch and (len(batch) == BATCH or size + weight > _BATCH_BYTES):
            yield batch
            batch, size = [], 0
        batch.append(entry)
        size += weight
    if batch:
        yield batch


def _answer(entries: Sequence[_Entry], taken: Sequence[Submitted | MyceliumError]) -> None:
    created: set[str] = set()
    for entry, answer in zip(entries, taken, strict=True):
        if isinstance(answer, MyceliumError):
            _fail(entry, answer)
            continue
        # One script call cannot tell the second of two equal calls in it from a repeat of itself.
        told = dataclasses.replace(answer, created=False) if answer.request_id in created else answer
        created.add(answer.request_id)
        if not entry.future.done():
            entry.future.set_result(told)


def _fail(entry: _Entry, error: Exception) -> None:
    if not entry.future.done():
        entry.future.set_exception(error)
