"""Records intended effects and queues them: the only way in."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from enum import StrEnum
from typing import NamedTuple

from ..leases.channel import Channel
from ..leases.errors import (
    DeadlinePassedError,
    EpochChangedError,
    IdentityConflictError,
    LedgerHardBlockError,
    ScriptError,
    SettingsError,
)
from ..leases.scripts import scripted
from .about import About
from .binding import Binding
from .identity import Identity
from .line import Line
from .refusals import conflicting, drifted
from .replies import text, words
from .states import Drift, State

Refusal = IdentityConflictError | LedgerHardBlockError | ScriptError | DeadlinePassedError
"""Why one intent of a batch was not taken."""

BATCH = 100
"""Jobs in one script call: a hundred small rows keep the server busy for about two milliseconds."""


class SubmitReply(StrEnum):
    """What the store says of a submitted batch, and of each job in it."""

    OK = "ok"
    """The batch was looked at; a word for each job follows."""
    EPOCH = "epoch"
    """The data set was never founded, or was emptied."""
    CREATED = "created"
    """A new transition, recorded and queued."""
    JOINED = "joined"
    """The same effect is already on record."""
    CONFLICT = "conflict"
    """The request id names another effect."""
    DRIFT = "drift"
    """The dispatch was submitted before, with other arguments."""
    CORRUPT = "corrupt"
    """The row is not what a script of ours writes."""
    LATE = "late"
    """Its deadline has passed, or comes before it may start: it was not recorded."""


class JobItem(NamedTuple):
    """One intended effect, as `submit.lua` takes it."""

    id: str
    effect: str
    ticket: str
    share: str
    drift: str
    tool: str
    effect_class: str
    mode: str
    again: int
    max_attempts: int
    max_deaths: int
    max_timeouts: int
    line: str
    limits: str
    facets: str
    start_by: str
    deadline: str
    run: str
    due: str
    keep: int
    keep_result: int
    about: bytes
    asked: int
    key: str
    body: bytes

    def __repr__(self) -> str:
        # Arguments and keys may be secrets of the caller's, and a repr ends up in logs.
        return f"<job {self.id!r} of {self.tool!r}>"


@scripted("mycelium.ledger", "submit", SubmitReply)
def submit_script(*, op: str, client: str, job: Sequence[JobItem]) -> None:
    """Stub of `submit.lua`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Retention:
    """How long what ended is kept.

    Attributes:
        row: the ledger row: the window in which a repeated call is answered from the record.
        result: the result body.

    Raises:
        SettingsError: one of them is not at least a millisecond: what ends would be forgotten at once, and a repeated
            call would run again.
    """

    row: timedelta = timedelta(days=7)
    result: timedelta = timedelta(days=1)

    def __post_init__(self) -> None:
        """Refuse what the server cannot keep."""
        for name in ("row", "result"):
            if getattr(self, name) < timedelta(milliseconds=1):
                what = f"Retention.{name} is {getattr(self, name)}."
                raise SettingsError(what, next_step=f"Give {name} a positive duration.")


@dataclass(frozen=True, slots=True, kw_only=True)
class Intent:
    """One intended effect, ready to be recorded.

    Attributes:
        identity: what it is known by, and its canonical arguments.
        tool: the tool's name.
        binding: the tool's declared facts.
        about: where the call came from, for people.
        drift: what happens when the same dispatch comes with other arguments.
        asked: whether there is a way to learn what became of an unknown one: an adapter, or a key to send again.
        key: the provider's key, where the caller chose one.
        line: where it waits; None: the default queue.
        limits: what the fleet shares, filled in: see `fill_limits`.
        facets: digests of its arguments: see `facets_of`.
        due: from when it may run; this and the two that follow as `instant` writes them.
        start_by: until when it may start.
        deadline: after which it is not to run, or not any longer.
        run: how an attempt runs, for its holder only; empty: as its tool is declared.
        retention: how long it is kept after its end.
    """

    identity: Identity
    tool: str
    binding: Binding
    about: About = field(default_factory=About)
    drift: Drift = Drift.SOFT
    asked: bool = False
    # It may be a secret of the caller's, and a repr ends up in logs.
    key: str = field(default="", repr=False)
    line: Line | None = None
    limits: str = ""
    facets: str = ""
    due: str = ""
    start_by: str = ""
    deadline: str = ""
    run: str = ""
    retention: Retention = Retention()

    def item(self) -> JobItem:
        """The arguments of the script."""
        binding = self.binding
        return JobItem(
            id=self.identity.request_id,
            effect=self.identity.effect_id,
            ticket=self.identity.ticket,
            share=self.identity.share,
            drift=self.drift,
            tool=self.tool,
            effect_class=binding.effect_class,
            mode=str(binding.boundary_mode),
            again=int(binding.again),
            max_attempts=binding.max_attempts,
            max_deaths=binding.max_deaths,
            max_timeouts=binding.max_timeouts,
            line=(self.line or Line(tool=self.tool)).name,
            limits=self.limits,
            facets=self.facets,
            start_by=self.start_by,
            deadline=self.deadline,
            run=self.run,
            due=self.due,
            keep=round(self.retention.row.total_seconds() * 1000),
            keep_result=round(self.retention.result.total_seconds() * 1000),
            about=self.about.body(),
            asked=int(self.asked),
            key=self.key or (self.identity.effect_id if binding.propagate_effect_id_as_provider_key else ""),
            body=self.identity.args,
        )


@dataclass(frozen=True, slots=True)
class Submitted:
    """How one intent was taken.

    Attributes:
        request_id: the transition; another one than was asked for where its effect has a row already.
        created: False when the same effect was already on record.
        state: its state then.
    """

    request_id: str
    created: bool
    state: State


async def submit(calls: Channel, intents: Sequence[Intent], *, client_id: str = "") -> list[Submitted | Refusal]:
    """Record and queue intents, a script call a hundred, in order.

    Args:
        calls: the channel for job traffic.
        intents: the intended effects.
        client_id: who is told when they end; empty: nobody.

    Returns:
        One entry an intent. A conflict or a corrupt row is an entry, not a raise: the other intents of the batch were
        taken.

    Raises:
        EpochChangedError: the data set is not founded; nothing was written.
        ServerError: the server could not be asked.
    """
    taken: list[Submitted | Refusal] = []
    for at in range(0, len(intents), BATCH):
        taken.extend(await _submit_batch(calls, intents[at : at + BATCH], client_id))
    return taken


async def _submit_batch(calls: Channel, batch: Sequence[Intent], client_id: str) -> list[Submitted | Refusal]:
    command = submit_script(op=uuid.uuid4().hex, client=client_id, job=[intent.item() for intent in batch])
    word, *rest = words(await calls.run(command))
    if word == SubmitReply.EPOCH:
        what = "The server holds no ledger of this namespace any more: it was emptied."
        raise EpochChangedError(what, next_step="Nothing was submitted. Connect again; ask what happened to the data.")
    told = [[text(value) for value in rest[3 * at : 3 * at + 3]] for at in range(len(batch))]
    return [
        _taken(intent, SubmitReply(word), where, state)
        for intent, (word, where, state) in zip(batch, told, strict=True)
    ]


def _taken(intent: Intent, word: SubmitReply, where: str, state: str) -> Submitted | Refusal:
    request_id = intent.identity.request_id
    if word is SubmitReply.CONFLICT:
        return conflicting(request_id, state)
    if word is SubmitReply.CORRUPT:
        what = f"The record of request id {request_id!r} was not written by this product."
        return ScriptError(what, next_step="Nothing was submitted for it. Look at the key by hand.")
    if word is SubmitReply.LATE:
        what = f"The deadline of {request_id!r} has passed, or comes before it may start."
        return DeadlinePassedError(what, next_step="Nothing was submitted. Decide anew, with a later deadline.")
    if word is SubmitReply.DRIFT:
        return drifted(intent.tool, where, state, intent.drift)
    return Submitted(where, word is SubmitReply.CREATED, State(state))
