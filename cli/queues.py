"""`mycelium queues`: what waits, why, and who would take it; and orders to keep jobs of a kind from being taken."""

from __future__ import annotations

import dataclasses
import difflib
import json
import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from .actors import CLEAR, LOOK_EVERY_S
from .connected import connected
from .options import EPILOG, AsJson, Login, Namespace, Url
from .output import duration, instant, print_json, print_table, run, say, shown

if TYPE_CHECKING:
    from ..leases.store import Store
    from ..ledger.backlog import Backlog, Held, Shelf
    from ..ledger.orders import Target

queues = typer.Typer(
    invoke_without_command=True,
    help="See what waits, why, and who would take it. Keep jobs of a kind from being taken, for a while.",
)

_WAITING = ("queue", "tool", "priority", "jobs", "oldest", "paused", "workers")
_HELD = ("waits for", "key", "jobs", "running")
_ORDERS = ("order", "since", "by", "reason")

Aim = Annotated[str, typer.Argument(metavar="queue:NAME|tool:NAME", help="What.")]
Tool = Annotated[str, typer.Argument(metavar="TOOL", help="The tool's name.")]
Setting = Annotated[
    str, typer.Argument(metavar="PARAM=VALUE", help="The argument, and its value: JSON, or else a text.")
]
Reason = Annotated[str, typer.Option("--reason", help="Why; shown with the order for as long as it stands.")]


@queues.callback(epilog=EPILOG)
def look(
    ctx: typer.Context,
    url: Url = None,
    namespace: Namespace = "mycelium",
    as_json: AsJson = False,  # noqa: FBT002 - an option
    watch: Annotated[bool, typer.Option("--watch", help="Look again every 2 seconds, until Ctrl-C.")] = False,  # noqa: FBT002 - (the same)
) -> None:
    """See what waits for a worker, by queue, tool and priority; what waits under a limit's key; and orders that stand.

    A tool that no live worker knows stands out as NONE: its jobs stay ready until one comes that does.
    At most 100 keys of each kind of limit are looked at.
    """
    if ctx.invoked_subcommand is None:
        run(_look(url=url, namespace=namespace, as_json=as_json, watch=watch), as_json=as_json)


@queues.command(epilog=EPILOG)
def pause(  # noqa: PLR0913, PLR0917 - each is an option of the command
    target: Aim,
    by: Login,
    reason: Reason,
    url: Url = None,
    namespace: Namespace = "mycelium",
    as_json: AsJson = False,  # noqa: FBT002 - an option
) -> None:
    """Keep the jobs of a queue or a tool from being taken. What runs goes on, and what is submitted waits."""
    kind, name = _target(target)
    run(_pause(kind, name, (by, reason), url=url, namespace=namespace, as_json=as_json), as_json=as_json)


@queues.command(epilog=EPILOG)
def resume(target: Aim, url: Url = None, namespace: Namespace = "mycelium", as_json: AsJson = False) -> None:  # noqa: FBT002 - an option
    """Let the jobs of a paused queue or tool be taken again."""
    kind, name = _target(target)
    run(_pause(kind, name, None, url=url, namespace=namespace, as_json=as_json), as_json=as_json)


@queues.command(epilog=EPILOG)
def strike(  # noqa: PLR0913, PLR0917 - each is an option of the command
    tool: Tool,
    setting: Setting,
    by: Login,
    reason: Reason,
    url: Url = None,
    namespace: Namespace = "mycelium",
    as_json: AsJson = False,  # noqa: FBT002 - an option
) -> None:
    """Keep the jobs of a tool that have one value for one argument from being taken.

    VALUE is read as JSON where it is JSON: 7 is the number and "7" the text, in its quotes; else it is the text itself.
    """
    parameter, value = _setting(setting)
    run(_strike(tool, parameter, value, (by, reason), url=url, namespace=namespace, as_json=as_json), as_json=as_json)


@queues.command(epilog=EPILOG)
def lift(
    tool: Tool,
    setting: Setting,
    url: Url = None,
    namespace: Namespace = "mycelium",
    as_json: AsJson = False,  # noqa: FBT002 - an option
) -> None:
    """Lift a strike: what it kept back goes to where it stood in its line."""
    parameter, value = _setting(setting)
    run(_strike(tool, parameter, value, None, url=url, namespace=namespace, as_json=as_json), as_json=as_json)


# ── what is typed ────────────────────────────────────────────────────────────────────────────────────────────────────


def _target(given: str) -> tuple[str, str]:
    kind, colon, name = given.partition(":")
    if kind in {"queue", "tool"} and colon and name:
        return kind, name
    raise typer.BadParameter("write queue:NAME or tool:NAME", param_hint="queue:NAME|tool:NAME")


def _setting(given: str) -> tuple[str, object]:
    parameter, equals, text = given.partition("=")
    if not (parameter and equals):
        raise typer.BadParameter("write the argument's name, '=' and its value", param_hint="PARAM=VALUE")
    try:
        value: object = json.loads(text)
    except ValueError:
        return parameter, text
    return parameter, value


async def _nobody(store: Store, kind: str, name: str) -> str:
    """What to add where nobody who lives has to do with it: a slip of the pen looks like an order that holds."""
    from ..ledger.fleet import read_fleet  # noqa: PLC0415 - help and completion come without it

    fleet = await read_fleet(store)
    known = {one for worker in fleet.workers for one in (worker.tools if kind == "tool" else worker.queues)}
    if name in known:
        return ""
    near = difflib.get_close_matches(name, known, n=3)
    hint = f" Do you mean {' or '.join(near)}?" if near else ""
    return f" No live worker has a {kind} {name!r}; the order stands all the same.{hint}"


def _as_text(value: object) -> str:
    if isinstance(value, str):
        return ""
    return f" That is the value {json.dumps(value)}, not the text: write '\"{json.dumps(value)}\"' for that one."


# ── orders ───────────────────────────────────────────────────────────────────────────────────────────────────────────


async def _pause(  # noqa: PLR0913 - (the same)
    kind: str, name: str, said: tuple[str, str] | None, *, url: str | None, namespace: str, as_json: bool
) -> None:
    from ..ledger import orders  # noqa: PLC0415 - help and completion come without it

    target: Target = orders.Target(kind)
    async with connected(url, namespace) as store:
        if said is None:
            word = await orders.resume(store, target, name)
        else:
            word = await orders.pause(store, target, name, by=said[0], reason=said[1])
        unknown = "" if said is None else await _nobody(store, kind, name)
    if as_json:
        print_json({"order": {"word": word, "target": f"{kind}:{name}"}})
        return
    told = {
        orders.PauseReply.PAUSED: f"Paused. Jobs of the {kind} {name} stay ready; what runs goes on.{unknown}",
        orders.PauseReply.RESUMED: f"Resumed. Jobs of the {kind} {name} are taken again.",
    }
    say(shown(told.get(word, _unchanged(f"The {kind} {name}", "paused", stands=said is not None))))


async def _strike(  # noqa: PLR0913 - each is an option of the command
    tool: str,
    parameter: str,
    value: object,
    said: tuple[str, str] | None,
    *,
    url: str | None,
    namespace: str,
    as_json: bool,
) -> None:
    from ..ledger import orders  # noqa: PLC0415 - help and completion come without it

    async with connected(url, namespace) as store:
        if said is None:
            word = await orders.lift(store, tool, parameter, value)
        else:
            word = await orders.strike(store, tool, parameter, value, by=said[0], reason=said[1])
        unknown = "" if said is None else await _nobody(store, "tool", tool)
    if as_json:
        print_json({"order": {"word": word, "tool": tool, "parameter": parameter, "value": value}})
        return
    struck = f"{tool} with {parameter}={json.dumps(value)}"
    told = {
        orders.StrikeReply.STRUCK: f"Struck. Jobs of {struck} stay ready; what runs goes on.{_as_text(value)}{unknown}",
        orders.StrikeReply.LIFTED: f"Lifted. Jobs of {struck} are taken again.",
    }
    say(shown(told.get(word, _unchanged(struck, "struck", stands=said is not None))))


def _unchanged(what: str, word: str, *, stands: bool) -> str:
    if stands:
        return f"Nothing was changed: {what} was {word} before. `mycelium queues` tells by whom."
    return f"Nothing was changed: {what} was not {word}. `mycelium queues` tells what is."


# ── the look ─────────────────────────────────────────────────────────────────────────────────────────────────────────


async def _look(*, url: str | None, namespace: str, as_json: bool, watch: bool) -> None:
    import asyncio  # noqa: PLC0415 - help and completion come without it

    from ..ledger.backlog import read_backlog  # noqa: PLC0415 - (the same)

    async with connected(url, namespace) as store:
        while True:
            found = await read_backlog(store)
            if watch and not as_json and sys.stdout.isatty():
                typer.echo(CLEAR, nl=False)
            if as_json:
                print_json(_document(found))
            else:
                _show(found, f"No job waits in namespace {namespace!r} at {store.address}.")
            if not watch:
                break
            await asyncio.sleep(LOOK_EVERY_S)


def _show(found: Backlog, empty: str) -> None:
    print_table(_WAITING, [_row(shelf) for shelf in found.shelves], empty=shown(empty))
    if found.held:
        print_table(_HELD, [_held_row(held) for held in found.held], empty="")
    orders = [
        (f"paused: {one.target} {one.name}", instant(one.at_ms), one.by, one.reason)
        for one in found.fleet.orders.pauses
    ]
    orders += [
        (f"struck: {one.tool} {one.parameter}={one.value}", instant(one.at_ms), one.by, one.reason)
        for one in found.fleet.orders.strikes
    ]
    if orders:
        print_table(_ORDERS, orders, empty="")


def _row(shelf: Shelf) -> tuple[object, ...]:
    oldest = "-" if shelf.oldest_s is None else duration(round(shelf.oldest_s * 1000))
    return (
        shelf.queue,
        shelf.tool,
        shelf.priority,
        shelf.jobs,
        oldest if shelf.whole else f"{oldest} or more",
        "-" if shelf.pause is None else f"PAUSED ({shelf.pause.target})",
        _workers(shelf),
    )


def _workers(shelf: Shelf) -> str:
    if not shelf.know:
        return "NONE knows the tool"
    return str(shelf.take) if shelf.take else f"NONE takes it here, {shelf.know} know the tool"


def _held_row(held: Held) -> tuple[object, ...]:
    gate, strike = held.gate, held.strike
    key = gate.key if strike is None else f"{strike.tool} {strike.parameter}={strike.value}"
    return gate.kind, key, gate.jobs, gate.running if gate.kind == "concurrency" else "-"


def _document(found: Backlog) -> dict[str, object]:
    orders = found.fleet.orders
    return {
        "waiting": [dataclasses.asdict(shelf) for shelf in found.shelves],
        "held": [_held_document(held) for held in found.held],
        "orders": {
            "pauses": [dataclasses.asdict(one) for one in orders.pauses],
            "strikes": [dataclasses.asdict(one) for one in orders.strikes],
        },
        "workers": len(found.fleet.workers),
    }


def _held_document(held: Held) -> dict[str, Any]:
    strike = None if held.strike is None else dataclasses.asdict(held.strike)
    return dataclasses.asdict(held.gate) | {"strike": strike}
