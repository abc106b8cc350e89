"""One tool host as an actor: keeps a process running, gives it attempts, and replaces it when it ends or is worn."""

from __future__ import annotations

import asyncio
import json
import logging
import random
from collections import Counter
from contextlib import suppress

from ...leases.errors import (
    ActorError,
    ActorStoppedError,
    MailboxFullError,
    MyceliumError,
    ReplyLostError,
    ServerUnavailableError,
    SettingsError,
)
from ...leases.store import Store
from ...ledger.publish import publish_tools
from ...reconcilers.verdict import Verdict
from ..health.vitals import HostVitals
from ..hosts.host import HostProcess, HostSettings, MakesHost
from ..hosts.listener import ExitReason, HostExit
from ..runtime import Actor, Backoff, Ref, StopReason
from ..terms import Isolation
from .attempt import Attempt
from .hosted import TURNS, Hosted, tell_verdict
from .messages import (
    AskAdapter,
    CancelRun,
    Died,
    EndHost,
    HostAnswers,
    HostBusy,
    HostGone,
    HostReady,
    KnownTools,
    NotTaken,
    Start,
    TellReady,
    TellVitals,
    ToolsChanged,
)
from .settings import WorkerSettings

log = logging.getLogger(__name__)

HostMessage = Start | CancelRun | EndHost | AskAdapter | TellReady | HostReady | TellVitals
STEADY_S = 10.0
"""A process that ran so long is not failing at its start: the next one is started without delay."""
VAIN_DEATHS = 5
"""So many processes in a row may die at once with nothing to run: no tool is to blame, and the next would die too."""
SOLO = "solo-"
"""How the names of the hosts begin that run one attempt at a time."""
RECONCILER = "/worker/reconciler"
LEASE_MANAGER = "/worker/control/lease_manager"

_FOR_A_RUN = frozenset({ExitReason.OVERDUE, ExitReason.CANCELLED, ExitReason.LEFTOVER})
"""Ends for what ran in a process. They say nothing of the next one, which is started at once."""


class Host(Actor[HostMessage]):
    """Owns one process that takes attempts, and those that it replaced, until what they run has ended.

    The slots are the actor's, whichever process has them: to replace one changes nothing for whoever counts them. A
    `solo` host has one slot, and starts no process before it hears of a tool that wants one to itself.
    """

    def __init__(
        self,
        store: Store,
        settings: WorkerSettings,
        rng: random.Random,
        make_process: MakesHost = HostProcess,
        *,
        solo: bool = False,
    ) -> None:
        self._make_process = make_process
        self._store = store
        self._settings = settings
        self._rng = rng
        self._solo = solo
        self._slots = 1 if solo else settings.slots
        self._delays = Backoff().delays(rng)
        self._current: Hosted | None = None
        self._replaced: set[Hosted] = set()
        self._started_s = 0.0
        self._starting = False
        self._told_busy = False
        self._ending = False
        self._vain = 0
        self._starts = 0
        self._ends: Counter[ExitReason] = Counter()

    @property
    def busy_s(self) -> float:
        """For how long its process has not answered; 0: it does, or there is none."""
        return 0.0 if self._current is None else self._current.process.busy_s

    async def started(self) -> None:
        """Start the first process; a worker whose tools cannot be loaded does not start."""
        if not self._solo:
            await self._start_process()
            return
        for host in self._beside(solo=False):
            host.tell(TellReady(self.ref.path))

    async def receive(self, message: HostMessage) -> object:
        """Give the process something to do, or tell of it."""
        match message:
            case Start(attempt):
                self._take(attempt)
            case CancelRun(attempt):
                for hosted in self._all():
                    hosted.cancel(attempt)
            case AskAdapter():
                self._ask(message)
            case EndHost():
                for hosted in self._all():
                    hosted.process.kill(ExitReason.STOPPED)
            case TellReady(path):
                self._tell_if_ready(path)
            case HostReady():
                self._hear_of_tools(message)
            case TellVitals():
                return self._vitals()
        return None

    def _take(self, attempt: Attempt) -> None:
        if self._current is None:
            self.find(TURNS).tell(NotTaken(attempt))
        else:
            self._current.take(attempt)

    def _ask(self, question: AskAdapter) -> None:
        if self._current is None:
            tell_verdict(question, Verdict.unknown("the host of the adapter is starting"))
        else:
            self._current.ask(question)

    async def stopping(self, reason: StopReason) -> None:
        """End the processes: what they still ran has died."""
        del reason
        self._ending = True
        every = self._all()
        await asyncio.gather(*(hosted.process.stop(0.0) for hosted in every))
        for hosted in every:
            if hosted.attempts:
                # The life failed before it had told of all: whoever is not told dead would be held for ever.
                self._tell_gone()
                hosted.tell_dead("HostFailed")
        if isinstance(self.in_hand, Start):
            # It failed before any process had the attempt, and nobody else knows of it; one that was told of is over.
            self.find(TURNS).tell(Died(self.in_hand.attempt, "HostFailed"))

    # ── the process ──────────────────────────────────────────────────────────────────────────────────────────────────

    def _all(self) -> list[Hosted]:
        return [*self._replaced, *([] if self._current is None else [self._current])]

    async def _start_process(self) -> None:
        hosted = await self._new_process()
        self._take_on(hosted)
        log.info("host %s runs as process %d", self.ref.name, hosted.process.pid)
        self._tell_ready(hosted)
        await self._publish(hosted)

    def _take_on(self, hosted: Hosted) -> None:
        # From now on its end has another one started: nothing may be awaited in between.
        self._current, self._started_s, self._starting = hosted, self.timer.monotonic(), False

    async def _new_process(self) -> Hosted:
        settings = self._settings
        how = HostSettings(
            memory_limit_mb=settings.host_memory_mb,
            overrun_grace_s=settings.overdue_s,
            store_url=self._store.url,
            max_result_bytes=settings.max_result_bytes,
            solo=self._solo,
        )
        hosted = Hosted(self, self._make_process, settings.app, self._slots, how)
        await hosted.process.start()
        self._starts += 1
        try:
            self._check_size(hosted)
        except SettingsError:
            await hosted.process.stop(0.0)
            raise
        return hosted

    def _check_size(self, hosted: Hosted) -> None:
        limit_mb, fresh_mb = self._settings.recycle_memory_mb, hosted.process.resident_mb
        if limit_mb is None or fresh_mb < limit_mb:
            return
        what = (
            f"recycle_memory_mb is {limit_mb}, and a host of {self._settings.app!r} takes {fresh_mb:.0f} MB at birth."
        )
        error = SettingsError(what, next_step=f"Give recycle_memory_mb {fresh_mb * 1.5:.0f} or more.")
        if self._starts == 1 and not self._solo:
            raise error
        hosted.spared = True
        log.error("host %s is not replaced any more: %s", self.ref.name, error)

    async def _publish(self, hosted: Hosted) -> None:
        if self._solo:
            return  # the shared hosts have the same tools
        with suppress(ActorStoppedError, MailboxFullError):  # for people to read only
            self.find(LEASE_MANAGER).tell(KnownTools(frozenset(hosted.process.tools)))
        tools = {
            name: json.dumps({"effect_class": facts.binding.effect_class, "reconciler": facts.lag_s is not None})
            for name, facts in hosted.process.tools.items()
        }
        try:
            await publish_tools(self._store.calls, tools)
        except (ServerUnavailableError, ReplyLostError) as away:
            # For people to read only: a host that starts while the server is away is as good as any.
            log.warning("tools not published: %s", away)

    def _start_later(self, delay_s: float) -> None:
        if not self._starting:
            self._starting = True
            self.spawn_task(self._start_again(delay_s))

    async def _start_again(self, delay_s: float) -> None:
        await self.timer.sleep(delay_s)
        await self._start_process()

    # ── its end ──────────────────────────────────────────────────────────────────────────────────────────────────────

    def ended(self, hosted: Hosted, reason: HostExit) -> None:
        """A process has ended: what it ran is told of, and another one started in its place."""
        idle = not hosted.attempts
        self._ends[reason.why] += 1
        if hosted is self._current:
            self._current = None
            self._replaced.add(hosted)  # until all is told: what fails on the way is told by the last hook
            self._tell_gone()
        hosted.tell_dead(f"Host{reason.why.capitalize()}", reason)
        self._replaced.discard(hosted)
        if reason.why is ExitReason.RECYCLED or self._ending:
            return
        level = logging.WARNING if reason.why in _FOR_A_RUN else logging.ERROR
        said = "host %s: process %d ended (%s, code %d)"
        log.log(level, said, self.ref.name, hosted.process.pid, reason.why, reason.returncode)
        if self._current is None:
            self._start_later(self._next_delay_s(reason, idle=idle))

    def _tell_gone(self) -> None:
        self._told_busy = False
        gone = HostGone(self.ref.name)
        self.find(TURNS).tell(gone)
        self.find(RECONCILER).tell(gone)

    def _next_delay_s(self, reason: HostExit, *, idle: bool) -> float:
        if self.timer.monotonic() - self._started_s >= STEADY_S or reason.why in _FOR_A_RUN:
            self._delays = Backoff().delays(self._rng)
            self._vain = 0
            return 0.0
        self._vain = self._vain + 1 if idle else 0
        if self._vain > VAIN_DEATHS:
            what = f"{self._vain} processes of host {self.ref.name} in a row ended by themselves with nothing to run."
            raise ActorError(what, next_step="See the log for how they ended: the tools, or the limits, must change.")
        return next(self._delays)

    # ── its replacement ──────────────────────────────────────────────────────────────────────────────────────────────

    def look_at(self, hosted: Hosted) -> None:
        """Replace a process that has run enough; end one that was replaced when nothing runs in it any more."""
        if self._ending or hosted.process.exited is not None:
            return
        if hosted in self._replaced:
            if hosted.empty:
                self.spawn_task(hosted.process.stop(0.0, ExitReason.RECYCLED))
        elif hosted is self._current and not self._starting and self._worn(hosted):
            self._starting = True
            self.spawn_task(self._replace(hosted))

    def _worn(self, hosted: Hosted) -> bool:
        jobs, megabytes = self._settings.recycle_jobs, self._settings.recycle_memory_mb
        if hosted.spared or not hosted.ran:
            return False
        return (jobs is not None and hosted.ran >= jobs) or (
            megabytes is not None and hosted.process.resident_mb >= megabytes
        )

    async def _replace(self, worn: Hosted) -> None:
        """Start the next one first, so that no slot is ever missing; the worn one gets nothing from then on."""
        ran, size_mb = worn.ran, worn.process.resident_mb
        try:
            fresh = await self._new_process()
        except MyceliumError as error:
            if self._current is None:
                raise
            worn.spared, self._starting = True, False
            log.error("host %s keeps its process, for no new one starts: %s", self.ref.name, error)  # noqa: TRY400 - whole
            return
        gone = self._current is None
        self._take_on(fresh)
        if gone:
            self._tell_ready(fresh)
            return
        said = "host %s: process %d is replaced by %d after %d attempts, at %.0f MB"
        log.info(said, self.ref.name, worn.process.pid, fresh.process.pid, ran, size_mb)
        self._replaced.add(worn)
        self._tell_busy(busy=False)
        if fresh.process.tools != worn.process.tools:
            self._tell_changed(fresh)
        self.look_at(worn)
        await self._publish(fresh)

    # ── what others learn of it ──────────────────────────────────────────────────────────────────────────────────────

    def _ready(self, hosted: Hosted) -> HostReady:
        # What runs in a process that was replaced has its slot until it ends.
        taken = sum(len(old.attempts) for old in self._replaced)
        free, process = self._slots - taken - len(hosted.attempts), hosted.process
        return HostReady(self.ref.name, free, process.tools, self._solo, process.schedules)

    def _tell_ready(self, hosted: Hosted) -> None:
        ready = self._ready(hosted)
        self.find(TURNS).tell(ready)
        if not self._solo:
            self.find(RECONCILER).tell(ready)
            for host in self._beside(solo=True):
                host.tell(ready)
            self._say_what_has_no_place(ready)

    def _say_what_has_no_place(self, ready: HostReady) -> None:
        apart = sorted(name for name, facts in ready.tools.items() if facts.isolation is Isolation.PROCESS)
        if apart and not self._settings.solo:
            log.warning("this worker leaves %s to others: they want a process each, and solo is 0", ", ".join(apart))

    def _tell_if_ready(self, path: str) -> None:
        # Adapters are asked in shared hosts: a solo one may be ended at any time.
        if self._current is not None and not (self._solo and path == RECONCILER):
            self.find(path).tell(self._ready(self._current))

    def _tell_changed(self, hosted: Hosted) -> None:
        self.find(TURNS).tell(ToolsChanged(self.ref.name, hosted.process.tools))
        if not self._solo:
            self.find(RECONCILER).tell(self._ready(hosted))
            for host in self._beside(solo=True):
                host.tell(self._ready(hosted))

    def _hear_of_tools(self, ready: HostReady) -> None:
        wanted = any(facts.isolation is Isolation.PROCESS for facts in ready.tools.values())
        if self._solo and wanted and self._current is None and not self._ending:
            self._start_later(0.0)

    def _beside(self, *, solo: bool) -> list[Ref[HostMessage]]:
        others = self.below(self.ref.path.rpartition("/")[0])
        return [ref for ref in others if ref.path != self.ref.path and ref.name.startswith(SOLO) is solo]

    def fell_silent(self, hosted: Hosted) -> None:
        """A process does not answer: it is busy, not dead. It gets nothing new, and is not ended for it."""
        tools = sorted({attempt.grant.tool for attempt in hosted.attempts.values()})
        said = "host %s: process %d is busy, not dead: no answer for %.1f s; it runs %s"
        what = ", ".join(tools) or "nothing"
        log.warning(said, self.ref.name, hosted.process.pid, hosted.process.busy_s, what)
        if hosted is self._current:
            self._tell_busy(busy=True)

    def answers(self, hosted: Hosted, silent_s: float) -> None:
        """A process that was busy answers again."""
        said = "host %s: process %d answers again after %.1f s"
        log.warning(said, self.ref.name, hosted.process.pid, silent_s)
        if hosted is self._current:
            self._tell_busy(busy=False)

    def _tell_busy(self, *, busy: bool) -> None:
        if busy != self._told_busy:
            self._told_busy = busy
            self.find(TURNS).tell((HostBusy if busy else HostAnswers)(self.ref.name))

    def _vitals(self) -> HostVitals:
        current = self._current
        return HostVitals(
            name=self.ref.name,
            running=None if current is None else sum(len(hosted.attempts) for hosted in self._all()),
            lag_s=0.0 if current is None else current.process.lag_s,
            starts=self._starts,
            ends=dict(self._ends),
        )
