"""One actor over all of its lives: it keeps Ref, mailbox and children while instances come and go."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any

from ...leases.errors import SettingsError
from .actor import Actor
from .grave import Grave
from .life import Life, described, log
from .mailbox import Mailbox
from .messages import Exit, Failed, StopReason, Terminated
from .ref import Ref
from .snapshot import ActorSnapshot, ActorState
from .spec import ChildSpec
from .surroundings import Surroundings


class Parent(Actor[Any]):
    """An actor with children. They belong to its cell, so they outlive the instance and keep their Refs."""

    children: dict[str, Cell]
    around: Surroundings

    def adopt(self, children: dict[str, Cell], around: Surroundings) -> None:
        """Called by the runtime before `started`, with the children of the life before."""
        self.children = children
        self.around = around


class Cell:
    """Starts, suspends and buries one actor at its supervisor's word. Every end that nobody asked for is reported."""

    def __init__(
        self, spec: ChildSpec, path: str, around: Surroundings, report: Callable[[Cell, Exit], None] | None = None
    ) -> None:
        self.spec = spec
        self.path = path
        self.state = ActorState.NEW
        self.restarts = 0
        self.crashes_in_a_row = 0
        self.last_error: str | None = None
        self._failed_at: float | None = None
        self.children: dict[str, Cell] = {}
        self.report = report
        self._around = around
        self._mailbox = Mailbox(capacity=spec.capacity, owner=path)
        self._grave = Grave()
        self._life: Life | None = None
        self._attended = False
        self._started_at = 0.0
        self.ref: Ref[Any] = Ref(self._mailbox, self._grave, around.timer)
        around.directory[path] = self.ref

    @property
    def buried(self) -> bool:
        """True once the actor has ended for good."""
        return self._grave.news is not None

    async def start(self) -> Exit | None:
        """Begin a life; None when it has started, else how it failed to. The caller decides what follows from that."""
        if self.state is not ActorState.NEW:
            self.restarts += 1
        self.state = ActorState.STARTING
        self._started_at = self._around.timer.monotonic()
        self._attended = True
        try:
            actor = self.spec.factory()
        except Exception as error:  # noqa: BLE001 - a factory may raise anything; the supervisor decides
            return self._failed_to_start(Exit(StopReason.CRASHED, error))
        if isinstance(actor, Parent):
            actor.adopt(self.children, self._around)
        self._life = Life(actor, self.spec, self.ref, self._mailbox, self._around, self._life_ended)
        started = await asyncio.shield(self._life.started)
        if not started:
            return self._failed_to_start(await asyncio.shield(self._life.ended))
        self._started_at = self._around.timer.monotonic()
        # A life may end before this task has had its turn: its end was not reported then, so it is now.
        self._attended = False
        if self._life.ended.done():
            self._life_ended(self._life.ended.result())
        elif self.state is ActorState.STARTING:
            self.state = ActorState.RUNNING
        return None

    def abort_start(self) -> None:
        """End a life that has not started yet; `start` then returns how."""
        if self._life is not None and self.state is ActorState.STARTING:
            self._life.end(StopReason.SHUTDOWN)

    async def suspend(self, reason: StopReason) -> Exit:
        """End the life and keep the mailbox, for another life or for `bury`. Takes no longer than the spec allows."""
        life = self._life
        if life is None or self.buried:
            return Exit(reason)
        self._attended = True
        if not life.ended.done():
            self.state = ActorState.STOPPING
            life.end(reason)
        end = await asyncio.shield(life.ended)
        self.state = ActorState.DETACHED if end.reason is StopReason.DETACHED else ActorState.WAITING
        return end

    async def stop(self, reason: StopReason) -> Exit:
        """End the actor for good. From this moment its mailbox refuses, and what waited in it has been answered."""
        self._mailbox.close()
        end = await self.suspend(reason)
        self.bury(end)
        return end

    def bury(self, end: Exit) -> None:
        """The actor has had its last life: answer, forget and tell, and so for everybody below it."""
        if self.buried:
            return
        for child in reversed(list(self.children.values())):
            child.bury(Exit(StopReason.SHUTDOWN))
        self._mailbox.close()
        if self.state is not ActorState.DETACHED:
            self.state = ActorState.STOPPED
        if self._around.directory.get(self.path) is self.ref:
            del self._around.directory[self.path]
        self._around.failure_watchers.pop(self.ref, None)
        self._grave.bury(Terminated(self.ref, end.reason, type(end.error).__name__ if end.error else None))

    def next_delay_s(self) -> float:
        """How long to wait before the next life; grows with every crash in a row."""
        backoff = self.spec.backoff
        if self._around.timer.monotonic() - self._started_at >= backoff.reset_after_s:
            self.crashes_in_a_row = 0
        self.crashes_in_a_row += 1
        return backoff.delay_s(self.crashes_in_a_row - 1, self._around.rng)

    def snapshot(self) -> ActorSnapshot:
        """How it and everybody below it stands."""
        now = self._around.timer.monotonic()
        return ActorSnapshot(
            path=self.path,
            state=self.state,
            depth=self._mailbox.depth,
            capacity=self._mailbox.capacity,
            restarts=self.restarts,
            last_error=self.last_error,
            age_s=0.0 if self.state is ActorState.NEW else now - self._started_at,
            failed_s_ago=None if self._failed_at is None else now - self._failed_at,
            children=tuple(child.snapshot() for child in self.children.values()),
        )

    def _failed_to_start(self, end: Exit) -> Exit:
        self._note(end)
        self._attended = False
        self.state = ActorState.DETACHED if end.reason is StopReason.DETACHED else ActorState.WAITING
        return end

    def _life_ended(self, end: Exit) -> None:
        if self._attended:
            return
        self.state = ActorState.DETACHED if end.reason is StopReason.DETACHED else ActorState.WAITING
        self._note(end)
        if self.report is not None:
            self.report(self, end)

    def _note(self, end: Exit) -> None:
        """Remember a crash, tell who watches for them, and write its one log line."""
        if end.error is None:
            return
        self.last_error = type(end.error).__name__
        self._failed_at = self._around.timer.monotonic()
        for watcher in list(self._around.failure_watchers):
            watcher.tell_first(Failed(self.path, self.last_error))
        if end.error is self._around.last_logged:
            return
        self._around.last_logged = end.error
        # A setting that cannot be is told in full to whoever set it; here it would only stand beside that.
        level = logging.DEBUG if isinstance(end.error, SettingsError) else logging.ERROR
        log.log(level, "The actor %s ended (%s): %s", self.path, end.reason, described(end.error))
