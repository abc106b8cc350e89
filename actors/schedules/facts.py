"""What the control process must know of a schedule, so that it never imports tool code."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime
from enum import StrEnum

import msgspec

from ...ledger.canon import json_body
from ...ledger.identity import identify
from ...ledger.submit import Intent
from .recurrence import Cron, Every

SCHEDULE_LABEL, DUE_LABEL = "schedule", "due"
"""Labels of every scheduled job."""


class CatchUp(StrEnum):
    """What becomes of due times at which no worker looked. Before a minute has passed, none counts as missed."""

    LATEST = "latest"
    """The last missed one gets its job, unless a later one has; the others are passed over."""
    ALL = "all"
    """Each missed one gets its job."""
    NONE = "none"
    """All are passed over."""


class Overlap(StrEnum):
    """What becomes of a due time while the last job of its schedule has not ended."""

    ALLOW = "allow"
    """It gets its job: another due time is another effect."""
    SKIP = "skip"
    """It is passed over. A last job that is unknown has not ended."""


class ScheduleFacts(msgspec.Struct, frozen=True, array_like=True):
    """One schedule, as a host tells it.

    Attributes:
        name: what its jobs are named by.
        rule: when it is due.
        intent: what is submitted, but for the name and the due time.
        args: canonical arguments without the one that tells the due time: the request id tells it already.
        destination: the canonical form of the argument that names the receiver, or nothing.
        due_as: the parameter that is given the due time; empty: none.
        catch_up: what becomes of due times that were missed.
        look_back_s: how old a missed due time may be, in seconds.
        overlap: what becomes of a due time while the last job has not ended.
    """

    name: str
    rule: Cron | Every
    intent: Intent
    args: bytes
    destination: bytes = b""
    due_as: str = ""
    catch_up: CatchUp = CatchUp.LATEST
    look_back_s: float = 86400.0
    overlap: Overlap = Overlap.ALLOW

    def __repr__(self) -> str:
        # Arguments may be secrets of the caller's, and a repr ends up in logs.
        return f"<schedule {self.name!r} of {self.intent.tool!r}>"

    @property
    def key(self) -> str:
        """What its progress is kept under: with another rule it begins anew."""
        return " ".join(part for part in (self.name, str(self.rule), self.zone) if part)

    @property
    def zone(self) -> str | None:
        """The time zone whose clock its rule goes by; None: an interval goes by no clock."""
        return self.rule.zone if isinstance(self.rule, Cron) else None

    def request_id(self, due: datetime) -> str:
        """The one job of a due time, whoever submits it and whatever the clocks of workers show."""
        return f"schedule:{self.name}:{utc_text(due)}"

    def intent_at(self, due: datetime, *, namespace: str) -> Intent:
        """What is submitted for a due time."""
        binding = self.intent.binding
        identity = identify(
            self.intent.tool,
            binding.effect_class,
            self.args,
            namespace=namespace,
            request_id=self.request_id(due),
            destination=self.destination,
            agent_id=binding.agent_id,
            policy_version=binding.policy_version,
        )
        labels = self.intent.about.labels | {SCHEDULE_LABEL: self.name, DUE_LABEL: utc_text(due)}
        return replace(
            self.intent,
            identity=replace(identity, args=self.body_at(due)),
            about=msgspec.structs.replace(self.intent.about, labels=labels),
        )

    def body_at(self, due: datetime) -> bytes:
        """The arguments that the tool is given."""
        body = self.intent.identity.args
        return json_body({**json.loads(body), self.due_as: utc_text(due)}) if self.due_as else body


def utc_text(due: datetime) -> str:
    """A due time as it is written everywhere: `2026-11-01T05:30:00Z`."""
    return due.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
