"""`mycelium worker` and `mycelium-worker`: runs one worker until it is told to stop, or has no work left."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import typer

from ..actors.worker.exits import WorkerExit
from ..cli import worker_options as say
from ..leases.errors import MyceliumError
from .logs import LogFormat, log_to_stderr
from .options import WORKER_EPILOG, Namespace, Url, Version
from .output import say_error

if TYPE_CHECKING:
    from ..actors.worker.queues import QueueShare
    from ..actors.worker.settings import WorkerSettings
    from ..leases.session import SessionSettings


def worker(  # noqa: PLR0913, PLR0917 - each is an option of the command
    ctx: typer.Context,
    app: say.App,
    queues: say.Queues = "default",
    burst: say.Burst = False,  # noqa: FBT002 - an option
    hosts: say.Hosts = 2,
    slots: say.Slots = 16,
    solo: say.Solo = 2,
    url: Url = None,
    namespace: Namespace = "mycelium",
    name: say.Name = "",
    reload: say.Reload = False,  # noqa: FBT002 - an option
    host_memory_mb: say.HostMemory = None,
    recycle_jobs: say.RecycleAfter = None,
    recycle_memory_mb: say.RecycleMemory = None,
    max_result_bytes: say.MaxResult = 1 << 20,
    grace_s: say.Grace = 25.0,
    ttl_s: say.Ttl = 15.0,
    poll_s: say.Poll = 1.0,
    presumed_dead_s: say.PresumedDead = None,
    overdue_s: say.Overdue = 5.0,
    health_port: say.HealthPort = None,
    metrics_port: say.MetricsPort = None,
    http_host: say.HttpHost = "127.0.0.1",
    log_format: say.Format = LogFormat.TEXT,
    receipts: say.Receipts = None,
    _config: say.Config = "",
    _: Version = False,  # noqa: FBT002 - an option
) -> None:
    """Run a worker: it claims jobs of the tools in APP and runs them in tool hosts. SIGTERM or Ctrl-C ends it."""
    from ..actors.worker.settings import WorkerSettings  # noqa: PLC0415 - help and completion come without it

    _begin(ctx, app, log_format, reload=reload, burst=burst)
    with _told():
        _run(
            WorkerSettings(
                app=app,
                url=url,
                namespace=namespace,
                name=name,
                hosts=hosts,
                slots=slots,
                solo=solo,
                queues=_queues(queues),
                burst=burst,
                session=session_settings(ttl_s),
                grace_s=grace_s,
                poll_s=poll_s,
                overdue_s=overdue_s,
                host_memory_mb=host_memory_mb,
                recycle_jobs=recycle_jobs,
                recycle_memory_mb=recycle_memory_mb,
                max_result_bytes=max_result_bytes,
                presumed_dead_s=presumed_dead_s,
                receipts=receipts or None,
                health_port=health_port,
                metrics_port=metrics_port,
                http_host=http_host,
            )
        )


def _begin(ctx: typer.Context, app: str, log_format: LogFormat, *, reload: bool, burst: bool) -> None:
    if os.getpid() == 1:
        # The kernel keeps from process 1 what it has no handler for: a stop that comes this early counts too.
        signal.signal(signal.SIGTERM, lambda _number, _frame: sys.exit(WorkerExit.STOPPED))
    log_to_stderr(log_format)
    if reload and burst:
        said = "--burst ends with its work, and --reload never ends: give one of them."
        raise typer.BadParameter(said)
    if reload:
        from .reload import reload_worker  # noqa: PLC0415 - only where it is asked for

        with _told():
            raise typer.Exit(reload_worker(app, sys.argv[1 if ctx.parent is None else 2 :]))


def _run(settings: WorkerSettings) -> None:
    import asyncio  # noqa: PLC0415 - help and completion come without it

    from ..actors.worker.life import run_worker  # noqa: PLC0415 - (the same)

    raise typer.Exit(asyncio.run(run_worker(settings)))


@contextmanager
def _told() -> Generator[None]:
    """Tell errors, and give the exit codes that they stand for."""
    try:
        yield
    except MyceliumError as error:
        raise typer.Exit(say_error(error, as_json=False)) from None
    except KeyboardInterrupt:
        raise typer.Exit(WorkerExit.INTERRUPTED) from None


def _queues(text: str) -> tuple[QueueShare, ...]:
    from ..actors.worker.queues import parse_queues  # noqa: PLC0415 - help and completion come without it

    return parse_queues(text)


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
    app.command(epilog=WORKER_EPILOG)(worker)
    app(prog_name="mycelium-worker")
