"""The actor that keeps other actors running, and gives up in order when it cannot."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, cast

from ...leases.errors import ActorError, ActorStoppedError, EscalationError, SettingsError
from .backoff import Backoff
from .cell import Cell, Parent
from .messages import Exit, Refusal, StopReason
from .ref import Ref
from .spec import ChildSpec, Restart
from .strategy import Intensity, RestartCount, Strategy
from .timer import Cancellable


@dataclass(frozen=True, slots=True)
class StartChild:
    """Ask: start one more child, last in order. The answer is its Ref. It is lost when the supervisor fails."""

    spec: ChildSpec


@dataclass(frozen=True, slots=True)
class StopChild:
    """Ask: stop the child of that name for good. The answer is how it ended (an Exit)."""

    name: str


@dataclass(frozen=True, slots=True)
class _ChildEnded:
    cell: Cell
    end: Exit
    restarts: int


@dataclass(eq=False, slots=True)
class _Due:
    names: list[str]
    call: Cancellable | None = None


async def start_child(supervisor: Ref[Any], spec: ChildSpec, *, timeout_s: float) -> Ref[Any]:
    """Start a child under a running supervisor, and return its Ref.

    Raises:
        ActorError: the name is taken.
        Exception: what its `started` raised; no child was added.
    """
    return cast("Ref[Any]", await supervisor.ask(StartChild(spec), timeout_s=timeout_s))


async def stop_child(supervisor: Ref[Any], name: str, *, timeout_s: float) -> Exit:
    """Stop a child for good, within its own `stop_within_s`; returns how it ended.

    Raises:
        ActorError: there is no such child.
    """
    return await supervisor.ask(StopChild(name), timeout_s=timeout_s, reply_type=Exit)


def supervise(  # noqa: PLR0913 - a tree reads best when each branch is said in one call
    name: str,
    children: Sequence[ChildSpec],
    *,
    strategy: Strategy = Strategy.ONE_FOR_ONE,
    max_restarts: int = 3,
    within_s: float = 5.0,
    in_a_row: int = 10,
    restart: Restart = Restart.PERMANENT,
    backoff: Backoff | None = None,
    capacity: int = 256,
) -> ChildSpec:
    """The spec of a supervisor over `children`: a child of another supervisor, or the root of a system.

    It has no deadline of its own for start or stop; each of its children has.

    Raises:
        SettingsError: two children of one name, or a back-off that the intensity could never notice.
    """
    intensity = Intensity(max_restarts, within_s, in_a_row)
    for child in children:
        intensity.check(child)
    if len({child.name for child in children}) != len(children):
        raise SettingsError(f"Two children of {name!r} have one name.", next_step="Give each its own.")
    return ChildSpec(
        name=name,
        factory=partial(Supervisor, tuple(children), strategy, intensity),
        restart=restart,
        stop_within_s=math.inf,
        start_within_s=math.inf,
        backoff=backoff or Backoff(),
        capacity=capacity,
        ends="its children end, each within its own deadline",
    )


class Supervisor(Parent):
    """Starts its children in order, stops them in reverse, and restarts the failed by its strategy.

    If a child fails in its first start, so does the supervisor, with the child's own error. A failure after that is
    answered with a restart; one too many within the window raises EscalationError, which ends this life: the children
    are suspended, and the supervisor above decides.
    """

    def __init__(self, specs: Sequence[ChildSpec], strategy: Strategy, intensity: Intensity) -> None:
        self._specs = specs
        self._strategy = strategy
        self._intensity = intensity
        self._count = RestartCount(intensity)
        self._starting: Cell | None = None
        self._told_to_end = False
        self._due: list[_Due] = []

    async def started(self) -> None:
        """Start all children, in order."""
        self._take_over()
        try:
            for cell in list(self.children.values()):
                await self._start_first(cell)
        except (Exception, asyncio.CancelledError):
            await self._halt(StopReason.RESTART, final=False)
            raise

    async def receive(self, message: object) -> object:
        """A child's end, a restart that is due, or a wish for one child more or less."""
        match message:
            case _ChildEnded(cell, end, restarts):
                # Another failure may have dealt with this one already.
                if cell.restarts == restarts and self._is_news(cell):
                    await self._child_ended(cell, end)
            case _Due():
                await self._start_again(message)
            case StartChild(spec):
                return await self._start_child(spec)
            case StopChild(name):
                return await self._stop_child(name)
            case _:
                return Refusal(ActorError("A supervisor does not take this message.", next_step="Ask a child of it."))
        return None

    async def stopping(self, reason: StopReason) -> None:
        """End all children, in reverse; they keep their mailboxes when there may be another life."""
        await self._halt(reason, final=reason not in {StopReason.RESTART, StopReason.CRASHED})

    def asked_to_end(self) -> None:
        """Do not wait for a child that is still starting."""
        self._told_to_end = True
        if self._starting is not None:
            self._starting.abort_start()

    # ── start and stop ───────────────────────────────────────────────────────────────────────────────────────────────

    def _take_over(self) -> None:
        """Make a cell for each spec, or take the one of the life before; what was added at run time is gone."""
        before = dict(self.children)
        self.children.clear()
        for spec in self._specs:
            cell = before.pop(spec.name, None)
            if cell is None or cell.buried:
                cell = self._new_cell(spec)
            cell.report = self._report
            self.children[spec.name] = cell
        for cell in before.values():
            cell.bury(Exit(StopReason.SHUTDOWN))

    def _new_cell(self, spec: ChildSpec) -> Cell:
        return Cell(spec, f"{self.ref.path}/{spec.name}", self.around, self._report)

    def _report(self, cell: Cell, end: Exit) -> None:
        self.ref.tell_first(_ChildEnded(cell, end, cell.restarts))

    async def _start(self, cell: Cell) -> Exit | None:
        if self._told_to_end:
            return Exit(StopReason.SHUTDOWN)
        self._starting = cell
        try:
            return await cell.start()
        finally:
            self._starting = None

    async def _start_first(self, cell: Cell) -> None:
        # Left running only if a life of this supervisor was cut short by a cancel.
        _must_have_ended(cell, await cell.suspend(StopReason.RESTART))
        failure = await self._start(cell)
        if failure is not None:
            raise failure.error or ActorStoppedError(
                f"The start of {cell.path} was called off.", next_step="Its supervisor was told to stop; nothing to do."
            )

    async def _halt(self, reason: StopReason, *, final: bool) -> None:
        fatal: BaseException | None = None
        self._call_off({name for due in self._due for name in due.names})
        for cell in reversed(list(self.children.values())):
            end = await (cell.stop(reason) if final else cell.suspend(reason))
            if end.reason is StopReason.FATAL:
                fatal = fatal or end.error
        if fatal is not None and reason is not StopReason.FATAL:
            raise fatal

    # ── a child has failed ───────────────────────────────────────────────────────────────────────────────────────────

    def _is_news(self, cell: Cell) -> bool:
        name = cell.spec.name
        return self.children.get(name) is cell and not any(name in due.names for due in self._due)

    async def _child_ended(self, cell: Cell, end: Exit) -> None:
        if end.reason is StopReason.FATAL and end.error is not None:
            raise end.error
        if not cell.spec.restart.follows(end.reason):
            cell.bury(end)
            if cell.spec not in self._specs or cell.spec.restart is Restart.TEMPORARY:
                del self.children[cell.spec.name]
            return
        _must_have_ended(cell, end)
        if not self._count.one_more(self.timer.monotonic()):
            raise self._too_many(cell) from end.error
        delay_s = cell.next_delay_s()
        if cell.crashes_in_a_row > self._intensity.in_a_row:
            raise self._never_healthy(cell) from end.error
        await self._plan_restart(cell, delay_s)

    async def _plan_restart(self, failed: Cell, delay_s: float) -> None:
        living = [name for name, cell in self.children.items() if not cell.buried]
        names = set(self._strategy.affected(living, failed.spec.name))
        names |= self._call_off(names)
        in_order = [name for name in living if name in names]
        for name in reversed(in_order):
            if name != failed.spec.name:
                await self._take_down(self.children[name])
        due = _Due([name for name in in_order if name in self.children])
        due.call = self.timer.call_later(delay_s, self.ref.tell_first, due)
        self._due.append(due)

    async def _take_down(self, cell: Cell) -> None:
        """End a sibling of the failed; a temporary one for good."""
        _must_have_ended(cell, await cell.suspend(StopReason.RESTART))
        if cell.spec.restart is Restart.TEMPORARY:
            cell.bury(Exit(StopReason.RESTART))
            del self.children[cell.spec.name]

    def _call_off(self, names: set[str]) -> set[str]:
        """Call off the restarts that touch `names`; returns all the names that were in them."""
        touched = [due for due in self._due if names.intersection(due.names)]
        for due in touched:
            self._due.remove(due)
            if due.call is not None:
                due.call.cancel()
        return {name for due in touched for name in due.names}

    async def _start_again(self, due: _Due) -> None:
        if due not in self._due:
            return
        self._due.remove(due)
        for index, name in enumerate(due.names):
            cell = self.children.get(name)
            if cell is None or cell.buried:
                continue
            failure = await self._start(cell)
            if self._told_to_end:
                return
            if failure is not None:
                self._due.append(_Due(due.names[index:]))  # so that the rest is not forgotten
                await self._child_ended(cell, failure)
                return

    def _too_many(self, cell: Cell) -> EscalationError:
        return EscalationError(
            f"{self.ref.path} restarted its children more than {self._intensity.max_restarts} times within "
            f"{self._intensity.within_s:.3g} s; the last to fail was {cell.path} ({cell.last_error}).",
            next_step="The supervisor above decides; look at the first error in the log, not at the last.",
        )

    def _never_healthy(self, cell: Cell) -> EscalationError:
        return EscalationError(
            f"{cell.path} has failed {cell.crashes_in_a_row} times in a row, and never ran for "
            f"{cell.spec.backoff.reset_after_s:.3g} s in between ({cell.last_error}).",
            next_step="The supervisor above decides; look at the first error in the log, not at the last.",
        )

    # ── children that come and go ────────────────────────────────────────────────────────────────────────────────────

    async def _start_child(self, spec: ChildSpec) -> object:
        if spec.name in self.children and not self.children[spec.name].buried:
            what = f"{self.ref.path} has a child {spec.name!r}."
            return Refusal(ActorError(what, next_step="Stop that one first, or use another name."))
        try:
            self._intensity.check(spec)
        except SettingsError as error:
            return Refusal(error)
        self.children.pop(spec.name, None)
        cell = self.children[spec.name] = self._new_cell(spec)
        failure = await self._start(cell)
        if failure is None:
            return cell.ref
        del self.children[spec.name]
        cell.bury(failure)
        if failure.reason is StopReason.FATAL and failure.error is not None:
            raise failure.error
        if isinstance(failure.error, Exception):
            return Refusal(failure.error)
        what = f"{cell.path} ended while it started ({failure.reason})."
        return Refusal(ActorStoppedError(what, next_step="See the log of its supervisor."))

    async def _stop_child(self, name: str) -> object:
        cell = self.children.get(name)
        if cell is None:
            what = f"{self.ref.path} has no child {name!r}."
            return Refusal(ActorError(what, next_step="Look at the tree."))
        end = await cell.stop(StopReason.SHUTDOWN)
        self.children.pop(name, None)
        if end.reason is StopReason.FATAL and end.error is not None:
            raise end.error
        return end


def _must_have_ended(cell: Cell, end: Exit) -> None:
    """Two lives of one actor never run side by side: only the end of the process ends a coroutine that would not."""
    if end.reason is StopReason.FATAL and end.error is not None:
        raise end.error
    if end.reason is StopReason.DETACHED:
        raise EscalationError(
            f"{cell.path} did not end when cancelled, so it cannot be started again beside itself.",
            next_step="The failure goes up to the root, and the process ends; start it again.",
        )
