"""How a worker stands, as plain values, and the rules that say whether it is ready."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from ...ledger.states import Settle
from ..hosts.listener import ExitReason

STALE_S = 10.0
"""Jobs that could be taken, free slots and nothing claimed for so long: the worker is not ready."""


class SessionState(StrEnum):
    """How a worker stands with its session."""

    TRUSTED = "trusted"
    """It may start attempts."""
    UNTRUSTED = "untrusted"
    """Its own deadline passed without a renewal: it starts nothing until one succeeds."""
    NONE = "none"
    """It has none: the first is not open yet, or the last was lost."""


class Unready(StrEnum):
    """Why a worker is not ready. The first that holds is told."""

    STOPPING = "stopping"
    """It has been told to end."""
    QUIET = "quiet"
    """It has been told to take nothing more."""
    NO_ANSWER = "no_answer"
    """The part that claims is starting, restarting, or does not answer."""
    NO_SESSION = "no_session"
    """It has no session: it may hold nothing."""
    UNTRUSTED = "untrusted"
    """Its session could not be renewed in time."""
    NO_HOST = "no_host"
    """No tool host runs."""
    STORE_AWAY = "store_away"
    """It has free slots, and the store has answered none of its turns for too long."""
    TAKES_NOTHING = "takes_nothing"
    """Jobs wait that it could take, it has free slots, and it has claimed nothing for too long."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnsVitals:
    """What `turns` tells of itself. Counts are of its present life.

    Attributes:
        session: how it stands with its session.
        hosts: tool hosts that run.
        free_slots: attempts that could start now.
        running: attempts that run in hosts.
        held: attempts in all, those that wait for a mark or for their settlement too.
        quiet: it was told to take nothing more.
        draining: it was told to end.
        answered_s: seconds since the store answered a turn; since it began, when there was none.
        turns_ok: turns that the store answered with "go on".
        turns_refused: turns that were answered otherwise: the session has ended, or the data set is another one.
        claimed: attempts that it was granted.
        settled: settlements that the store took, by verb.
        open_queues: the queues that it would claim from now; one that has all the slots it may take is not among them.
        tools: the tools that it has a free slot for now.
        held_back: its last look was told that something waits which may not run yet (a pause, a limit, a key).
    """

    session: SessionState
    hosts: int
    free_slots: int
    running: int
    held: int
    quiet: bool
    draining: bool
    answered_s: float
    turns_ok: int
    turns_refused: int
    claimed: int
    settled: Mapping[Settle, int] = field(default_factory=dict[Settle, int])
    open_queues: frozenset[str] = frozenset()
    tools: frozenset[str] = frozenset()
    held_back: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class HostVitals:
    """What a host actor tells of its processes. Counts are of its present life.

    Attributes:
        name: the actor's.
        running: attempts in its process; None: no process runs.
        lag_s: how late the loop of its process was at worst, as told last; seconds.
        starts: processes that it has started.
        ends: processes that have ended, by reason.
    """

    name: str
    running: int | None
    lag_s: float
    starts: int
    ends: Mapping[ExitReason, int] = field(default_factory=dict[ExitReason, int])


@dataclass(frozen=True, slots=True, kw_only=True)
class Vitals:
    """One look at a whole worker.

    Attributes:
        turns: None: it does not answer.
        hosts: those that answered.
        lag_s: how late the loop of the control process was at worst in the last minute.
        waiting: ready jobs that it could take; None: not asked, or the store did not answer.
        starved_s: for how many seconds jobs have waited that it could take, with free slots and nothing claimed.
        patience_s: for how many seconds the store may leave turns unanswered.
        stopping: the worker was told to end, whoever answers.
    """

    turns: TurnsVitals | None
    hosts: tuple[HostVitals, ...] = ()
    lag_s: float = 0.0
    waiting: int | None = None
    starved_s: float = 0.0
    patience_s: float = STALE_S
    stopping: bool = False


def unready(vitals: Vitals) -> Unready | None:  # noqa: PLR0911 - one rule a line, in the order in which they are told
    """Say why a worker is not ready; None: it is."""
    turns = vitals.turns
    if vitals.stopping or (turns is not None and turns.draining):
        return Unready.STOPPING
    if turns is None:
        return Unready.NO_ANSWER
    if turns.quiet:
        return Unready.QUIET
    if turns.session is SessionState.NONE:
        return Unready.NO_SESSION
    if turns.session is SessionState.UNTRUSTED:
        return Unready.UNTRUSTED
    if not turns.hosts:
        return Unready.NO_HOST
    # A full worker asks for nothing: then only its renewals say that the store is there, and its session tells of them.
    if turns.free_slots and turns.answered_s > vitals.patience_s:
        return Unready.STORE_AWAY
    if starving(turns, vitals.waiting) and vitals.starved_s >= STALE_S:
        return Unready.TAKES_NOTHING
    return None


@dataclass(slots=True)
class Hunger:
    """Since when jobs wait that the worker could take, and it takes none."""

    since_s: float | None = None
    claimed: int = -1

    def look(self, now_s: float, turns: TurnsVitals | None, waiting: int | None) -> None:
        """Take one look; a claim between two looks ends the hunger."""
        claimed = -1 if turns is None else turns.claimed
        if turns is None or claimed != self.claimed or not starving(turns, waiting):
            self.since_s = None
        elif self.since_s is None:
            self.since_s = now_s
        self.claimed = claimed

    def lasts_s(self, now_s: float) -> float:
        """For how many seconds it has lasted."""
        return 0.0 if self.since_s is None else now_s - self.since_s


def starving(turns: TurnsVitals, waiting: int | None) -> bool:
    """Whether jobs wait that the worker could take now."""
    return bool(waiting and turns.free_slots and not turns.held_back)
