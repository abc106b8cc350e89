"""What the actors of a worker tell each other."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field

from ...leases.session import Session
from ...ledger.mark import MarkReply
from ...ledger.states import Boundary
from ...ledger.verdict import Doubt
from ...reconcilers.verdict import Verdict
from ..hosts.frames import Done, ToolFacts
from ..schedules.facts import ScheduleFacts
from .attempt import Attempt


@dataclass(frozen=True, slots=True)
class SessionOpened:
    """The lease manager has a session; whatever held under an earlier one stays under that."""

    session: Session


@dataclass(frozen=True, slots=True)
class SessionLost:
    """The store said that the session ended: its attempts are cancelled, and nothing of it is marked."""

    session: Session


@dataclass(frozen=True, slots=True)
class EpochChanged:
    """The data set is another one: what the session held goes on where the store still shows its mark."""

    session: Session


@dataclass(frozen=True, slots=True)
class TrustLost:
    """The holder's own deadline has passed without a renewal: nothing is dispatched, and what runs is cancelled."""

    session: Session


@dataclass(frozen=True, slots=True)
class Suspect:
    """A turn or a mark heard that its session is over: renew now, to know."""

    session: Session


@dataclass(frozen=True, slots=True)
class WhichSession:
    """An ask: the id of the session that this worker has now; empty for none."""


@dataclass(frozen=True, slots=True)
class TellReady:
    """Who has just begun a life wants to know whether this host runs: it is told `HostReady` if so.

    Attributes:
        path: of who wants to know.
    """

    path: str


@dataclass(frozen=True, slots=True)
class HostReady:
    """A host process runs and takes attempts.

    Attributes:
        host: its name.
        slots: how many at once.
        tools: what it can run.
        solo: it runs what wants a process to itself, and nothing else.
        schedules: when its tools are called by themselves.
    """

    host: str
    slots: int
    tools: Mapping[str, ToolFacts]
    solo: bool = False
    schedules: Mapping[str, ScheduleFacts] = field(default_factory=dict[str, ScheduleFacts])


@dataclass(frozen=True, slots=True)
class HostGone:
    """A host process has ended. What it ran is told apart, as `Died`."""

    host: str


@dataclass(frozen=True, slots=True)
class HostBusy:
    """The process of this host does not answer. It is busy, not dead: what it has goes on, and it gets nothing new."""

    host: str


@dataclass(frozen=True, slots=True)
class HostAnswers:
    """A host that was busy answers again."""

    host: str


@dataclass(frozen=True, slots=True)
class ToolsChanged:
    """A host has replaced its process, and the new one knows its tools otherwise. Its slots are as they were."""

    host: str
    tools: Mapping[str, ToolFacts]


@dataclass(frozen=True, slots=True)
class Start:
    """Run an attempt in a slot of this host."""

    attempt: Attempt


@dataclass(frozen=True, slots=True)
class CancelRun:
    """Cancel an attempt that this host runs; its answer is its end."""

    attempt: Attempt


@dataclass(frozen=True, slots=True)
class EndHost:
    """End this host process with all that it runs: the grace of a shutdown is over."""


@dataclass(frozen=True, slots=True)
class Ran:
    """A host has told how an attempt ended: its slot is free."""

    attempt: Attempt
    done: Done


@dataclass(frozen=True, slots=True)
class NotTaken:
    """A host did not take an attempt: nothing of it began."""

    attempt: Attempt


@dataclass(frozen=True, slots=True)
class Died:
    """The host of an attempt ended under it: nothing of it runs any more."""

    attempt: Attempt
    why: str


@dataclass(frozen=True, slots=True)
class MarkWanted:
    """Write an attempt's boundary, and tell whoever asked.

    Attributes:
        attempt: whose it is.
        boundary: how far it is about to come.
        ref: the provider's handle, empty for none.
        answer: gets the store's word, or None when the store could not be asked in time.
    """

    attempt: Attempt
    boundary: Boundary
    ref: str = ""
    answer: asyncio.Future[MarkReply | None] = field(default_factory=lambda: asyncio.get_running_loop().create_future())


@dataclass(frozen=True, slots=True)
class MarkTold:
    """The answer to the mark of an attempt that has not started."""

    attempt: Attempt
    word: MarkReply | None


@dataclass(frozen=True, slots=True)
class Progressed:
    """A running attempt told how far it has come."""

    attempt: Attempt
    done: float
    total: float | None
    note: str


@dataclass(frozen=True, slots=True)
class AskAdapter:
    """Ask a tool's adapter about a transition, in this host."""

    doubt: Doubt
    timeout_s: float
    answer: asyncio.Future[Verdict] = field(default_factory=lambda: asyncio.get_running_loop().create_future())


@dataclass(frozen=True, slots=True)
class Wake:
    """Something became unknown: look now."""


@dataclass(frozen=True, slots=True)
class Drain:
    """Claim nothing more, give back what has not begun, and wait for the rest up to `grace_s`.

    Attributes:
        grace_s: seconds that marked attempts get.
        idle: is set when nothing is left to wait for.
        cut_off: is set when the grace ends with something running, which is ended with its host.
    """

    grace_s: float
    idle: asyncio.Event = field(default_factory=asyncio.Event)
    cut_off: asyncio.Event = field(default_factory=asyncio.Event)


@dataclass(frozen=True, slots=True)
class Quiet:
    """Claim nothing more, and go on with what runs, until told to take jobs again."""


@dataclass(frozen=True, slots=True)
class Describe:
    """Tell people something new of this worker, under the session that it has and those that follow.

    Attributes:
        info: a JSON object.
    """

    info: bytes


@dataclass(frozen=True, slots=True)
class KnownTools:
    """Tell people which tools this worker knows, under the session that it has and those that follow.

    Attributes:
        names: of the tools.
    """

    names: frozenset[str]


@dataclass(frozen=True, slots=True)
class TakeAgain:
    """Undo `Quiet`. A drain is not undone."""


@dataclass(frozen=True, slots=True)
class TellWhenDone:
    """Tell when there is nothing to do: for a worker that works until then and ends.

    Told again after each restart of whoever takes it, and more than once in a life.

    Attributes:
        done: is set when a whole look with free slots came back with nothing, while nothing ran or was being settled.
    """

    done: asyncio.Event


@dataclass(frozen=True, slots=True)
class TellVitals:
    """An ask: how things stand, for health and metrics. `turns` answers `TurnsVitals`, a host `HostVitals`."""
