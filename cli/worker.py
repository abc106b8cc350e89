"""`mycelium worker` and `mycelium-worker`: runs one worker until it is told to stop."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from .logs import LogFormat, log_to_stderr
from .options import EPILOG, ExitCode, Namespace, Url, Version
from .output import say_error

if TYPE_CHECKING:
    from ..leases.session import SessionSettings


Receipts = Annotated[
    str | None,
    typer.Option(
        envvar="MYCELIUM_RECEIPTS",
        metavar="ADDRESS",
        help="Write signed receipts: to a file, to redis: or to postgresql://… The key is in MYCELIUM_RECEIPT_KEY.",
    ),
]


def worker(  # noqa: PLR0913, PLR0917 - each is an option of the command
    app: Annotated[
        str,
        typer.Argument(metavar="APP", envvar="MYCELIUM_APP", help="Where the tools are: package.module[:attribute]."),
    ],
    slots: Annotated[
        int,
        typer.Option("-c", "--slots", envvar="MYCELIUM_WORKER_SLOTS", min=1, help="Calls that one host runs at once."),
    ] = 16,
    hosts: Annotated[
        int, typer.Option(envvar="MYCELIUM_WORKER_HOSTS", min=1, help="Tool hosts: processes that run the tools.")
    ] = 2,
    url: Url = None,
    namespace: Namespace = "mycelium",
    ttl_s: Annotated[
        float,
        typer.Option("--ttl", envvar="MYCELIUM_WORKER_TTL", help="Seconds that its session lives after a renewal."),
    ] = 15.0,
    grace_s: Annotated[
        float,
        typer.Option("--grace", envvar="MYCELIUM_WORKER_GRACE", help="Seconds that running calls get at the end."),
    ] = 25.0,
    host_memory_mb: Annotated[
        int | None,
        typer.Option(envvar="MYCELIUM_WORKER_HOST_MEMORY_MB", help="A host above so many megabytes is ended."),
    ] = None,
    log_format: Annotated[
        LogFormat, typer.Option(envvar="MYCELIUM_WORKER_LOG_FORMAT", help="How log lines look.")
    ] = LogFormat.TEXT,
    name: Annotated[str, typer.Option(envvar="MYCELIUM_WORKER_NAME", help="What people call this worker.")] = "",
    receipts: Receipts = None,
    _: Version = False,  # noqa: FBT002 - an option
) -> None:
    """Run a worker: it claims jobs of the tools in APP and runs them in tool hosts. SIGTERM or Ctrl-C ends it."""
    import asyncio  # noqa: PLC0415 - help and completion come without it

    from ..actors.settings import WorkerSettings  # noqa: PLC0415 - (the same)
    from ..actors.worker import run_worker  # noqa: PLC0415 - (the same)
    from ..leases.errors import MyceliumError  # noqa: PLC0415 - (the same)

    log_to_stderr(log_format)
    try:
        settings = WorkerSettings(
            app=app,
            url=url,
            namespace=namespace,
            name=name,
            hosts=hosts,
            slots=slots,
            session=session_settings(ttl_s),
            grace_s=grace_s,
            host_memory_mb=host_memory_mb,
            receipts=receipts or None,
        )
        code = asyncio.run(run_worker(settings))
    except MyceliumError as error:
        raise typer.Exit(say_error(error, as_json=False)) from None
    except KeyboardInterrupt:
        raise typer.Exit(ExitCode.INTERRUPTED) from None
    raise typer.Exit(code)


def session_settings(ttl_s: float) -> SessionSettings:
    """Give the times of a session that fit its TTL: in the proportions of the defaults.

    Raises:
        SettingsError: the TTL is not positive.
    """
    from ..leases.session import SessionSettings  # noqa: PLC0415 - help and completion come without it

    whole = SessionSettings()
    share = ttl_s / whole.ttl_s
    return SessionSettings(
        ttl_s=ttl_s,
        renew_every_s=whole.renew_every_s * share,
        call_timeout_s=whole.call_timeout_s * share,
        margin_s=whole.margin_s * share,
    )


def main() -> None:
    """The command `mycelium-worker`."""
    app = typer.Typer(pretty_exceptions_enable=False)
    app.command(epilog=EPILOG)(worker)
    app(prog_name="mycelium-worker")
