"""`mycelium submit`: hands in one call, and waits for its result if asked to."""

from __future__ import annotations

import json
from typing import Annotated, Any

import typer

from .options import AsJson, Namespace, Url
from .output import print_fields, print_json, run, say
from .reading import read_arguments


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
    delay_s: Annotated[float, typer.Option("--delay", min=0.0, help="Seconds before it may run.")] = 0.0,
    wait: Annotated[bool, typer.Option("--wait/--no-wait", help="Wait for the result.")] = False,  # noqa: FBT002
    timeout_s: Annotated[float | None, typer.Option("--timeout", min=0.0, help="Seconds to wait for it.")] = None,
    url: Url = None,
    namespace: Namespace = "mycelium",
    as_json: AsJson = False,  # noqa: FBT002 - (the same)
) -> None:
    """Submit one tool call as a job."""
    options = {"request_id": request_id, "run_id": run_id, "step": step, "ordinal": ordinal, "delay_s": delay_s}
    seconds = timeout_s if wait or timeout_s is not None else -1.0
    work = _submit(tool, arguments, app, options, seconds, url=url, namespace=namespace, as_json=as_json)
    run(work, as_json=as_json)


async def _submit(  # noqa: PLR0913 - (the same)
    tool: str,
    arguments: str,
    app: str,
    options: Any,  # noqa: ANN401 - CallOptions, whose module is not loaded before it is needed
    timeout_s: float | None,
    *,
    url: str | None,
    namespace: str,
    as_json: bool,
) -> None:
    from ..actors.client import connect  # noqa: PLC0415 - help and completion come without it
    from ..actors.load import load_tools  # noqa: PLC0415 - (the same)

    given = read_arguments(arguments)
    if not app:
        raise typer.BadParameter("say where the tools are", param_hint="--app (or MYCELIUM_APP)")
    tools = load_tools(app)
    async with connect(url, namespace=namespace, tools=tools) as client:
        job = await client.submit(tool, given, **options)
        standing = {"request_id": job.request_id, "tool": tool, "created": job.created}
        waits = timeout_s is None or timeout_s >= 0
        result: object = None
        if waits:
            # Told before the wait, so that an interrupted one leaves the id behind.
            if not as_json:
                typer.echo(f"job {job.request_id}", err=True)
            result = await job.result(timeout_s)
        state = await job.state()
        if as_json:
            print_json(standing | {"state": state.value} | ({"result": result} if waits else {}))
        elif waits:
            say(json.dumps(result, indent=2, ensure_ascii=True))
        else:
            print_fields(
                [("job", job.request_id), ("tool", tool), ("state", state), ("new", "yes" if job.created else "no")]
            )
