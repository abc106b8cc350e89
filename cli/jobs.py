"""`mycelium jobs`: lists transitions, and tells the record and the history of one."""

from __future__ import annotations

import dataclasses
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated

import typer

from ..ledger.states import State
from .options import EPILOG, AsJson, Namespace, Url
from .output import duration, print_fields, print_json, print_table, run

if TYPE_CHECKING:
    from ..leases.store import Store
    from ..ledger.record import Record

jobs = typer.Typer(no_args_is_help=True, help="Look at jobs.")

RequestId = Annotated[str, typer.Argument(metavar="ID", help="The request id.")]


@jobs.command("list", epilog=EPILOG)
def list_(  # noqa: PLR0913, PLR0917 - each is an option of the command
    state: Annotated[State | None, typer.Option(help="Only those in this state.")] = None,
    tool: Annotated[str | None, typer.Option(help="Only those of this tool.")] = None,
    limit: Annotated[int, typer.Option(min=1, max=10_000, help="At most so many.")] = 50,
    url: Url = None,
    namespace: Namespace = "mycelium",
    as_json: AsJson = False,  # noqa: FBT002 - (the same)
) -> None:
    """List jobs, the last changed first. Ended ones are found as far back as the event stream goes."""
    run(_list(state, tool, limit, url=url, namespace=namespace, as_json=as_json), as_json=as_json)


@jobs.command(epilog=EPILOG)
def show(request_id: RequestId, url: Url = None, namespace: Namespace = "mycelium", as_json: AsJson = False) -> None:  # noqa: FBT002
    """Show all that is on record of one job, and what its error said; never its arguments or result."""
    run(_show(request_id, url=url, namespace=namespace, as_json=as_json), as_json=as_json)


@jobs.command(epilog=EPILOG)
def timeline(
    request_id: RequestId,
    url: Url = None,
    namespace: Namespace = "mycelium",
    as_json: AsJson = False,  # noqa: FBT002
) -> None:
    """Show the history of one job: each move, when, under which fence, and why."""
    run(_timeline(request_id, url=url, namespace=namespace, as_json=as_json), as_json=as_json)


async def _list(  # noqa: PLR0913 - each is an option of the command
    state: State | None, tool: str | None, limit: int, *, url: str | None, namespace: str, as_json: bool
) -> None:
    from ..ledger.listing import list_jobs  # noqa: PLC0415 - help and completion come without it
    from ..ledger.record import read_now_ms  # noqa: PLC0415 - (the same)

    async with connected(url, namespace) as store:
        where = store.address
        now_ms = await read_now_ms(store)
        records = await list_jobs(store, state=state, tool=tool, limit=limit)
    if as_json:
        print_json({"jobs": [_line(record, now_ms) for record in records]})
        return
    rows = [
        (
            r.request_id,
            r.tool,
            r.state,
            r.boundary,
            r.attempts,
            duration(now_ms - r.created_ms),
            r.error,
            _next_action(r),
        )
        for r in records
    ]
    columns = ("request id", "tool", "state", "boundary", "attempts", "age", "error", "next")
    print_table(columns, rows, empty=f"No jobs in namespace {namespace!r} at {where}.")


async def _show(request_id: str, *, url: str | None, namespace: str, as_json: bool) -> None:
    record, now_ms, detail = await _read(request_id, url, namespace)
    if as_json:
        print_json({"job": dataclasses.asdict(record) | _line(record, now_ms) | {"detail": detail}})
        return
    told = {field.name: getattr(record, field.name) for field in dataclasses.fields(record) if field.name != "history"}
    told["detail"] = detail
    told["created"] = _instant(told.pop("created_ms"))
    told["changed"] = _instant(record.changed_ms)
    told["age"] = duration(now_ms - record.created_ms)
    told["next"] = _next_action(record)
    print_fields([(name.replace("_", " "), value) for name, value in told.items()])


async def _timeline(request_id: str, *, url: str | None, namespace: str, as_json: bool) -> None:
    record, _, _ = await _read(request_id, url, namespace)
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


async def _read(request_id: str, url: str | None, namespace: str) -> tuple[Record, int, str]:
    from ..actors.client import checked_request_id  # noqa: PLC0415 - help and completion come without it
    from ..ledger.record import Failure, read_body, read_now_ms, read_record  # noqa: PLC0415 - (the same)

    checked_request_id(request_id)
    async with connected(url, namespace) as store:
        record = await read_record(store, request_id)
        detail = ""
        if record.state in {State.FAILED, State.DEAD, State.UNKNOWN}:
            detail = Failure.read(await read_body(store, request_id) or b"", record.error).detail
        return record, await read_now_ms(store), detail


@asynccontextmanager
async def connected(url: str | None, namespace: str) -> AsyncGenerator[Store, None]:
    """Open a store for one command."""
    from ..leases.store import open_store  # noqa: PLC0415 - help and completion come without it

    store = await open_store(url, namespace=namespace)
    try:
        yield store
    finally:
        await store.aclose()


def _line(record: Record, now_ms: int) -> dict[str, object]:
    return {
        "request_id": record.request_id,
        "tool": record.tool,
        "state": record.state,
        "boundary": record.boundary,
        "attempts": record.attempts,
        "age_s": max(0, now_ms - record.created_ms) / 1000,
        "error": record.error,
        "next": _next_action(record),
    }


def _next_action(record: Record) -> str:
    from ..ledger.listing import next_action  # noqa: PLC0415 - help and completion come without it

    return next_action(record)


def _instant(ms: int) -> str:
    return datetime.fromtimestamp(ms / 1000, UTC).isoformat(sep=" ", timespec="milliseconds").replace("+00:00", "Z")
