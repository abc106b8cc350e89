"""The options that several commands share, and the exit codes."""

from __future__ import annotations

from enum import IntEnum
from getpass import getuser
from typing import Annotated

import typer

from ..actors.worker.exits import WorkerExit

EPILOG = (
    "Exit codes: 0 done · 1 refused, ended without a result, or a fault was found · 2 bad usage or bad call · "
    "3 server unreachable or unfit · 4 not found · 130 interrupted"
)

WORKER_EPILOG = (
    f"Exit codes: {WorkerExit.STOPPED:d} stopped in good order · {WorkerExit.FAILED:d} a part failed too often · "
    f"{WorkerExit.BAD_USAGE:d} bad usage, settings or app · {WorkerExit.SERVER:d} server unreachable or unfit · "
    f"{WorkerExit.CUT_OFF:d} the grace ended with calls still running, which were cut off · "
    f"{WorkerExit.INTERRUPTED:d} interrupted before it began"
)
"""That of `mycelium worker`: it runs until it is told to stop, so its codes say how it stopped."""


class ExitCode(IntEnum):
    """How a command ends."""

    DONE = 0
    """It did what was asked."""
    NO_RESULT = 1
    """The job ended without a result, or a fault was found."""
    BAD_CALL = 2
    """The usage or the call is wrong; nothing was written."""
    SERVER = 3
    """The server is unreachable, or may not hold a ledger."""
    NOT_FOUND = 4
    """Nothing is on record under that id."""
    INTERRUPTED = 130
    """Interrupted from the keyboard."""


def _say_version(wanted: bool) -> None:  # noqa: FBT001 - the shape of an option's callback
    if wanted:
        from importlib.metadata import version  # noqa: PLC0415 - only where it is asked for

        typer.echo(f"mycelium {version('mycelium')}")
        raise typer.Exit


Version = Annotated[bool, typer.Option("--version", callback=_say_version, is_eager=True, help="Print the version.")]
Url = Annotated[
    str | None,
    typer.Option(
        "--url", envvar="MYCELIUM_URL", help="The server; without it, the embedded one in ~/.local/share/mycelium."
    ),
]
Namespace = Annotated[str, typer.Option("--namespace", envvar="MYCELIUM_NAMESPACE", help="The namespace of every key.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object, for programs.")]


def _login() -> str:
    try:
        return getuser()
    except (KeyError, OSError):
        return "somebody"


def _not_blank(given: str) -> str:
    if not given.strip():
        blank = "it is blank: say who asks"
        raise typer.BadParameter(blank)
    return given


Login = Annotated[
    str,
    typer.Option(
        "--by",
        default_factory=_login,
        show_default="your login name",
        callback=_not_blank,
        help="Who asks. A stamp in the record, not a proof.",
    ),
]
