"""The client for plain code: the same verbs, over one event loop in a thread of its own.

It can be used from many threads at once, and from a thread whose own event loop is running: the call then blocks that
loop until it is over, but never deadlocks, as the client's loop is another. A fork takes no client along: connect anew.
"""

from __future__ import annotations

import atexit
from collections.abc import Callable, Coroutine, Generator, Iterable, Mapping
from queue import SimpleQueue
from threading import Lock
from types import TracebackType
from typing import Any, Self, TypeVar, Unpack

from ..leases.errors import MyceliumError
from ..ledger.cancel import Cancelled
from ..ledger.progress import Progress
from ..ledger.record import Record
from ..ledger.states import State
from .client import Client, ClientSettings, Tools, connect
from .job import Job, OnUnknown
from .portal import Portal
from .submissions import AnyCall, CallOptions, Submission

_T = TypeVar("_T")


class SyncJob:
    """A job, for plain code; see `Job`."""

    def __init__(self, loop: Portal, job: Job) -> None:
        self._loop = loop
        self._job = job

    def __repr__(self) -> str:
        return repr(self._job)

    @property
    def request_id(self) -> str:
        """Its storage identity."""
        return self._job.request_id

    @property
    def created(self) -> bool | None:
        """Whether this very call put it on record; None if it was only looked up."""
        return self._job.created

    def state(self) -> State:
        """As `Job.state`."""
        return self._loop.run(self._job.state)

    def record(self) -> Record:
        """As `Job.record`."""
        return self._loop.run(self._job.record)

    def cancel(self, *, by: str = "", reason: str = "") -> Cancelled:
        """As `Job.cancel`."""
        return self._loop.run(lambda: self._job.cancel(by=by, reason=reason))

    def progress(self) -> Progress | None:
        """As `Job.progress`."""
        return self._loop.run(self._job.progress)

    def follow(self) -> Generator[Progress]:
        """As `Job.follow`; blocks this thread between two of them."""

        async def follow(tell: Callable[[Progress], None]) -> None:
            async for progress in self._job.follow():
                tell(progress)

        yield from self._telling(follow)

    def result(
        self,
        timeout_s: float | None = None,
        *,
        on_unknown: OnUnknown = "auto",
        on_progress: Callable[[Progress], object] | None = None,
    ) -> Any:  # noqa: ANN401 - what the tool returned, as a JSON value
        """As `Job.result`; blocks this thread, in which `on_progress` is called as well."""
        if on_progress is None:
            return self._loop.run(lambda: self._job.result(timeout_s, on_unknown=on_unknown))

        async def result(tell: Callable[[Progress], None]) -> object:
            return await self._job.result(timeout_s, on_unknown=on_unknown, on_progress=tell)

        telling = self._telling(result)
        while True:
            try:
                on_progress(next(telling))
            except StopIteration as end:
                return end.value

    def _telling(
        self, work: Callable[[Callable[[Progress], None]], Coroutine[Any, Any, _T]]
    ) -> Generator[Progress, None, _T]:
        """Do work on the client's loop, and give here what it tells meanwhile; then what it came to."""
        told: SimpleQueue[Progress | None] = SimpleQueue()
        future = self._loop.start(lambda: work(told.put))
        future.add_done_callback(lambda _: told.put(None))
        try:
            while (progress := told.get()) is not None:
                yield progress
            return future.result()
        finally:
            future.cancel()


class SyncClient:
    """A client for plain code; see `Client`. Made by `connect_sync`."""

    def __init__(self, loop: Portal, client: Client) -> None:
        self._loop = loop
        self._client = client
        self._closing = Lock()
        self._closed = False
        # A program that ends without closing leaves neither a half-sent batch nor an embedded server.
        atexit.register(self.close)

    def submit(
        self,
        call: AnyCall | str,
        arguments: Mapping[str, object] | None = None,
        **options: Unpack[CallOptions],
    ) -> SyncJob:
        """As `Client.submit`."""
        return SyncJob(self._loop, self._loop.run(lambda: self._client.submit(call, arguments, **options)))

    def submit_many(self, submissions: Iterable[Submission]) -> list[SyncJob | MyceliumError]:
        """As `Client.submit_many`."""
        listed = list(submissions)
        answers = self._loop.run(lambda: self._client.submit_many(listed))
        return [SyncJob(self._loop, answer) if isinstance(answer, Job) else answer for answer in answers]

    def call(
        self,
        call: AnyCall | str,
        arguments: Mapping[str, object] | None = None,
        *,
        wait_s: float | None = None,
        on_unknown: OnUnknown = "auto",
        **options: Unpack[CallOptions],
    ) -> Any:  # noqa: ANN401 - what the tool returned, as a JSON value
        """As `Client.call`."""
        work = self._client.call
        return self._loop.run(lambda: work(call, arguments, wait_s=wait_s, on_unknown=on_unknown, **options))

    def job(self, request_id: str) -> SyncJob:
        """As `Client.job`."""
        return SyncJob(self._loop, self._client.job(request_id))

    def close(self) -> None:
        """As `Client.aclose`; may be called again, and from any thread."""
        with self._closing:
            if self._closed:
                return
            self._closed = True
        atexit.unregister(self.close)
        if self._loop.forked:
            return
        try:
            self._loop.run(self._client.aclose)
        finally:
            self._loop.stop()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def connect_sync(
    url: str | None = None,
    *,
    namespace: str = "mycelium",
    tools: Tools = (),
    settings: ClientSettings | None = None,
) -> SyncClient:
    """Connect from plain code, best in a `with` statement. Arguments and errors are those of `connect`."""
    loop = Portal()

    async def opened() -> Client:
        return await connect(url, namespace=namespace, tools=tools, settings=settings)

    try:
        return SyncClient(loop, loop.run(opened))
    except BaseException:
        loop.stop()
        raise
