"""`mycelium actors`: shows the actors of each worker, as the worker told them last."""

from __future__ import annotations

import dataclasses
import sys
from typing import TYPE_CHECKING, Annotated

import typer

from .connected import connected
from .options import EPILOG, AsJson, ExitCode, Namespace, Url
from .output import duration, print_json, print_table, run, say, shown

if TYPE_CHECKING:
    from ..leases.store import Store
    from ..ledger.trees import ActorLine, WorkerTree

actors = typer.Typer(no_args_is_help=True, help="See how the parts of each worker stand.")

LOOK_EVERY_S = 2.0
CLEAR = "\x1b[2J\x1b[H"
_COLUMNS = ("actor", "state", "mailbox", "restarts", "last error", "age")


@actors.callback()
def _root() -> None:
    """Keep `tree` a verb of its own, though it is the only one."""


@actors.command(epilog=EPILOG)
def tree(
    worker: Annotated[
        str | None, typer.Option(metavar="NAME|ID", help="Only the worker of this name, or session id (or its start).")
    ] = None,
    url: Url = None,
    namespace: Namespace = "mycelium",
    as_json: AsJson = False,  # noqa: FBT002 - an option
    watch: Annotated[bool, typer.Option("--watch", help="Look again every 2 seconds, until Ctrl-C.")] = False,  # noqa: FBT002 - (the same)
) -> None:
    """Show each worker's tree of actors: state, mailbox, restarts, last error; and how old that news is.

    Workers tell every 5 seconds, and at once when a part fails. What is older than it should be is marked LATE.
    """
    run(_tree(worker, url=url, namespace=namespace, as_json=as_json, watch=watch), as_json=as_json)


async def _tree(worker: str | None, *, url: str | None, namespace: str, as_json: bool, watch: bool) -> None:
    import asyncio  # noqa: PLC0415 - help and completion come without it

    async with connected(url, namespace) as store:
        while True:
            found = await _look(store, worker)
            if watch and not as_json and sys.stdout.isatty():
                typer.echo(CLEAR, nl=False)
            who = "No workers" if worker is None else f"No worker {worker!r}"
            _show(found, as_json=as_json, empty=f"{who} in namespace {namespace!r} at {store.address}.")
            if not watch:
                break
            await asyncio.sleep(LOOK_EVERY_S)
    if worker is not None and not found:
        raise typer.Exit(ExitCode.NOT_FOUND)


async def _look(store: Store, worker: str | None) -> list[WorkerTree]:
    from ..ledger.trees import read_trees  # noqa: PLC0415 - help and completion come without it

    trees = await read_trees(store)
    if not worker:
        return trees
    return [one for one in trees if worker == one.session.name or one.session.session_id.startswith(worker)]


def _show(found: list[WorkerTree], *, as_json: bool, empty: str) -> None:
    if as_json:
        print_json({"workers": [_told(one) for one in found]})
        return
    if not found:
        say(shown(empty))
    for one in found:
        say(_heading(one))
        if one.actors:
            print_table(_COLUMNS, [_row(line, one) for line in one.actors], empty="")


def _told(one: WorkerTree) -> dict[str, object]:
    return {
        "name": one.session.name,
        "session_id": one.session.session_id,
        "lapsed": one.lapsed,
        "told_s_ago": one.told_s_ago,
        "late": one.late,
        "actors": [dataclasses.asdict(line) for line in one.actors],
    }


def _heading(one: WorkerTree) -> str:
    name = shown(f"{one.session.name or '-'} (session {one.session.session_id[:8]})")
    if one.told_s_ago is None:
        news = "has told nothing for two minutes, or never: it has just begun, is frozen, cut off, or gone"
    elif one.late:
        news = f"LATE: last told {_ago(one.told_s_ago)}; this is how it was, and may be over"
    else:
        news = f"told {_ago(one.told_s_ago)}"
    return f"{name}: {news}{'; its session has LAPSED' if one.lapsed else ''}"


def _row(line: ActorLine, one: WorkerTree) -> tuple[object, ...]:
    since_s = one.told_s_ago or 0.0
    error = line.last_error or "-"
    if line.failed_s_ago is not None:
        error += f" {_ago(line.failed_s_ago + since_s)}"
    level = line.path.count("/") - 1
    return (
        "  " * level + line.path.rpartition("/")[2],
        f"was {line.state}" if one.late else line.state,
        f"{line.depth}/{line.capacity}",
        line.restarts,
        error,
        duration(round((line.age_s + since_s) * 1000)),
    )


def _ago(seconds: float) -> str:
    return f"{duration(round(seconds * 1000))} ago"
