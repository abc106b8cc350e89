"""What is the matter with a transition, and what to do about it: in words, and as the commands to type."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from .fleet import Fleet
from .record import Record
from .release import version_of
from .standing import Standing
from .states import HELD, REPEATABLE, Boundary, Liveness, State
from .waiting import GateKind


class Stuck(StrEnum):
    """Why a transition will not end by itself, or not soon."""

    IN_DOUBT = "in_doubt"
    """Nobody knows whether its effect happened."""
    HOLDER_LOST = "holder_lost"
    """The session of its holder lapsed, was declared dead, or is gone."""
    WAITS_FOR_PERSON = "waits_for_person"
    """It is parked until a person approves it."""
    OVERDUE = "overdue"
    """It was due more than a minute ago, and nobody has made it ready: no worker sweeps."""
    UNCLAIMED = "unclaimed"
    """It has been ready for more than five minutes: no worker has its tool, or too few do, or its caller stays away."""


OVERDUE_MS = 60_000
UNCLAIMED_MS = 300_000


@dataclass(frozen=True, slots=True)
class Advice:
    """What to do about one transition.

    Attributes:
        text: one sentence.
        commands: command lines to type; YOU and WHY in them are to be filled in. Empty: there is nothing to do.
    """

    text: str
    commands: tuple[str, ...] = ()


def stuck(record: Record, liveness: Liveness, now_ms: int, due_ms: int | None = None) -> Stuck | None:
    """Say why a transition is stuck; None: it is not.

    Args:
        record: the transition.
        liveness: of its last attempt.
        now_ms: server milliseconds.
        due_ms: for a delayed one, when it is due; None: not known.
    """
    if record.state is State.UNKNOWN:
        return Stuck.IN_DOUBT
    if record.state in HELD and liveness is not Liveness.HELD:
        return Stuck.HOLDER_LOST
    if record.state is State.PARKED:
        return Stuck.WAITS_FOR_PERSON
    if record.state is State.DELAYED and due_ms is not None and now_ms - due_ms > OVERDUE_MS:
        return Stuck.OVERDUE
    if record.state is State.READY and now_ms - record.changed_ms > UNCLAIMED_MS:
        return Stuck.UNCLAIMED
    return None


_BY_STATE: Mapping[State, str] = {
    State.DELAYED: "becomes ready when it is due",
    State.PARKED: "waits for a person's approval",
    State.CLAIMED: "is about to start",
    State.ATTEMPTING: "is running",
    State.COMPLETED: "nothing is left to do",
    State.FAILED: "no effect exists. If it is wanted after all, mend the cause and let it run again",
    State.CANCELLED: "it has no effect. If it is wanted after all, let it run again",
    State.DEAD: "no effect exists. Mend the cause, and let it run again",
}
_AGAIN = frozenset({State.FAILED, State.CANCELLED, State.DEAD})
_NOBODY = Fleet()


def next_action(record: Record, standing: Standing, fleet: Fleet = _NOBODY) -> Advice:
    """Say what happens next with a transition, or what a person is to do.

    Args:
        record: the transition.
        standing: of its last attempt.
        fleet: who there is to take it, for one that is ready.
    """
    if record.state is State.UNKNOWN:
        return _in_doubt(record, standing)
    if record.state in HELD:
        return _held(record, standing)
    if record.state is State.COMPLETED:
        return Advice(_BY_STATE[State.COMPLETED])
    if record.state in _AGAIN:
        return Advice(_BY_STATE[record.state], (requeue_command(record.request_id),))
    text = _why_it_waits(record, fleet) if record.state is State.READY else _BY_STATE[record.state]
    return Advice(text, (cancel_command(record.request_id),))


def _why_it_waits(record: Record, fleet: Fleet) -> str:
    """Of all that keeps it, what has to go first."""
    if not record.queued:
        return "was called in process, and waits for its caller to come again"
    waits = _kept_back(record, fleet) or _not_taken(record, fleet)
    if waits is None and record.gate is GateKind.CONCURRENCY:
        waits = f"waits for one of those to end that run under {record.gate_key!r}"
    if waits is None and record.gate is GateKind.RATE:
        waits = f"waits until enough has come in again of {record.gate_key!r}"
    return waits or "waits for its turn at a worker"


def _kept_back(record: Record, fleet: Fleet) -> str | None:
    if pause := fleet.pause_on(record.queue, record.tool):
        return f"is kept back: the {pause.target} {pause.name!r} is paused, by {pause.by!r}: {pause.reason}"
    if record.gate is GateKind.STRIKE:
        return "is kept back: one of its arguments is struck; `mycelium queues` tells which, by whom and why"
    return None


def _not_taken(record: Record, fleet: Fleet) -> str | None:
    queue, tool = record.queue, record.tool
    if not fleet.that_know(tool):
        return f"waits for a worker that knows the tool {tool!r}: none that lives does. Start one"
    if not fleet.that_take(queue, tool):
        return f"waits for a worker that takes {tool!r} from the queue {queue!r}: those that live do not, or are quiet"
    return None


def _held(record: Record, standing: Standing) -> Advice:
    if standing.liveness is Liveness.HELD:
        if not record.cancel_ms:
            return Advice(_BY_STATE[record.state], (cancel_command(record.request_id),))
        by = f" by {record.cancel_by!r}" if record.cancel_by else ""
        asked = (
            f"{_BY_STATE[record.state]}, and was asked{by} to stop: what it has sent by then is found out, not undone"
        )
        return Advice(asked)
    if standing.liveness is Liveness.GRACE:
        text = f"its holder lapsed and may be alive for {standing.for_s} s more: wait, or say that it is dead"
        return Advice(text, (mark_dead_command(record),))
    text = "its holder is dead: a worker's sweep takes it, or a release does"
    if record.boundary is not Boundary.NOT_CROSSED and record.effect_class not in REPEATABLE:
        text += ". Then it is unknown, and what was sent may still arrive: not-executed can be said some time later"
    return Advice(text, (cancel_command(record.request_id),))


def _in_doubt(record: Record, standing: Standing) -> Advice:
    ask = "its provider is asked; if it cannot say, look there yourself" if record.asked else "look at the provider"
    text = f"{ask}, and record what you saw; never run again by guess"
    if standing.liveness is Liveness.GRACE:
        text += f". Its old attempt may still send for {standing.for_s} s: until then not-executed is refused"
    if record.cancel_ms:
        text += ". It was asked to stop: whatever is found out, it does not run again"
    return Advice(text, (release_command(record, "completed"), release_command(record, "not-executed")))


def release_command(record: Record, verified: str) -> str:
    """The command that records what was verified of a transition, as it was shown."""
    result = "--result-json @RESULT.json " if verified == "completed" else ""
    options = f"--expect {version_of(record)} --verified {verified} {result}"
    return _command("release", record.request_id, f"{options}--by YOU --reason WHY")


def mark_dead_command(record: Record) -> str:
    """The command that declares the holder of a transition dead."""
    return _command("mark-dead", record.request_id, "--by YOU --reason WHY")


def cancel_command(request_id: str) -> str:
    """The command that cancels a transition."""
    return _command("cancel", request_id, "--by YOU --reason WHY")


def requeue_command(request_id: str) -> str:
    """The command that lets a transition run again that ended without an effect."""
    return _command("requeue", request_id, "--by YOU --reason WHY")


def _command(verb: str, request_id: str, options: str) -> str:
    name = shlex.quote(request_id)
    # An id may look like an option: after `--` none does.
    words = f"{options} -- {name}" if name.startswith("-") else f"{name} {options}"
    return f"mycelium transitions {verb} {words}"
