"""`mycelium transitions`: lists what is on record and what is stuck, and tells the record and the history of one."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..ledger.line import Priority
from ..ledger.states import State
from .cancel import cancel, requeue
from .connected import connected
from .operator import mark_dead, release
from .options import EPILOG, AsJson, Namespace, Url
from .output import duration, instant, print_fields, print_json, print_table, progress_text, run, say, shown
from .reading import read_labels

if TYPE_CHECKING:
    from ..ledger.listing import Listed, Listing
    from ..ledger.past import PastWord
    from ..ledger.record import Record

transitions = typer.Typer(
    no_args_is_help=True,
    help="Look at transitions: intended effects, queued as jobs or called in process. Cancel them, let them run again, "
    "and settle by hand what is in doubt.",
)
transitions.command(epilog=EPILOG)(release)
transitions.command(epilog=EPILOG)(mark_dead)
transitions.command(epilog=EPILOG)(cancel)
transitions.command(epilog=EPILOG)(requeue)

_INSTANTS = {
    "start_by_ms": "start by",
    "deadline_ms": "deadline",
    "cancel_ms": "cancel asked",
    "requeued_ms": "requeued",
}

RequestId = Annotated[str, typer.Argument(metavar="ID", help="The request id, or one that joined it.")]


@transitions.command("list", epilog=EPILOG)
def list_(  # noqa: PLR0913, PLR0917 - each is an option of the command
    stuck: Annotated[  # noqa: FBT002 - (the same)
        bool,
        typer.Option("--stuck", help="Only what will not end by itself, or not soon, and why; longest stuck first."),
    ] = False,
    state: Annotated[State | None, typer.Option(help="Only those in this state.")] = None,
    tool: Annotated[str | None, typer.Option(help="Only those of this tool.")] = None,
    parent: Annotated[str | None, typer.Option(help="Only those that this transition handed off.")] = None,
    older_than_s: Annotated[
        float | None, typer.Option("--older-than", min=0.0, help="Only those that stand so for so many seconds.")
    ] = None,
    queue: Annotated[str | None, typer.Option(help="Only those of this queue.")] = None,
    tenant: Annotated[str | None, typer.Option(help="Only those of this tenant.")] = None,
    label: Annotated[
        list[str] | None, typer.Option(metavar="NAME=VALUE", help="Only those with this label; may be said again.")
    ] = None,
    limit: Annotated[int, typer.Option(min=1, max=10_000, help="At most so many.")] = 50,
    look_back: Annotated[
        int, typer.Option(min=1, max=200_000, help="Look at so many of the last moves, and of the open ones.")
    ] = 5_000,
    url: Url = None,
    namespace: Namespace = "mycelium",
    as_json: AsJson = False,  # noqa: FBT002 - (the same)
) -> None:
    """List transitions, the last changed first.

    Ended ones are found as far back as --look-back says, and never further than the events that the ledger keeps, about
    100,000; each that is still kept can be shown by its id.
    """
    filters = {"state": state, "tool": tool, "stuck": stuck, "parent": parent, "older_than_s": older_than_s}
    filters |= {"queue": queue, "tenant": tenant}
    run(_list(filters, label or [], limit, look_back, url=url, namespace=namespace, as_json=as_json), as_json=as_json)


@transitions.command(epilog=EPILOG)
def show(
    request_id: RequestId,
    arguments: Annotated[  # noqa: FBT002 - an option
        bool, typer.Option("--arguments", help="The stored arguments as well; they may hold secrets.")
    ] = False,
    url: Url = None,
    namespace: Namespace = "mycelium",
    as_json: AsJson = False,  # noqa: FBT002 - (the same)
) -> None:
    """Show all that is on record of one transition, what its error said, and what to do; never its result."""
    run(_show(request_id, arguments, url=url, namespace=namespace, as_json=as_json), as_json=as_json)


@transitions.command(epilog=EPILOG)
def timeline(
    request_id: RequestId,
    url: Url = None,
    namespace: Namespace = "mycelium",
    as_json: AsJson = False,  # noqa: FBT002 - (the same)
) -> None:
    """Show the history of one transition: each move, when, under which fence, and why."""
    run(_timeline(request_id, url=url, namespace=namespace, as_json=as_json), as_json=as_json)


async def _list(  # noqa: PLR0913 - each is an option of the command
    filters: dict[str, Any],
    labels: list[str],
    limit: int,
    look_back: int,
    *,
    url: str | None,
    namespace: str,
    as_json: bool,
) -> None:
    from ..ledger.listing import Wanted, find_transitions  # noqa: PLC0415 - help and completion come without it
    from ..ledger.record import read_now_ms  # noqa: PLC0415 - (the same)

    filters["labels"] = read_labels(labels)
    async with connected(url, namespace) as store:
        where = f"in namespace {namespace!r} at {store.address}"
        found = await find_transitions(store, Wanted(**filters), limit=limit, look_back=look_back)
        now_ms = await read_now_ms(store)
    if as_json:
        cut = {"truncated": found.more or found.cut, "looked_back_to_ms": found.looked_back_to_ms}
        print_json({"transitions": [_line(one, now_ms) for one in found.lines], **cut})
        return
    rows = [
        (
            one.record.request_id,
            one.record.tool,
            _waits_in(one.record),
            one.record.state,
            one.why or "-",
            one.record.boundary,
            one.record.attempts,
            duration(now_ms - one.record.changed_ms),
            one.record.error or "-",
            one.advice.text,
        )
        for one in found.lines
    ]
    columns = ("request id", "tool", "queue", "state", "stuck", "boundary", "attempts", "for", "error", "next")
    print_table(columns, rows, empty=_none(filters, found, where))
    if found.more:
        say(f"There are more than these {len(rows):,}: give a higher --limit.")
    if found.cut:
        back = f", to {instant(found.looked_back_to_ms)}" if found.looked_back_to_ms is not None else ""
        say(f"Looked back over {look_back:,} moves{back}: for what moved before that, give a higher --look-back.")


def _none(filters: dict[str, Any], found: Listing, where: str) -> str:
    """Say that there are none; none at all is another thing than none that match."""
    others = [name for name, value in filters.items() if name != "stuck" and value not in (None, {})]
    if filters["stuck"]:
        return f"Nothing {'that matches ' if others else ''}is stuck {where}."
    if not others or (not found.seen and found.looked_back_to_ms is None):
        return f"No transitions {where}."
    return f"No transition matches {where}."


async def _show(request_id: str, arguments: bool, *, url: str | None, namespace: str, as_json: bool) -> None:  # noqa: FBT001
    from ..actors.client import checked_request_id  # noqa: PLC0415 - help and completion come without it
    from ..ledger.listing import look_at  # noqa: PLC0415 - (the same)
    from ..ledger.past import read_past  # noqa: PLC0415 - (the same)
    from ..ledger.record import Failure, read_body, read_now_ms  # noqa: PLC0415 - (the same)

    checked_request_id(request_id)
    async with connected(url, namespace) as store:
        one = await look_at(store, request_id)
        record, now_ms = one.record, await read_now_ms(store)
        past = await read_past(store, record.request_id)
        told: dict[str, object] = {}
        if record.state in {State.FAILED, State.DEAD, State.UNKNOWN}:
            told["detail"] = Failure.read(await read_body(store, record.request_id) or b"", record.error).detail
        if arguments:
            stored = await store.calls.read("GET", store.keys.args(record.request_id))
            told["arguments"] = stored.decode("utf-8", "backslashreplace") if isinstance(stored, bytes) else ""
    if as_json:
        print_json({"transition": _facts(one, past) | _line(one, now_ms) | told})
    else:
        print_fields(_fields(one, past, now_ms, told))


async def _timeline(request_id: str, *, url: str | None, namespace: str, as_json: bool) -> None:
    from ..actors.client import checked_request_id  # noqa: PLC0415 - help and completion come without it
    from ..ledger.record import read_record  # noqa: PLC0415 - (the same)

    checked_request_id(request_id)
    async with connected(url, namespace) as store:
        record = await read_record(store, request_id)
    if as_json:
        entries = [dataclasses.asdict(entry) for entry in record.history]
        told = {"request_id": record.request_id, "state": record.state, "cause": record.cause}
        print_json({**told, "labels": record.about.labels, "timeline": entries})
        return
    start_ms = record.created_ms
    rows = [
        (e.number, instant(e.at_ms), f"+{duration(e.at_ms - start_ms)}", e.what, e.fence, e.why) for e in record.history
    ]
    print_table(("no.", "time", "after", "state", "fence", "why"), rows, empty="No history is on record.")
    for said in _said(record):
        say(shown(said))


def _said(record: Record) -> list[str]:
    """What people asked of it, which its history has without their words."""
    said: list[str] = []
    if record.requeued_ms:
        said.append(f"Requeued {instant(record.requeued_ms)} by {record.requeued_by}: {record.requeue_reason}")
    if record.cancel_ms:
        by, why = record.cancel_by or "somebody", f": {record.cancel_reason}" if record.cancel_reason else ""
        said.append(f"Its cancel was asked for {instant(record.cancel_ms)} by {by}{why}")
    return said


def _waits_in(record: Record) -> str:
    if record.priority is None:
        return "-"
    return record.queue if record.priority is Priority.NORMAL else f"{record.queue}/{record.priority}"


def _line(one: Listed, now_ms: int) -> dict[str, object]:
    record = one.record
    return {
        "request_id": record.request_id,
        "tool": record.tool,
        "queue": record.queue,
        "priority": record.priority,
        "tenant": record.tenant,
        "labels": record.about.labels,
        "state": record.state,
        "cause": record.cause,
        "stuck": one.why,
        "liveness": one.liveness,
        "boundary": record.boundary,
        "attempts": record.attempts,
        "age_s": max(0, now_ms - record.created_ms) / 1000,
        "stands_for_s": max(0, now_ms - record.changed_ms) / 1000,
        "error": record.error,
        "next": one.advice.text,
        "commands": one.advice.commands,
    }


def _facts(one: Listed, past: list[PastWord]) -> dict[str, object]:
    """The record as plain values, with what is not in it but follows from it."""
    import msgspec  # noqa: PLC0415 - help and completion come without it

    from ..ledger.release import version_of  # noqa: PLC0415 - (the same)
    from ..ledger.states import EffectClass  # noqa: PLC0415 - (the same)

    record = one.record
    facts: dict[str, object] = {
        field.name: getattr(record, field.name) for field in dataclasses.fields(record) if field.name != "history"
    }
    facts["progress"] = None if record.progress is None else dataclasses.asdict(record.progress)
    facts["about"] = msgspec.to_builtins(record.about)
    # Where the caller chose no key, the provider got the effect's own id.
    facts["provider_key"] = record.key or (record.effect_id if record.effect_class is EffectClass.KEYED_MUTATE else "")
    facts["version"] = version_of(record)
    facts["past"] = [dataclasses.asdict(word) for word in past]
    facts["history"] = [dataclasses.asdict(entry) for entry in record.history]
    return facts


def _fields(one: Listed, past: list[PastWord], now_ms: int, more: dict[str, object]) -> list[tuple[str, object]]:
    """The same for people: a line each, instants as dates."""
    record, facts = one.record, _facts(one, past)
    for name in ("history", "past", "created_ms", "resolved_ms", "key", "gate_key", "labels", *_INSTANTS):
        facts.pop(name, None)
    about = facts.pop("about")
    facts |= about if isinstance(about, dict) else {}
    facts |= {"aliases": ", ".join(record.aliases), "liveness": one.liveness, "stuck": one.why, **more}
    facts |= {name: instant(ms) if (ms := getattr(record, field)) else "" for field, name in _INSTANTS.items()}
    facts["labels"] = ", ".join(f"{name}={value}" for name, value in record.about.labels.items())
    facts["gate"] = "" if record.gate is None else f"{record.gate} {record.gate_key}"
    facts["progress"] = "" if record.progress is None else progress_text(record.progress, now_ms)
    facts["resolved"] = instant(record.resolved_ms) if record.resolved_ms else ""
    facts["created"], facts["changed"] = instant(record.created_ms), instant(record.changed_ms)
    facts["age"] = duration(now_ms - record.created_ms)
    fields = [(name.replace("_", " "), value) for name, value in facts.items()]
    fields += [("before", f"{instant(w.at_ms)} {w.what}, by {w.by}: {w.reason}") for w in past]
    return [*fields, ("next", one.advice.text), *[("", command) for command in one.advice.commands]]
