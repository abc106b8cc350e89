"""`mycelium transitions`: lists what is on record and what is stuck, and tells the record and the history of one."""

from __future__ import annotations

import dataclasses
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..ledger.states import State
from .connected import connected
from .operator import mark_dead, release
from .options import EPILOG, AsJson, Namespace, Url
from .output import duration, print_fields, print_json, print_table, run, say

if TYPE_CHECKING:
    from ..ledger.listing import Listed, Listing
    from ..ledger.past import PastWord

transitions = typer.Typer(
    no_args_is_help=True,
    help="Look at transitions: intended effects, queued as jobs or called in process. Settle by hand what is in doubt.",
)
transitions.command(epilog=EPILOG)(release)
transitions.command(epilog=EPILOG)(mark_dead)

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
    run(_list(filters, limit, look_back, url=url, namespace=namespace, as_json=as_json), as_json=as_json)


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
    filters: dict[str, Any], limit: int, look_back: int, *, url: str | None, namespace: str, as_json: bool
) -> None:
    from ..ledger.listing import Wanted, find_transitions  # noqa: PLC0415 - help and completion come without it
    from ..ledger.record import read_now_ms  # noqa: PLC0415 - (the same)

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
    columns = ("request id", "tool", "state", "stuck", "boundary", "attempts", "for", "error", "next")
    print_table(columns, rows, empty=_none(filters, found, where))
    if found.more:
        say(f"There are more than these {len(rows):,}: give a higher --limit.")
    if found.cut:
        back = f", to {_instant(found.looked_back_to_ms)}" if found.looked_back_to_ms is not None else ""
        say(f"Looked back over {look_back:,} moves{back}: for what moved before that, give a higher --look-back.")


def _none(filters: dict[str, Any], found: Listing, where: str) -> str:
    """Say that there are none; none at all is another thing than none that match."""
    others = [name for name, value in filters.items() if name != "stuck" and value is not None]
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
        print_json({"request_id": record.request_id, "state": record.state, "timeline": entries})
        return
    start_ms = record.created_ms
    rows = [
        (e.number, _instant(e.at_ms), f"+{duration(e.at_ms - start_ms)}", e.what, e.fence, e.why)
        for e in record.history
    ]
    print_table(("no.", "time", "after", "state", "fence", "why"), rows, empty="No history is on record.")


def _line(one: Listed, now_ms: int) -> dict[str, object]:
    record = one.record
    return {
        "request_id": record.request_id,
        "tool": record.tool,
        "state": record.state,
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
    for name in ("history", "past", "created_ms", "resolved_ms", "key"):
        del facts[name]
    about = facts.pop("about")
    facts |= about if isinstance(about, dict) else {}
    facts |= {"aliases": ", ".join(record.aliases), "liveness": one.liveness, "stuck": one.why, **more}
    facts["resolved"] = _instant(record.resolved_ms) if record.resolved_ms else ""
    facts["created"], facts["changed"] = _instant(record.created_ms), _instant(record.changed_ms)
    facts["age"] = duration(now_ms - record.created_ms)
    fields = [(name.replace("_", " "), value) for name, value in facts.items()]
    fields += [("before", f"{_instant(w.at_ms)} {w.what}, by {w.by}: {w.reason}") for w in past]
    return [*fields, ("next", one.advice.text), *[("", command) for command in one.advice.commands]]


def _instant(ms: int) -> str:
    return datetime.fromtimestamp(ms / 1000, UTC).isoformat(sep=" ", timespec="milliseconds").replace("+00:00", "Z")
