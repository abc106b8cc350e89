"""The options of `mycelium worker`. Each has a variable of the environment, and a name in the file of `--config`."""

from __future__ import annotations

from typing import Annotated

import typer

from .config_file import read_config
from .logs import LogFormat

_WHAT, _RUNS, _ENDS, _LOOKS, _WATCH = "What it takes", "How it runs", "Limits", "Times", "What it tells"

App = Annotated[
    str, typer.Argument(metavar="APP", envvar="MYCELIUM_APP", help="Where the tools are: package.module[:attribute].")
]
Config = Annotated[
    str,
    typer.Option(
        "--config",
        envvar="MYCELIUM_WORKER_CONFIG",
        metavar="FILE",
        is_eager=True,
        callback=read_config,
        help="A TOML file of options by their long names. What is given otherwise counts more.",
    ),
]

# ── what it takes ────────────────────────────────────────────────────────────────────────────────────────────────────

Queues = Annotated[
    str,
    typer.Option(
        "-Q",
        "--queues",
        envvar="MYCELIUM_WORKER_QUEUES",
        metavar="NAME[:WEIGHT][@MOST],…",
        rich_help_panel=_WHAT,
        help="Queues that it takes from; a weight is a share of the turns, @MOST the slots that one may take.",
    ),
]
Burst = Annotated[
    bool,
    typer.Option(
        "--burst/--no-burst",
        envvar="MYCELIUM_WORKER_BURST",
        rich_help_panel=_WHAT,
        help="End when nothing is left to do. What is due later is left.",
    ),
]

# ── how it runs ──────────────────────────────────────────────────────────────────────────────────────────────────────

Hosts = Annotated[
    int,
    typer.Option(
        envvar="MYCELIUM_WORKER_HOSTS", min=1, rich_help_panel=_RUNS, help="Tool hosts: processes that run the tools."
    ),
]
Slots = Annotated[
    int,
    typer.Option(
        "-c",
        "--slots",
        envvar="MYCELIUM_WORKER_SLOTS",
        min=1,
        rich_help_panel=_RUNS,
        help="Calls that one host runs at once.",
    ),
]
Solo = Annotated[
    int,
    typer.Option(
        envvar="MYCELIUM_WORKER_SOLO",
        min=0,
        rich_help_panel=_RUNS,
        help="More processes, for tools that want one to themselves.",
    ),
]
Name = Annotated[
    str, typer.Option(envvar="MYCELIUM_WORKER_NAME", rich_help_panel=_RUNS, help="What people call this worker.")
]
Reload = Annotated[
    bool,
    typer.Option(
        "--reload/--no-reload",
        envvar="MYCELIUM_WORKER_RELOAD",
        rich_help_panel=_RUNS,
        help="Start again when a file of the app changes: while you write it.",
    ),
]

# ── limits ───────────────────────────────────────────────────────────────────────────────────────────────────────────

HostMemory = Annotated[
    int | None,
    typer.Option(
        "--host-memory-mb",
        envvar="MYCELIUM_WORKER_HOST_MEMORY_MB",
        rich_help_panel=_ENDS,
        help="A host above so many megabytes is ended, with what it runs.",
    ),
]
RecycleAfter = Annotated[
    int | None,
    typer.Option(
        "--recycle-after",
        envvar="MYCELIUM_WORKER_RECYCLE_AFTER",
        min=1,
        metavar="CALLS",
        rich_help_panel=_ENDS,
        help="A host that has run so many calls is replaced, between two of them.",
    ),
]
RecycleMemory = Annotated[
    int | None,
    typer.Option(
        "--recycle-memory-mb",
        envvar="MYCELIUM_WORKER_RECYCLE_MEMORY_MB",
        rich_help_panel=_ENDS,
        help="A host above so many megabytes is replaced, between two calls.",
    ),
]
MaxResult = Annotated[
    int,
    typer.Option(
        "--max-result-bytes",
        envvar="MYCELIUM_WORKER_MAX_RESULT_BYTES",
        min=1,
        rich_help_panel=_ENDS,
        help="A larger result is not kept: its call is completed, with a marker in its place.",
    ),
]

# ── times ────────────────────────────────────────────────────────────────────────────────────────────────────────────

Grace = Annotated[
    float,
    typer.Option(
        "--grace",
        envvar="MYCELIUM_WORKER_GRACE",
        rich_help_panel=_LOOKS,
        help="Seconds that running calls get at the end.",
    ),
]
Ttl = Annotated[
    float,
    typer.Option(
        "--ttl",
        envvar="MYCELIUM_WORKER_TTL",
        rich_help_panel=_LOOKS,
        help="Seconds that its session lives after a renewal.",
    ),
]
Poll = Annotated[
    float,
    typer.Option(
        "--poll",
        envvar="MYCELIUM_WORKER_POLL",
        rich_help_panel=_LOOKS,
        help="Seconds between two looks, where nothing wakes it.",
    ),
]
PresumedDead = Annotated[
    float | None,
    typer.Option(
        "--presumed-dead",
        envvar="MYCELIUM_WORKER_PRESUMED_DEAD",
        rich_help_panel=_LOOKS,
        help="Seconds after a session lapsed at which its holder is taken for unable to send; else twice the TTL.",
    ),
]
Overdue = Annotated[
    float,
    typer.Option(
        "--overdue",
        envvar="MYCELIUM_WORKER_OVERDUE",
        rich_help_panel=_LOOKS,
        help="Seconds after its timeout at which a call that has not ended is ended with its host.",
    ),
]

# ── what it tells ────────────────────────────────────────────────────────────────────────────────────────────────────

HealthPort = Annotated[
    int | None,
    typer.Option(
        envvar="MYCELIUM_WORKER_HEALTH_PORT",
        min=0,
        max=65535,
        rich_help_panel=_WATCH,
        help="Serve /health/live and /health/ready here.",
    ),
]
MetricsPort = Annotated[
    int | None,
    typer.Option(
        envvar="MYCELIUM_WORKER_METRICS_PORT",
        min=0,
        max=65535,
        rich_help_panel=_WATCH,
        help="Serve /metrics here; it may be the same port.",
    ),
]
HttpHost = Annotated[
    str,
    typer.Option(
        "--http-host",
        envvar="MYCELIUM_WORKER_HTTP_HOST",
        rich_help_panel=_WATCH,
        help="The address that both listen at; 0.0.0.0 is every one of this machine.",
    ),
]
Format = Annotated[
    LogFormat,
    typer.Option(
        "--log-format", envvar="MYCELIUM_WORKER_LOG_FORMAT", rich_help_panel=_WATCH, help="How log lines look."
    ),
]
Receipts = Annotated[
    str | None,
    typer.Option(
        envvar="MYCELIUM_RECEIPTS",
        metavar="ADDRESS",
        rich_help_panel=_WATCH,
        help="Write signed receipts: to a file, to redis: or to postgresql://… The key is in MYCELIUM_RECEIPT_KEY.",
    ),
]
