"""The client: submits tool calls as jobs and waits for their results. `sync.py` is the same for plain code."""

from __future__ import annotations

import math
import uuid
from collections.abc import Generator, Iterable, Mapping
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Self, Unpack

from ..leases.errors import BadCallError, MyceliumError, SettingsError
from ..leases.store import Store, StoreSettings, open_store
from ..ledger.canon import DEFAULT_MAX_ARGS_BYTES
from ..ledger.identity import MAX_REQUEST_ID_BYTES
from ..ledger.submit import Intent, Submitted
from .gathering import Gatherer
from .job import Job, OnUnknown, Submitter
from .submissions import AnyCall, AnyTool, CallOptions, Submission, intent_of, tools_by_name
from .waiting import Waiters

Tools = Iterable[AnyTool] | Mapping[str, AnyTool]


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientSettings:
    """How a client behaves; seconds and bytes.

    Attributes:
        poll_s: mean seconds between two looks at what is waited for. Messages only make it shorter.
        max_args_bytes: the limit on the canonical arguments of one call.
        store: how the server is spoken to.

    Raises:
        SettingsError: a value is not positive.
    """

    poll_s: float = 1.0
    max_args_bytes: int = DEFAULT_MAX_ARGS_BYTES
    store: StoreSettings = field(default_factory=StoreSettings)

    def __post_init__(self) -> None:
        """Refuse what cannot work."""
        if not (math.isfinite(self.poll_s) and self.poll_s > 0):
            raise SettingsError(f"poll_s is {self.poll_s}.", next_step="Give poll_s a positive value.")
        if self.max_args_bytes < 1:
            raise SettingsError(f"max_args_bytes is {self.max_args_bytes}.", next_step="Give it a positive value.")


class Client:
    """One client of one namespace. Made by `connect`.

    Attributes:
        id: minted per client; names the channel in which the ends of its jobs are told.
        tools: the tools that calls may name.
        store: the server.
        waiters: what is being waited for.
    """

    def __init__(self, store: Store, *, tools: Tools = (), settings: ClientSettings | None = None) -> None:
        self.id = uuid.uuid4().hex
        self.settings = settings or ClientSettings()
        self.tools = tools_by_name(tools)
        self.store = store
        self.waiters = Waiters(store, self.id, poll_s=self.settings.poll_s)
        self._gatherer = Gatherer(store.calls, self.id)
        self._submitter = Submitter(store, self.waiters)

    async def submit(
        self,
        call: AnyCall | str,
        arguments: Mapping[str, object] | None = None,
        **options: Unpack[CallOptions],
    ) -> Job:
        """Record one call and queue it. The same effect joins what is on record, and gets its result.

        Args:
            call: `tool.bind(…)`, or the name of a tool among `tools`.
            arguments: the arguments by name, where the tool is named.
            **options: its identity, how it waits and runs, and how long it is kept: see `CallOptions`.

        Raises:
            BadCallError: the call was refused, and nothing was written: UnknownToolError, BadArgumentsError,
                PayloadTooLargeError, or IdentityConflictError where the request id names another effect.
            ServerError: the server could not be asked. Submitting the same again is safe.
        """
        return self._job(await self._gatherer.submit(self._intent(Submission(call, arguments, **options))))

    async def submit_many(self, submissions: Iterable[Submission]) -> list[Job | MyceliumError]:
        """Record and queue many calls, a script call a hundred.

        Returns:
            One entry a submission, in order: its job, or the error that `submit` would have raised for it. An error of
            one keeps none of the others from being submitted.
        """
        answers: list[Intent | MyceliumError] = [self._try_intent(submission) for submission in submissions]
        intents = [answer for answer in answers if isinstance(answer, Intent)]
        taken = iter(await self._gatherer.submit_all(intents))
        return [self._entry(next(taken)) if isinstance(answer, Intent) else answer for answer in answers]

    async def call(
        self,
        call: AnyCall | str,
        arguments: Mapping[str, object] | None = None,
        *,
        wait_s: float | None = None,
        on_unknown: OnUnknown = "auto",
        **options: Unpack[CallOptions],
    ) -> Any:  # noqa: ANN401 - what the tool returned, as a JSON value
        """Submit a call and wait for its result.

        Args:
            call: as in `submit`; so are `arguments` and `options`.
            arguments: the arguments by name, where the tool is named.
            wait_s: seconds to wait for the result, from the moment at which the call is on record; `timeout_s` is how
                long one attempt may take.
            on_unknown: as in `Job.result`.
            **options: its identity, how it waits and runs, and how long it is kept: see `CallOptions`.

        Raises:
            MyceliumError: as `submit` and `Job.result`.
        """
        job = await self.submit(call, arguments, **options)
        return await job.result(wait_s, on_unknown=on_unknown)

    def job(self, request_id: str) -> Job:
        """Speak of a job by its request id; nothing is read until it is asked.

        Raises:
            BadCallError: no request id looks like this.
        """
        return Job(self._submitter, checked_request_id(request_id), created=None)

    async def aclose(self) -> None:
        """Send what was handed in, end every wait with an error, and close the connections. Jobs go on."""
        await self._gatherer.aclose()
        await self.waiters.aclose()
        await self.store.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    def _intent(self, submission: Submission) -> Intent:
        return intent_of(
            submission,
            self.tools,
            namespace=self.store.keys.namespace,
            max_args_bytes=self.settings.max_args_bytes,
        )

    def _try_intent(self, submission: Submission) -> Intent | MyceliumError:
        try:
            return self._intent(submission)
        except MyceliumError as error:
            return error

    def _entry(self, taken: Submitted | MyceliumError) -> Job | MyceliumError:
        return taken if isinstance(taken, MyceliumError) else self._job(taken)

    def _job(self, taken: Submitted) -> Job:
        return Job(self._submitter, taken.request_id, created=taken.created)


class Connecting:
    """A client that is being connected: `await` it, or enter it with `async with`."""

    def __init__(self, url: str | None, namespace: str, tools: Tools, settings: ClientSettings) -> None:
        self._url = url
        self._namespace = namespace
        self._tools = tools
        self._settings = settings
        self._client: Client | None = None

    def __await__(self) -> Generator[Any, None, Client]:
        return self._open().__await__()

    async def __aenter__(self) -> Client:
        self._client = await self._open()
        return self._client

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._client is not None:
            await self._client.aclose()

    async def _open(self) -> Client:
        tools = tools_by_name(self._tools)
        store = await open_store(self._url, namespace=self._namespace, settings=self._settings.store)
        return Client(store, tools=tools, settings=self._settings)


def connect(
    url: str | None = None,
    *,
    namespace: str = "mycelium",
    tools: Tools = (),
    settings: ClientSettings | None = None,
) -> Connecting:
    """Connect to a server: await the answer, or enter it with `async with`; either gives a client.

    Args:
        url: `redis://`, `rediss://`, `valkey://`, `unix:///path` or `embedded:///directory`; None: the embedded server
            in its default directory.
        namespace: the namespace of every key.
        tools: the tools that calls may name; a bound call brings its own.
        settings: see `ClientSettings`.

    Raises:
        SettingsError: the URL or the namespace is not one.
        BadCallError: something among `tools` is no tool.
        ServerUnavailableError: nothing answered within the connect time.
        ServerUnfitError: the server may not hold a ledger.
    """
    return Connecting(url, namespace, tools, settings or ClientSettings())


def checked_request_id(request_id: str) -> str:
    """Give back a request id that can be one.

    Raises:
        BadCallError: it is blank, too long or not text.
    """
    try:
        good = bool(request_id.strip()) and len(request_id.encode("utf-8")) <= MAX_REQUEST_ID_BYTES
    except (AttributeError, UnicodeEncodeError):
        good = False
    if not good:
        what = f"A request id is 1 to {MAX_REQUEST_ID_BYTES} bytes of text."
        raise BadCallError(what, next_step="Nothing was asked. Correct the id.")
    return request_id
