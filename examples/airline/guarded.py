"""The demo as the product runs it: jobs on a ledger, `mycelium-worker` processes, a reconciler for what is in doubt."""

from __future__ import annotations

import asyncio
from typing import Self

from ...actors.client import Client, connect
from ...actors.load import load_tools
from ...leases.errors import (
    JobFailedError,
    JobNotFoundError,
    JobUnknownError,
    MyceliumError,
    OutcomeError,
    ResultTimeoutError,
)
from .calls import NAMESPACE, TOOLS_MODULE, RecordedCall
from .replay import Way
from .score import Ended, Ending
from .stage import LOOK_EVERY_S, START_LIMIT_S, Actor, Stage

HOSTS = 2
SLOTS = 8
TTL_S = 3.0
"""Short, so that the dead are noticed within the demo's minute."""

GRACE_S = 2.0
WAIT_S = 25.0
"""How long a call is waited for; what is in doubt by then is told as unknown, and its run goes on."""

LAST_WAIT_S = 10.0
NOT_EXECUTED = "NotExecuted"
VERDICT = "verdict"


class Guarded(Way):
    """Runs calls as jobs. Use it as a context manager.

    Args:
        url: the ledger's server.
    """

    def __init__(self, url: str) -> None:
        self._url = url
        self._client: Client
        self._request_ids: dict[str, str] = {}
        """By the key that the airline was sent."""

    async def __aenter__(self) -> Self:
        self._client = await connect(self._url, namespace=NAMESPACE, tools=load_tools(TOOLS_MODULE))
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._client.aclose()

    async def start_worker(self, stage: Stage, number: int) -> Actor:
        """Start a `mycelium-worker` with two hosts."""
        options = {
            "--url": self._url,
            "--namespace": NAMESPACE,
            "--name": f"worker {number}",
            "--hosts": HOSTS,
            "--slots": SLOTS,
            "--ttl": TTL_S,
            "--grace": GRACE_S,
        }
        flat = [str(word) for pair in options.items() for word in pair]
        return await stage.start(f"worker {number}", ["mycelium", "worker", TOOLS_MODULE, *flat])

    async def wait_for_workers(self, stage: Stage, number: int) -> None:
        """Wait until their sessions are open."""
        store = self._client.store
        try:
            async with asyncio.timeout(START_LIMIT_S):
                while await store.calls.read("ZCARD", store.keys.sessions()) != number:
                    stage.check()
                    await asyncio.sleep(LOOK_EVERY_S)
        except TimeoutError:
            what = f"The workers of the demo opened no sessions within {START_LIMIT_S:g} s."
            raise MyceliumError(what, next_step=f"Read their logs in {stage.directory}") from None

    async def perform(self, call: RecordedCall) -> Ending:
        """Submit a call with its place in the agent's run, and wait for its result."""
        job = await self._client.submit(
            call.tool,
            call.arguments,
            run_id=call.run_id,
            step=call.step,
            ordinal=call.ordinal,
            tool_call_id=call.tool_call_id,
        )
        self._request_ids[call.key] = job.request_id
        return await self._ending(job.request_id, WAIT_S)

    async def _ending(self, request_id: str, timeout_s: float) -> Ending:
        try:
            return Ending(Ended.COMPLETED, str(await self._client.job(request_id).result(timeout_s)))
        except JobFailedError as error:
            return Ending(Ended.REFUSED if error.cause == NOT_EXECUTED else Ended.FAILED, error.detail)
        except JobUnknownError as error:
            return Ending(Ended.UNKNOWN, error.cause)
        except OutcomeError as error:
            return Ending(Ended.FAILED, error.cause)
        except (ResultTimeoutError, JobNotFoundError) as error:
            return Ending(Ended.LOST, str(error))

    async def bury(self, worker: Actor) -> None:
        """Nothing is done by hand: its session lapses, and the sweeper finds what it held."""

    async def unknown_now(self) -> int:
        """How many jobs are in doubt at this moment."""
        store = self._client.store
        value = await store.calls.read("HGET", store.keys.states(), "unknown")
        return int(value) if isinstance(value, bytes) else 0

    async def review(self, endings: dict[str, Ending]) -> dict[str, Ending]:
        """Wait once more for what is in doubt, and find out which endings the reconciler's word settled."""
        reviewed = await asyncio.gather(*(self._review(*pair) for pair in endings.items()))
        return dict(zip(endings, reviewed, strict=True))

    async def _review(self, key: str, ending: Ending) -> Ending:
        if ending.ended in {Ended.UNKNOWN, Ended.LOST}:
            ending = await self._ending(self._request_ids[key], LAST_WAIT_S)
        if ending.ended is Ended.LOST:
            return ending
        record = await self._client.job(self._request_ids[key]).record()
        settled = ending.ended is not Ended.UNKNOWN and any(entry.why == VERDICT for entry in record.history)
        return Ending(ending.ended, ending.text, reconciled=settled)
