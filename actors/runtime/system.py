"""A tree of actors with its root: start it, run it until it ends, stop it in order."""

from __future__ import annotations

import asyncio
from contextlib import nullcontext
from random import Random
from types import TracebackType
from typing import Any, Self

from ...leases.errors import ActorError, ActorStoppedError
from .cell import Cell
from .mailbox import stopped_error
from .messages import Exit, StopReason
from .ref import Ref
from .snapshot import ActorSnapshot
from .spec import ChildSpec
from .strays import strays_to
from .surroundings import Surroundings
from .timer import LoopTimer, Timer


class ActorSystem:
    """One tree in one event loop. Its root (a supervisor, as a rule) is not restarted: when it fails, the system has.

    Make it inside the running loop. `async with` starts it and stops it.
    """

    def __init__(self, root: ChildSpec, *, timer: Timer | None = None, rng: Random | None = None) -> None:
        self._around = Surroundings(timer=timer or LoopTimer(), rng=rng or Random())  # noqa: S311 - jitter, no secret
        self._root = Cell(root, f"/{root.name}", self._around, self._root_ended)
        self._over: asyncio.Future[Exit] = asyncio.get_running_loop().create_future()
        self._begun = False
        self._failure: BaseException | None = None
        self._failing: asyncio.Task[None] | None = None
        self._around.snapshot = self._root.snapshot

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.stop()
        if kind is None:
            self._raise_failure()

    @property
    def root(self) -> Ref[Any]:
        """The Ref of the root."""
        return self._root.ref

    def find(self, path: str) -> Ref[Any]:
        """The actor at an absolute path.

        Raises:
            ActorStoppedError: nobody lives there.
        """
        ref = self._around.directory.get(path)
        if ref is None:
            raise stopped_error(path)
        return ref

    def tree(self) -> ActorSnapshot:
        """How every actor stands now. `dataclasses.asdict` makes plain dicts of it."""
        return self._root.snapshot()

    async def start(self) -> None:
        """Start the tree, and return when every actor in it has started.

        Raises:
            Exception: what the first actor that failed to start raised. All that had started have been stopped.
        """
        if self._begun or self._over.done():
            raise ActorError("The system was started before.", next_step="Make a new ActorSystem.")
        self._begun = True
        failure = await self._root.start()
        if failure is not None:
            self._end(failure)
            raise (
                self._failure
                or failure.error
                or ActorStoppedError(
                    "The system was stopped while it started.",
                    next_step="Nothing runs; start a new one if that was a mistake.",
                )
            )

    async def run(self, *, owns_loop: bool = False) -> StopReason:
        """Start if need be, and return when the system has been stopped, with the reason.

        When this is cancelled the system is stopped in order first. A second cancel leaves at once.

        Args:
            owns_loop: nothing else of importance runs in this loop: an exception that reaches the loop itself, from a
                callback or a forgotten task, fails the system. Nobody could say what it has left undone.

        Raises:
            EscalationError: the root failed, or the system as a whole.
            BaseException: the KeyboardInterrupt, SystemExit or the like that an actor raised; all was stopped in order.
        """
        with strays_to(self.fail) if owns_loop else nullcontext():
            try:
                if not self._begun:
                    await self.start()
                end = await asyncio.shield(self._over)
            except asyncio.CancelledError:
                await self.stop(StopReason.CANCELLED)
                raise
        self._raise_failure()
        return end.reason

    def fail(self, error: BaseException) -> None:
        """End the system as failed: every actor is stopped in order, and `run` raises `error`. The first one counts."""
        if self._failure is None and not self._over.done():
            self._failure = error
            self._failing = asyncio.get_running_loop().create_task(self.stop(), name=f"{self._root.path}:fail")

    async def stop(self, reason: StopReason = StopReason.SHUTDOWN) -> None:
        """Stop every actor in reverse order of start, each within its own deadline. Does nothing the second time.

        Raises:
            BaseException: the KeyboardInterrupt, SystemExit or the like that an actor raised; all was stopped in order.
        """
        if not self._over.done():
            self._end(await self._root.stop(reason))
        if self._over.result().reason is StopReason.FATAL:
            self._raise_failure()

    def _raise_failure(self) -> None:
        end = self._over.result()
        if end.reason in {StopReason.CRASHED, StopReason.FATAL} and end.error is not None:
            raise end.error

    def _root_ended(self, cell: Cell, end: Exit) -> None:
        del cell
        self._end(end)

    def _end(self, end: Exit) -> None:
        if self._failure is not None and end.reason is not StopReason.FATAL:
            end = Exit(StopReason.CRASHED, self._failure)
        self._root.bury(end)
        if not self._over.done():
            self._over.set_result(end)
