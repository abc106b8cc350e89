"""What is the matter with a transition, and what to do about it: in words, and as the commands to type."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from .record import Record
from .release import version_of
from .standing import Standing
from .states import HELD, REPEATABLE, Boundary, Liveness, State


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
    State.READY: "waits for a worker that has this tool, or for its caller to come again",
    State.PARKED: "waits for a person's approval",
    State.CLAIMED: "is about to start",
    State.ATTEMPTING: "is running",
    State.COMPLETED: "nothing is left to do",
    State.FAILED: "nothing is left to do: no effect exists; a new request id tries again",
    State.CANCELLED: "nothing is left to do: it never ran",
    State.DEAD: "mend the cause; a new request id tries again",
}


def next_action(record: Record, standing: Standing) -> Advice:
    """Say what happens next with a transition, or what a person is to do.

    Args:
        record: the transition.
        standing: of its last attempt.
    """
    if record.state is State.UNKNOWN:
        return _in_doubt(record, standing)
    if record.state in HELD and standing.liveness is Liveness.GRACE:
        text = f"its holder lapsed and may be alive for {standing.for_s} s more: wait, or say that it is dead"
        return Advice(text, (mark_dead_command(record),))
    if record.state in HELD and standing.liveness is not Liveness.HELD:
        text = "its holder is dead: a worker's sweep takes it, or a release does"
        if record.boundary is not Boundary.NOT_CROSSED and record.effect_class not in REPEATABLE:
            text += ". Then it is unknown, and what was sent may still arrive: not-executed can be said some time later"
        return Advice(text)
    return Advice(_BY_STATE[record.state])


def _in_doubt(record: Record, standing: Standing) -> Advice:
    ask = "its provider is asked; if it cannot say, look there yourself" if record.asked else "look at the provider"
    text = f"{ask}, and record what you saw; never run again by guess"
    if standing.liveness is Liveness.GRACE:
        text += f". Its old attempt may still send for {standing.for_s} s: until then not-executed is refused"
    return Advice(text, (release_command(record, "completed"), release_command(record, "not-executed")))


def release_command(record: Record, verified: str) -> str:
    """The command that records what was verified of a transition, as it was shown."""
    result = "--result-json @RESULT.json " if verified == "completed" else ""
    return _command("release", record, f"--expect {version_of(record)} --verified {verified} {result}")


def mark_dead_command(record: Record) -> str:
    """The command that declares the holder of a transition dead."""
    return _command("mark-dead", record, "")


def _command(verb: str, record: Record, options: str) -> str:
    name, options = shlex.quote(record.request_id), f"{options}--by YOU --reason WHY"
    # An id may look like an option: after `--` none does.
    words = f"{options} -- {name}" if name.startswith("-") else f"{name} {options}"
    return f"mycelium transitions {verb} {words}"
