"""What the commands print: tables for people, one JSON object for programs, errors on stderr with an exit code."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Coroutine, Generator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from ..leases.errors import BadCallError, JobNotFoundError, MyceliumError, OutcomeError, ServerError, SettingsError
from .options import ExitCode

if TYPE_CHECKING:
    from ..ledger.progress import Progress

_PIPED_WIDTH = 240
_CODES = (
    (ServerError, ExitCode.SERVER),
    (JobNotFoundError, ExitCode.NOT_FOUND),
    (BadCallError, ExitCode.BAD_CALL),
    (SettingsError, ExitCode.BAD_CALL),
)


def run(work: Coroutine[Any, Any, None], *, as_json: bool) -> None:
    """Run a command's work; its errors become a message on stderr and an exit code.

    Raises:
        Exit: it ended with an error.
    """
    import asyncio  # noqa: PLC0415 - help and completion come without it
    import logging  # noqa: PLC0415 - (the same)

    # What a worker logs of the server once would here be said with every command.
    logging.getLogger("mycelium").addHandler(logging.NullHandler())
    try:
        asyncio.run(work)
    except MyceliumError as error:
        raise typer.Exit(say_error(error, as_json=as_json)) from None
    except KeyboardInterrupt:
        raise typer.Exit(ExitCode.INTERRUPTED) from None


def say_error(error: MyceliumError, *, as_json: bool) -> ExitCode:
    """Print an error on stderr, and give the exit code that it stands for."""
    code = next((code for kind, code in _CODES if isinstance(error, kind)), ExitCode.NO_RESULT)
    if as_json:
        told = {"kind": type(error).__name__, "what": error.what, "state": error.state, "next_step": error.next_step}
        if isinstance(error, OutcomeError):
            told |= {"request_id": error.request_id, "cause": error.cause, "why": error.why, "detail": error.detail}
        typer.echo(json.dumps({"error": told}), err=True)
        return code
    typer.echo(f"error: {shown(str(error))}", err=True)
    if isinstance(error, OutcomeError) and error.detail:
        typer.echo(f"detail: {shown(error.detail)}", err=True)
    return code


def print_json(document: dict[str, object]) -> None:
    """Print one object on stdout; plain ASCII, so that it survives any terminal and pipe."""
    say(json.dumps(document))


def say(line: str) -> None:
    """Print one line on stdout.

    Raises:
        Exit: it cannot be written, as on a full disk.
    """
    with _written():
        typer.echo(line)


def print_table(columns: Sequence[str], rows: Sequence[Sequence[object]], *, empty: str) -> None:
    """Print rows as a table; where there are none, say so."""
    if not rows:
        say(empty)
        return
    from rich import box  # noqa: PLC0415 - help and completion come without it
    from rich.console import Console  # noqa: PLC0415 - (the same)
    from rich.table import Table  # noqa: PLC0415 - (the same)

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for at, column in enumerate(columns):
        # Where there is little room, ids and sentences are folded, and words are not.
        table.add_column(column, overflow="fold", no_wrap=0 < at < len(columns) - 1)
    for row in rows:
        table.add_row(*[shown(str(value)) for value in row])
    # A pipe has no width: nothing is to be cut or folded there.
    width = None if sys.stdout.isatty() else _PIPED_WIDTH
    with _written():
        Console(markup=False, highlight=False, emoji=False, width=width).print(table)
        sys.stdout.flush()


def print_fields(fields: Sequence[tuple[str, object]]) -> None:
    """Print names and values, a line each; empty values are left out."""
    width = max((len(name) for name, _ in fields), default=0)
    for name, value in fields:
        if value is not None and value != "":
            say(f"{name:<{width}}  {shown(str(value))}")


@contextmanager
def _written() -> Generator[None]:
    try:
        yield
    except BrokenPipeError:
        raise  # nobody reads any more, and nobody is to be told
    except OSError as error:
        # What the stream still holds would fail once more at exit, with a traceback.
        sys.stdout = Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115 - it lasts as long as the process
        typer.echo(f"error: The output cannot be written: {error.strerror}. What was asked was done.", err=True)
        raise typer.Exit(ExitCode.NO_RESULT) from None


def shown(text: str) -> str:
    """Escape what a terminal would act on."""
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in text)


def instant(ms: int) -> str:
    """An instant of the server's, as a date in UTC."""
    return datetime.fromtimestamp(ms / 1000, UTC).isoformat(sep=" ", timespec="milliseconds").replace("+00:00", "Z")


def duration(ms: int) -> str:
    """Milliseconds as a person says them: `0.4s`, `12s`, `3m 05s`, `2h 10m`, `4d 03h`."""
    seconds = max(0, ms) / 1000
    if seconds < 10:  # noqa: PLR2004 - below it a tenth matters
        return f"{seconds:.1f}s"
    minutes, rest_s = divmod(round(seconds), 60)
    hours, rest_m = divmod(minutes, 60)
    days, rest_h = divmod(hours, 24)
    if days:
        return f"{days}d {rest_h:02}h"
    if hours:
        return f"{hours}h {rest_m:02}m"
    return f"{minutes}m {rest_s:02}s" if minutes else f"{rest_s}s"


def progress_text(progress: Progress, now_ms: int | None = None) -> str:
    """How far something has come, on one line; and how long ago that was heard, where the time is given."""
    share = "" if progress.share is None else f" ({progress.share:.0%})"
    total = "" if progress.total is None else f" of {progress.total:g}"
    note = f" {progress.note}" if progress.note else ""
    ago = "" if now_ms is None else f", {duration(now_ms - progress.at_ms)} ago"
    return f"{progress.done:g}{total}{share}{note}{ago}"
