"""One tool host as an actor: starts its process, gives it attempts, answers its marks, starts it again when it ends."""

from __future__ import annotations

import asyncio
import json
import logging
import random
from itertools import count

from ..leases.errors import ActorStoppedError, PayloadTooLargeError, ReplyLostError, ServerUnavailableError
from ..leases.store import Store
from ..ledger.mark import MarkReply
from ..ledger.publish import publish_tools
from ..ledger.states import Boundary
from ..reconcilers.verdict import Verdict, VerdictWord
from .attempt import Attempt, Phase
from .hosts.frames import Answer, Ask, Done, Mark, Outcome, Pong, Run
from .hosts.host import HostExit, HostProcess, HostSettings
from .messages import AskAdapter, CancelRun, Died, EndHost, HostGone, HostReady, MarkWanted, NotTaken, Ran, Start
from .runtime import Actor, Backoff, StopReason
from .settings import WorkerSettings

log = logging.getLogger(__name__)

HostMessage = Start | CancelRun | EndHost | AskAdapter
STEADY_S = 10.0
"""A process that ran so long is not failing at its start: the next one is started without delay."""


class Host(Actor[HostMessage]):
    """Owns one child process at a time. Its listener methods run on the loop, in the order in which things happened."""

    def __init__(self, store: Store, settings: WorkerSettings, rng: random.Random) -> None:
        self._store = store
        self._settings = settings
        self._rng = rng
        self._delays = Backoff().delays(rng)
        self._process: HostProcess | None = None
        self._started_s = 0.0
        self._running: dict[int, Attempt] = {}
        self._slot_of: dict[Attempt, int] = {}
        self._free: list[int] = []
        self._questions: dict[int, AskAdapter] = {}
        self._numbers = count(1)
        self._ending = False

    async def started(self) -> None:
        """Start the first process; a worker whose tools cannot be loaded does not start."""
        await self._start_process()

    async def receive(self, message: HostMessage) -> object:
        """Give the process something to do."""
        match message:
            case Start(attempt):
                self._run(attempt)
            case CancelRun(attempt):
                if attempt in self._slot_of and self._process is not None:
                    self._process.cancel(self._slot_of[attempt])
            case AskAdapter():
                self._ask(message)
            case EndHost():
                if self._process is not None:
                    self._process.kill()
        return None

    async def stopping(self, reason: StopReason) -> None:
        """End the process: what it still ran has died."""
        del reason
        self._ending = True
        if self._process is not None:
            await self._process.stop(0.0)

    # ── the process ──────────────────────────────────────────────────────────────────────────────────────────────────

    async def _start_process(self) -> None:
        settings = self._settings
        process = HostProcess(
            settings.app,
            settings.slots,
            self,
            HostSettings(
                memory_limit_mb=settings.host_memory_mb,
                overrun_grace_s=settings.overdue_s,
                store_url=self._store.url,
                max_result_bytes=settings.max_result_bytes,
            ),
        )
        await process.start()
        self._process = process
        self._started_s = self.timer.monotonic()
        self._free = list(range(settings.slots))
        log.info("host %s runs as process %d", self.ref.name, process.pid)
        self._tell_ready(process)
        await self._publish(process)

    async def _publish(self, process: HostProcess) -> None:
        tools = {
            name: json.dumps({"effect_class": facts.binding.effect_class, "reconciler": facts.lag_s is not None})
            for name, facts in process.tools.items()
        }
        try:
            await publish_tools(self._store.calls, tools)
        except (ServerUnavailableError, ReplyLostError) as away:
            # For people to read only: a host that starts while the server is away is as good as any.
            log.warning("tools not published: %s", away)

    def _tell_ready(self, process: HostProcess) -> None:
        ready = HostReady(self.ref.name, self._settings.slots, process.tools)
        self.find("/worker/control/turns").tell(ready)
        self.find("/worker/reconciler").tell(ready)

    async def _start_again(self, delay_s: float) -> None:
        await self.timer.sleep(delay_s)
        await self._start_process()

    def on_exit(self, reason: HostExit) -> None:
        """The process has ended, and nothing of it runs: its attempts died with it."""
        self._process = None
        gone = HostGone(self.ref.name)
        turns = self.find("/worker/control/turns")
        turns.tell(gone)
        self.find("/worker/reconciler").tell(gone)
        overdue = {self._running[slot] for slot in reason.overdue if slot in self._running}
        for attempt in self._running.values():
            turns.tell(Died(attempt, "Overdue" if attempt in overdue else f"Host{reason.why.capitalize()}"))
        self._running.clear()
        self._slot_of.clear()
        for question in self._questions.values():
            _tell(question, Verdict.unknown("the host of the adapter ended"))
        self._questions.clear()
        if not self._ending:
            log.error("host %s ended (%s, code %d)", self.ref.name, reason.why, reason.returncode)
            self.spawn_task(self._start_again(self._next_delay_s()))

    def _next_delay_s(self) -> float:
        if self.timer.monotonic() - self._started_s >= STEADY_S:
            self._delays = Backoff().delays(self._rng)
            return 0.0
        return next(self._delays)

    # ── attempts ─────────────────────────────────────────────────────────────────────────────────────────────────────

    def _run(self, attempt: Attempt) -> None:
        turns = self.find("/worker/control/turns")
        # The last look before the body may begin (L7): the clock is read here, not when the mark was asked for.
        if self._process is None or not self._free or not attempt.session.trusted():
            turns.tell(NotTaken(attempt))
            return
        grant, slot = attempt.grant, self._free.pop()
        run = Run(
            slot=slot,
            request_id=grant.request_id,
            effect_id=grant.effect_id,
            tool=grant.tool,
            fence=grant.fence,
            attempt=grant.attempt,
            args=grant.args,
            timeout_s=attempt.binding.timeout_s,
            boundary=attempt.boundary,
            effect_class=grant.effect_class,
            mode=grant.boundary_mode,
            begin_by_s=attempt.session.trusted_until_s,
            key=grant.key,
        )
        try:
            self._process.run(run)
        except ActorStoppedError:
            self._free.append(slot)
            turns.tell(NotTaken(attempt))
            return
        except PayloadTooLargeError as error:
            self._free.append(slot)
            turns.tell(Ran(attempt, _not_sent(run, error)))
            return
        self._running[slot] = attempt
        self._slot_of[attempt] = slot

    def on_done(self, done: Done) -> None:
        """An attempt has ended; its slot is free."""
        attempt = self._running.pop(done.slot, None)
        if attempt is None:
            return
        del self._slot_of[attempt]
        self._free.append(done.slot)
        self.find("/worker/control/turns").tell(Ran(attempt, done))

    def on_mark(self, mark: Mark) -> None:
        """A tool waits for its mark: yes only while its session is trusted and its attempt stands."""
        attempt, process = self._running.get(mark.slot), self._process
        if attempt is None or process is None:
            return
        before = attempt.boundary
        # From now on the mark may be on record; told so before it is, so that no shutdown takes the attempt for unsent.
        attempt.boundary = max(before, mark.boundary, key=tuple(Boundary).index)
        attempt.ref = mark.ref or attempt.ref
        wanted = MarkWanted(attempt, mark.boundary, mark.ref or "")

        def answer(told: asyncio.Future[MarkReply | None]) -> None:
            word = told.result()
            ok = word is MarkReply.MARKED and attempt.phase is Phase.RUNNING and attempt.session.trusted()
            if not ok:
                attempt.boundary = before
                attempt.mark_missed = word is None
            why = "" if ok else str(word or "not trusted")
            process.mark_reply(mark, ok=ok, why=why, begin_by_s=attempt.session.trusted_until_s)

        wanted.answer.add_done_callback(answer)
        self.find("/worker/control/marks").tell(wanted)

    # ── questions ────────────────────────────────────────────────────────────────────────────────────────────────────

    def _ask(self, question: AskAdapter) -> None:
        doubt = question.doubt
        if self._process is None:
            _tell(question, Verdict.unknown("the host of the adapter is starting"))
            return
        number = next(self._numbers)
        self._questions[number] = question
        ask = Ask(
            slot=number,
            tool=doubt.tool,
            request_id=doubt.request_id,
            effect_id=doubt.effect_id,
            idempotency_key=doubt.key or None,
            external_operation_ref=doubt.ref or None,
            args=doubt.args,
            unknown_since_s=doubt.unknown_for_ms / 1000,
            attempt=doubt.attempt,
            timeout_s=question.timeout_s,
        )
        try:
            self._process.ask(ask)
        except (ActorStoppedError, PayloadTooLargeError) as error:
            del self._questions[number]
            _tell(question, Verdict.unknown(error.what))

    def on_answer(self, answer: Answer) -> None:
        """An adapter has answered."""
        question = self._questions.pop(answer.slot, None)
        if question is not None:
            _tell(question, _verdict(answer))

    def on_pong(self, pong: Pong) -> None:
        """The process's loop is alive; its lag is kept by the process."""


def _not_sent(run: Run, error: PayloadTooLargeError) -> Done:
    """The end of a run that cannot be sent, told here in its host's place: no other host could be sent it either."""
    return Done(
        run.slot,
        Outcome.NOT_EXECUTED,
        Boundary.NOT_CROSSED,
        error_class="mycelium.PayloadTooLarge",
        detail=str(error),
        fence=run.fence,
    )


def _tell(question: AskAdapter, verdict: Verdict) -> None:
    if not question.answer.done():
        question.answer.set_result(verdict)


def _verdict(answer: Answer) -> Verdict:
    match answer.verdict:
        case VerdictWord.COMPLETED:
            return Verdict.completed(json.loads(answer.body), json.loads(answer.evidence))
        case VerdictWord.NOT_EXECUTED:
            return Verdict.not_executed(json.loads(answer.evidence))
        case VerdictWord.UNKNOWN:
            return Verdict.unknown(answer.reason)
