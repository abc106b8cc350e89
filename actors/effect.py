"""What a tool body says about its effect: where it begins, and what the provider calls it."""

from __future__ import annotations

import asyncio
import functools
import warnings
from collections.abc import Awaitable, Coroutine, Generator
from concurrent import futures
from contextvars import ContextVar
from types import TracebackType
from typing import Any

from ..leases.errors import BadArgumentsError, BoundaryError
from ..leases.tool_host import below_a_tool_host
from .context import RUNNING, RunningCall

MAX_REF_BYTES = 512

BODY_LOOP: ContextVar[asyncio.AbstractEventLoop | None] = ContextVar("mycelium_body_loop", default=None)
"""The loop that awaits the running body, where it is another one than marks are sent from; a wait must not block it."""


def side_effect() -> SideEffect:
    """Wrap the external call; plain tools say `with`, async ones `async with`.

    On the way in, the mark `maybe_crossed` is written durably and its acknowledgement awaited; on a clean way out the
    boundary is `crossed`; an exception inside leaves it at `maybe_crossed`. Where the runtime has already written the
    mark (boundary mode `automatic`), the way in costs nothing. Outside a worker it does nothing and warns once; below a
    worker, where no call is known (a bare thread, a program that a tool started), it refuses.

    Raises:
        BoundaryError: on the way in: the mark was refused or did not get through. The effect must not start.
    """
    return SideEffect()


class SideEffect:
    """The block that `side_effect()` opens."""

    __slots__ = ("_running",)

    def __init__(self) -> None:
        self._running = RUNNING.get()
        if self._running is None:
            _outside()

    def __enter__(self) -> None:
        """Write the mark, and block this thread until it is acknowledged."""
        if self._running is not None and self._running.needs_mark():
            _block(self._running, None)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Note a clean return."""
        if self._running is not None and kind is None:
            self._running.crossed()

    async def __aenter__(self) -> None:
        """Write the mark and await its acknowledgement."""
        running = self._running
        if running is None or not running.needs_mark():
            return
        if _on_loop(running):
            await running.mark(None)
        else:
            # A plain tool may run a loop of its own in its thread; and in process the loop is the program's.
            await _told(_ask(running, None), running.mark_within_s())

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Note a clean return."""
        self.__exit__(kind, error, trace)


def record_external_operation(ref: str) -> Awaitable[None]:
    """Store, for the reconciler, what the provider calls this operation: its id, or the key that was sent.

    In a plain tool it blocks until the reference is recorded, and the answer can be ignored. In an async tool the
    writing starts at once; `await` the answer to know that it is done. A reference means that a request may have left:
    the boundary becomes `maybe_crossed` with it. Outside a worker it does nothing and warns once.

    Args:
        ref: 1 to 512 bytes of text.

    Raises:
        BadArgumentsError: the reference is not such a text.
        BoundaryError: it could not be recorded (in an async tool: raised by the `await`).
    """
    _check_ref(ref)
    running = RUNNING.get()
    if running is None:
        _outside()
        return Recorded()
    running.note(ref)
    if _on_loop(running):
        return _begun(running.mark(ref))
    if _is_here(BODY_LOOP.get()):
        return _begun(_told(_ask(running, ref), running.mark_within_s()))
    _block(running, ref)
    return Recorded()


class Recorded:
    """An awaitable that is done, in any loop or none."""

    __slots__ = ()

    def __await__(self) -> Generator[None, None, None]:
        yield from ()


def _check_ref(ref: object) -> None:
    try:
        fits = isinstance(ref, str) and 0 < len(ref.encode()) <= MAX_REF_BYTES
    except UnicodeEncodeError:
        fits = False
    if not fits:
        what = f"A reference to an external operation is text of 1 to {MAX_REF_BYTES} bytes."
        raise BadArgumentsError(what, next_step="Pass the provider's id of the operation, or the key that was sent.")


def _on_loop(running: RunningCall) -> bool:
    return _is_here(running.loop)


def _is_here(loop: asyncio.AbstractEventLoop | None) -> bool:
    try:
        return asyncio.get_running_loop() is loop
    except RuntimeError:
        return False


def _ask(running: RunningCall, ref: str | None) -> futures.Future[None]:
    marking = running.mark(ref)
    try:
        return asyncio.run_coroutine_threadsafe(marking, running.loop)
    except RuntimeError:
        marking.close()
        raise _unmarked("The ledger of this call is closed, so the effect could not be marked.") from None


def _block(running: RunningCall, ref: str | None) -> None:
    if _on_loop(running) or _is_here(BODY_LOOP.get()):
        what = "A plain `with side_effect()` would block the loop that its tool runs on."
        raise BoundaryError(what, next_step="Nothing was started. Use `async with side_effect()` in an async tool.")
    asked = _ask(running, ref)
    try:
        asked.result(timeout=running.mark_within_s())
    except (futures.TimeoutError, futures.CancelledError):
        asked.cancel()
        raise _unmarked("The mark was not acknowledged in time.") from None


async def _told(asked: futures.Future[None], within_s: float) -> None:
    try:
        async with asyncio.timeout(within_s):
            await asyncio.wrap_future(asked)
    except TimeoutError:
        raise _unmarked("The mark was not acknowledged in time.") from None
    except asyncio.CancelledError:
        task = asyncio.current_task()
        if task is None or task.cancelling() or not asked.cancelled():
            raise
        # Not this task was cancelled: the thread that sends marks has ended.
        raise _unmarked("The ledger of this call was closed before the mark was acknowledged.") from None


def _unmarked(what: str) -> BoundaryError:
    return BoundaryError(what, next_step="Do not start the effect; let the error end the tool.")


def _begun(marking: Coroutine[Any, Any, None]) -> Awaitable[None]:
    task = asyncio.get_running_loop().create_task(marking)
    task.add_done_callback(_retrieve)
    return task


def _retrieve(task: asyncio.Task[None]) -> None:
    # Nobody has to await: the reference also travels with the settlement.
    if not task.cancelled():
        task.exception()


def _outside() -> None:
    if below_a_tool_host():
        what = "No tool call is known here, so the effect could not be marked."
        next_step = (
            "Do not start it. In a thread of the tool's own, run the code in a copy of the tool's context; around the "
            "start of a program, let the tool itself write side_effect()."
        )
        raise BoundaryError(what, next_step=next_step)
    _warn_outside()


@functools.cache
def _warn_outside() -> None:
    said = "no worker runs this call: side_effect() and record_external_operation() record nothing here"
    warnings.warn(said, RuntimeWarning, stacklevel=4)
