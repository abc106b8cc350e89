"""`mycelium schedules`: lists an application's schedules: when they are due next, and what became of the last job."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from .connected import connected
from .options import AsJson, Namespace, Url
from .output import print_json, print_table, run

if TYPE_CHECKING:
    from datetime import datetime

    from ..actors.schedules.lines import ScheduleLine


def schedules(
    app: Annotated[
        str,
        typer.Argument(
            metavar="APP", envvar="MYCELIUM_APP", help="Where the schedules are: package.module[:attribute]."
        ),
    ],
    count: Annotated[int, typer.Option("--next", min=1, max=1000, help="How many due times to tell of each.")] = 2,
    url: Url = None,
    namespace: Namespace = "mycelium",
    as_json: AsJson = False,  # noqa: FBT002 - an option
) -> None:
    """List the schedules of APP, when they are due next, and their last jobs. Nothing is submitted."""
    run(_schedules(app, count, url=url, namespace=namespace, as_json=as_json), as_json=as_json)


async def _schedules(app: str, count: int, *, url: str | None, namespace: str, as_json: bool) -> None:
    from ..actors.load import load_app  # noqa: PLC0415 - help and completion come without it
    from ..actors.schedules.lines import read_lines  # noqa: PLC0415 - (the same)

    facts = [each.facts for _, each in sorted(load_app(app).schedules.items())]
    async with connected(url, namespace) as store:
        lines = await read_lines(store, facts, count)
    if as_json:
        print_json({"schedules": [_told(line) for line in lines]})
        return
    columns = ("name", "tool", "rule", "zone", "next due (UTC)", "last due (UTC)", "its job", "standing")
    rows = [
        (
            line.facts.name,
            line.facts.intent.tool,
            line.facts.rule,
            line.facts.zone or "-",
            ", ".join(_text(due) for due in line.next) or "never",
            "-" if line.last is None else _text(line.last),
            line.state or "-",
            _standing(line),
        )
        for line in lines
    ]
    print_table(columns, rows, empty=f"There are no schedules in {app}.")


def _told(line: ScheduleLine) -> dict[str, object]:
    facts = line.facts
    return {
        "name": facts.name,
        "tool": facts.intent.tool,
        "rule": str(facts.rule),
        "zone": facts.zone,
        "catch_up": facts.catch_up,
        "look_back_s": facts.look_back_s,
        "overlap": facts.overlap,
        "next": [_text(due) for due in line.next],
        "upto": None if line.upto is None else line.upto.isoformat(timespec="milliseconds"),
        "ahead": line.ahead,
        "last": None
        if line.last is None
        else {"due": _text(line.last), "request_id": line.request_id, "state": line.state},
    }


def _standing(line: ScheduleLine) -> str:
    if line.upto is None:
        return "begins with the first worker that has it"
    if line.ahead:
        return f"the server's clock was ahead: nothing before {_text(line.upto)}"
    return "scheduled"


def _text(instant: datetime) -> str:
    from ..actors.schedules.facts import utc_text  # noqa: PLC0415 - help and completion come without it

    return utc_text(instant)
