"""`schedule(…)`: a call of a tool that is due again and again, declared beside the tool."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any, TypedDict, Unpack, cast

import msgspec

from ...leases.errors import BadCallError, MyceliumError, SettingsError
from ...ledger.canon import DEFAULT_MAX_ARGS_BYTES, canonical, pick
from ...ledger.facets import WIDTH, facet
from ...ledger.limits import Limit
from ...ledger.line import Priority
from ...ledger.submit import Intent, Retention
from ..submissions import AnyCall, AnyTool, Submission, intent_of
from ..tool import Call, Tool
from .facts import DUE_LABEL, SCHEDULE_LABEL, CatchUp, Overlap, ScheduleFacts, utc_text
from .recurrence import Rule, cron_rule, every_rule

LONGEST_PAUSE = timedelta(days=1)
"""So long a scheduler may be frozen between its look and its submit without making a second job for one due time."""

_NAME = re.compile(r"[A-Za-z0-9_.-]{1,64}")
_SAMPLE = datetime(2001, 2, 3, 4, 5, 6, tzinfo=UTC)
_DEFAULT_LOOK_BACK = timedelta(days=1)


class ScheduleOptions(TypedDict, total=False):
    """How the jobs of a schedule wait and run: as in a submit, but for what names a job or says when it may start.

    Attributes:
        start_by: seconds, or a duration, from the submit, which is at its due time or as soon as a worker looks.
        deadline: the same.
    """

    queue: str | None
    priority: Priority | str | None
    tenant: str
    start_by: timedelta | float | None
    deadline: timedelta | float | None
    timeout_s: float | None
    idle_timeout_s: float | None
    limits: tuple[Limit, ...]
    labels: Mapping[str, str] | None
    retention: Retention


@dataclass(frozen=True, slots=True)
class Schedule:
    """One schedule. Made by `schedule`.

    Attributes:
        tool: the tool that is called.
        facts: all that a worker needs to submit its jobs.
    """

    tool: AnyTool
    facts: ScheduleFacts

    @property
    def name(self) -> str:
        """What its jobs are named by."""
        return self.facts.name


def schedule(  # noqa: PLR0913 - a declaration says it all in one place
    name: str,
    call: AnyCall | AnyTool,
    arguments: Mapping[str, object] | None = None,
    *,
    cron: str | None = None,
    zone: str = "UTC",
    every: timedelta | float | None = None,
    due_as: str | None = None,
    catch_up: CatchUp | str = CatchUp.LATEST,
    look_back: timedelta = _DEFAULT_LOOK_BACK,
    overlap: Overlap | str = Overlap.ALLOW,
    **options: Unpack[ScheduleOptions],
) -> Schedule:
    """Declare a call that is due again and again: one job for each due time, whatever the number of workers.

    Args:
        name: unique in its namespace: 1 to 64 letters, digits, `_`, `.` and `-`. Jobs are named by it, so it stays.
        call: `tool.bind(…)`, or a tool.
        arguments: the arguments by name, where a tool is given.
        cron: a rule of five fields on the clock of `zone`, as `0 3 * * MON-FRI`.
        zone: a name of the time zone database; with `cron` only.
        every: an interval of whole seconds, or their number, in place of `cron`.
        due_as: the parameter that is given the due time, a `datetime` in UTC or its text.
        catch_up: what becomes of due times that no worker looked at.
        look_back: how old a due time may be that is caught up.
        overlap: what becomes of a due time while the last job has not ended.
        **options: how its jobs wait and run: see `ScheduleOptions`.

    Raises:
        SettingsError: the rule is none, or what is said contradicts itself.
        BadCallError: the arguments do not fit the tool, or an option is none.
    """
    if not isinstance(cast("object", name), str) or not _NAME.fullmatch(name):
        what = f"{str(name)[:64]!r} is no name for a schedule."
        raise SettingsError(what, next_step="Use 1 to 64 letters, digits, '_', '.' and '-'.")
    try:
        rule = _rule(cron, zone, every)
        behaviour = _behaviour(catch_up, look_back, overlap)
        bound = _bound(call, arguments, due_as)
        intent, args, destination = _template(name, bound, due_as, options)
        _check_retention(intent.retention, look_back)
    except MyceliumError as error:
        raise type(error)(f"The schedule {name!r}: {error.what}", next_step=error.next_step) from None
    facts = ScheduleFacts(name, rule, intent, args, destination, due_as or "", *behaviour)
    return Schedule(bound.tool, _filled(facts, bound))


def _rule(cron: str | None, zone: str, every: timedelta | float | None) -> Rule:
    if cron is not None and every is None:
        return cron_rule(cron, zone)
    if cron is None and every is not None and zone == "UTC":
        return every_rule(every)
    raise _wrong("It is due by either cron=, with zone= if need be, or every=.")


def _behaviour(catch_up: str, look_back: timedelta, overlap: str) -> tuple[CatchUp, float, Overlap]:
    if catch_up not in set(CatchUp) or overlap not in set(Overlap):
        raise _wrong(f"catch_up= is one of {', '.join(CatchUp)}; overlap= is one of {', '.join(Overlap)}.")
    if look_back <= timedelta():
        raise _wrong(f"look_back is {look_back}.")
    how, over = CatchUp(catch_up), Overlap(overlap)
    if how is CatchUp.ALL and over is Overlap.SKIP:
        raise _wrong(
            "catch_up='all' makes jobs for several due times at once, of which overlap='skip' keeps the first."
        )
    return how, look_back.total_seconds(), over


def _bound(call: AnyCall | AnyTool, arguments: Mapping[str, object] | None, due_as: str | None) -> AnyCall:
    if isinstance(call, Tool):
        bound: AnyCall = Call(call, dict(arguments or {}))
    elif isinstance(cast("object", call), Call) and arguments is None:
        bound = call
    else:
        raise _wrong("It calls a tool with arguments by name, or tool.bind(…) without any.")
    if due_as is None:
        return bound
    if due_as in bound.arguments or due_as not in bound.tool.signature.parameters:
        raise _wrong(f"due_as={due_as!r} is no parameter that is left to be filled.")
    named = [bound.tool.binding.destination or "", *(path for limit in bound.tool.terms.limits for path in limit.paths)]
    if due_as in {path.partition(".")[0] for path in named}:
        raise _wrong(f"due_as={due_as!r} names a receiver or a limit, which are the same for all due times.")
    return Call(bound.tool, bound.arguments | {due_as: utc_text(_SAMPLE)})


def _template(name: str, call: AnyCall, due_as: str | None, options: ScheduleOptions) -> tuple[Intent, bytes, bytes]:
    """What is submitted, checked as a submit would check it; and the parts of its identity."""
    _check_options(options)
    tool, binding = call.tool, call.tool.binding
    said: dict[str, Any] = {**options, "request_id": f"schedule:{name}"}
    intent = intent_of(Submission(call, **said), {}, namespace="mycelium", max_args_bytes=DEFAULT_MAX_ARGS_BYTES)
    if intent.key:
        # The provider would answer every due time from the first one's record.
        raise _wrong(f"{binding.key_param!r} is the provider's key, which each due time needs one of: leave it out.")
    wired = tool.to_wire(call.arguments)
    values = {name: value for name, value in wired.values.items() if name != due_as}
    args = wired.args if due_as is None else canonical(values)
    destination = b"" if binding.destination is None else canonical(pick(values, binding.destination))
    return intent, args, destination


def _check_options(options: ScheduleOptions) -> None:
    strange = sorted(set(options) - set(ScheduleOptions.__annotations__))
    if strange:
        raise _wrong(f"{', '.join(strange)}: this names a job or says when it starts, which is the schedule's to say.")
    for moment in (options.get("start_by"), options.get("deadline")):
        if isinstance(moment, datetime):
            raise _wrong("start_by and deadline are told from the submit: seconds, or a timedelta.")
    if {SCHEDULE_LABEL, DUE_LABEL} & set(options.get("labels") or {}):
        raise _wrong(f"The labels {SCHEDULE_LABEL} and {DUE_LABEL} are the schedule's own.")


def _filled(facts: ScheduleFacts, call: AnyCall) -> ScheduleFacts:
    """Make sure that a due time can be filled in without the tool, and take the sample's out."""
    if not facts.due_as:
        return facts
    if facts.body_at(_SAMPLE) != facts.intent.identity.args:
        what = f"The schedule {facts.name!r}: {facts.due_as!r} does not take a due time as it is."
        raise BadCallError(what, next_step="Annotate the parameter as datetime or str.")
    sample, found = facet(facts.due_as, call.arguments[facts.due_as]), facts.intent.facets
    kept = "".join(each for at in range(0, len(found), WIDTH) if (each := found[at : at + WIDTH]) != sample)
    return msgspec.structs.replace(facts, intent=replace(facts.intent, facets=kept))


def _check_retention(retention: Retention, look_back: timedelta) -> None:
    """E11: the row outlives whatever could submit the same due time again."""
    if retention.row < look_back + LONGEST_PAUSE:
        raise _wrong(
            f"Its rows are kept for {retention.row}, and a due time may be looked at again for {look_back} and a day."
        )


def _wrong(fault: str) -> SettingsError:
    return SettingsError(fault, next_step="Correct the schedule.")
