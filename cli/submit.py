"""`mycelium submit`: hands in one call, and waits for its result if asked to."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..ledger.line import Priority
from .options import AsJson, Namespace, Url
from .output import print_fields, print_json, progress_text, run, say, shown
from .reading import read_arguments, read_labels, read_when

if TYPE_CHECKING:
    from ..actors.job import Job
    from ..ledger.progress import Progress

_WHEN = "SECONDS|TIME"


def submit(  # noqa: PLR0913, PLR0917 - each is an option of the command
    tool: Annotated[str, typer.Argument(metavar="TOOL", help="The tool's name.")],
    arguments: Annotated[
        str, typer.Argument(metavar="JSON|@FILE|-", help="An object with the tool's arguments.")
    ] = "{}",
    app: Annotated[
        str, typer.Option("--app", envvar="MYCELIUM_APP", help="Where the tools are: package.module[:attribute].")
    ] = "",
    request_id: Annotated[
        str | None, typer.Option(help="The identity of the intended effect: charge-order:ORD-1.")
    ] = None,
    run_id: Annotated[str | None, typer.Option("--run", help="The agent's run, where there is no request id.")] = None,
    step: Annotated[int | None, typer.Option(help="The model turn.")] = None,
    ordinal: Annotated[int, typer.Option(help="Which of several equal calls of one step.")] = 0,
    queue: Annotated[str | None, typer.Option(help="The queue; without it, that of the tool.")] = None,
    priority: Annotated[
        Priority | None, typer.Option(help="How soon it is taken; without it, that of the tool.")
    ] = None,
    tenant: Annotated[str, typer.Option(help="For whom it is: tenants are served in turn.")] = "",
    delay_s: Annotated[float, typer.Option("--delay", min=0.0, help="Seconds before it may run.")] = 0.0,
    at: Annotated[str | None, typer.Option(metavar="TIME", help="When it may run, with the zone.")] = None,
    start_by: Annotated[
        str | None, typer.Option(metavar=_WHEN, help="If it has not started by then, it is cancelled.")
    ] = None,
    deadline: Annotated[str | None, typer.Option(metavar=_WHEN, help="It is not to run once this has passed.")] = None,
    timeout_s: Annotated[float | None, typer.Option("--timeout", help="Seconds that one attempt may take.")] = None,
    idle_timeout_s: Annotated[
        float | None, typer.Option("--idle-timeout", help="Seconds that an attempt may go without progress.")
    ] = None,
    label: Annotated[
        list[str] | None, typer.Option(metavar="NAME=VALUE", help="A word for people; may be said again.")
    ] = None,
    wait: Annotated[bool, typer.Option("--wait/--no-wait", help="Wait for the result.")] = False,  # noqa: FBT002
    wait_s: Annotated[
        float | None, typer.Option("--wait-for", min=0.0, metavar="SECONDS", help="Wait for it so long at most.")
    ] = None,
    url: Url = None,
    namespace: Namespace = "mycelium",
    as_json: AsJson = False,  # noqa: FBT002 - (the same)
) -> None:
    """Submit one tool call as a job.

    On a terminal, a wait shows how far the job says that it has come.
    """
    options: dict[str, Any] = {
        "request_id": request_id,
        "run_id": run_id,
        "step": step,
        "ordinal": ordinal,
        "queue": queue,
    }
    options |= {"priority": priority, "tenant": tenant, "delay_s": delay_s, "at": at, "start_by": start_by}
    options |= {"deadline": deadline, "timeout_s": timeout_s, "idle_timeout_s": idle_timeout_s, "labels": label or []}
    seconds = wait_s if wait or wait_s is not None else -1.0
    work = _submit(tool, arguments, app, options, seconds, url=url, namespace=namespace, as_json=as_json)
    run(work, as_json=as_json)


async def _submit(  # noqa: PLR0913 - (the same)
    tool: str,
    arguments: str,
    app: str,
    options: Any,  # noqa: ANN401 - CallOptions, whose module is not loaded before it is needed
    wait_s: float | None,
    *,
    url: str | None,
    namespace: str,
    as_json: bool,
) -> None:
    from ..actors.client import connect  # noqa: PLC0415 - help and completion come without it
    from ..actors.load import load_tools  # noqa: PLC0415 - (the same)

    given = read_arguments(arguments)
    options["labels"] = read_labels(options["labels"])
    for name in ("at", "start_by", "deadline"):
        options[name] = read_when(f"--{name.replace('_', '-')}", options[name])
    if isinstance(options["at"], float):
        raise typer.BadParameter("give a time with its zone; --delay takes seconds", param_hint="--at")
    if not app:
        raise typer.BadParameter("say where the tools are", param_hint="--app (or MYCELIUM_APP)")
    tools = load_tools(app)
    async with connect(url, namespace=namespace, tools=tools) as client:
        job = await client.submit(tool, given, **options)
        standing = {"request_id": job.request_id, "tool": tool, "created": job.created}
        waits = wait_s is None or wait_s >= 0
        result: object = None
        if waits:
            # Told before the wait, so that an interrupted one leaves the id behind.
            if not as_json:
                typer.echo(f"job {job.request_id}", err=True)
            result = await _result(job, wait_s, as_json=as_json)
        state = await job.state()
        if as_json:
            print_json(standing | {"state": state.value} | ({"result": result} if waits else {}))
        elif waits:
            say(json.dumps(result, indent=2, ensure_ascii=True))
        else:
            print_fields(
                [("job", job.request_id), ("tool", tool), ("state", state), ("new", "yes" if job.created else "no")]
            )


async def _result(job: Job, wait_s: float | None, *, as_json: bool) -> object:
    if as_json or not sys.stderr.isatty():
        return await job.result(wait_s)
    told = False

    def tell(progress: Progress) -> None:
        nonlocal told
        told = True
        typer.echo(f"\r\x1b[K{shown(progress_text(progress))}", err=True, nl=False)

    try:
        return await job.result(wait_s, on_progress=tell)
    finally:
        if told:
            typer.echo(err=True)
