"""`mycelium demo`: the main job on real input, with the proof counted in the airline's own file of effects."""

from __future__ import annotations

import asyncio
import logging
import shutil
import signal
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from .options import ExitCode
from .output import print_json, say_error

# The rest is imported by the command itself: `mycelium --help` must not load the product.
if TYPE_CHECKING:
    from rich.console import Console

    from ..examples.airline.replay import Tally, Tell
    from ..examples.airline.score import Score
    from ..examples.airline.show import Plan


def demo(  # noqa: PLR0913 - the parameters are the command's options
    *,
    unguarded: Annotated[
        bool,
        typer.Option("--unguarded", help="The same calls with naive workers: retries on error and on worker death."),
    ] = False,
    calls: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Another recording of the same form (JSON lines).")
    ] = None,
    seed: Annotated[int, typer.Option(metavar="N", help="Of the airline's fault schedule.")] = 0,
    kills: Annotated[int, typer.Option(metavar="N", min=0, help="Workers to kill while writes are in flight.")] = 1,
    keep: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Put data, effects and logs there, and leave them there.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead of a table.")] = False,
) -> None:
    """Replay an airline agent's recorded tool calls, kill workers on the way, and count every effect.

    The calls go to a small airline on loopback that answers late, answers 500 after doing it, or hangs up after doing
    it. The demo starts everything that it needs, in a directory of its own, and ends it again.

    The exit code is 1 when a write had more than one effect, a job was lost, a result is wrong, or a process of the
    demo failed.
    """
    from ..leases.errors import MyceliumError  # noqa: PLC0415 - (as above)

    try:
        with _directory(keep) as directory:
            result = _show(_plan(calls, directory, seed=seed, kills=kills, guarded=not unguarded))
    except MyceliumError as error:
        raise typer.Exit(say_error(error, as_json=as_json)) from None
    except (KeyboardInterrupt, asyncio.CancelledError):
        raise typer.Exit(ExitCode.INTERRUPTED) from None
    if as_json:
        print_json({**result.as_dict()})
    else:
        _print_table(result, guarded=not unguarded)
    raise typer.Exit(result.exit_code)


def _plan(calls: Path | None, directory: Path, *, seed: int, kills: int, guarded: bool) -> Plan:
    from ..examples.airline.calls import bundled_calls  # noqa: PLC0415 - (as above)
    from ..examples.airline.show import Plan  # noqa: PLC0415 - (as above)

    return Plan(
        calls=(calls or bundled_calls()).absolute(), directory=directory, seed=seed, kills=kills, guarded=guarded
    )


def _show(plan: Plan) -> Score:
    from rich.console import Console  # noqa: PLC0415 - (as above)

    from ..examples.airline.show import perform  # noqa: PLC0415 - (as above)

    # What the product logs of its server is for workers' logs, and would tear the progress bar.
    logging.getLogger("mycelium").addHandler(logging.NullHandler())

    async def show() -> Score:
        showing = asyncio.current_task()
        if showing:
            # As Ctrl-C: every process is ended before this one ends.
            asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, showing.cancel)
        with _progress(Console(stderr=True)) as tell:
            return await perform(plan, tell)

    return asyncio.run(show())


@contextmanager
def _directory(keep: Path | None) -> Generator[Path]:
    """A directory for one showing: the one to keep, or one that goes away unless its logs are needed.

    Raises:
        SettingsError: the one to keep cannot be made, or has something in it.
    """
    from ..leases.errors import MyceliumError, SettingsError  # noqa: PLC0415 - (as above)

    if keep is not None:
        try:
            keep.mkdir(parents=True, exist_ok=True)
            if any(keep.iterdir()):
                raise SettingsError(
                    f"{keep} has something in it.", next_step="Nothing was started. Name a new directory."
                )
        except OSError as error:
            what = f"{keep} cannot be used: {error.strerror}."
            raise SettingsError(what, next_step="Nothing was started. Name another directory.") from None
        yield keep.resolve()
        return
    directory = Path(tempfile.mkdtemp(prefix="mycelium-demo-"))
    wanted = False
    try:
        yield directory
    except SettingsError:
        raise
    except MyceliumError:
        wanted = True
        raise
    finally:
        if not wanted:
            shutil.rmtree(directory, ignore_errors=True)


@contextmanager
def _progress(console: Console) -> Generator[Tell]:
    """A progress bar on a terminal; nothing elsewhere."""
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn  # noqa: PLC0415

    if not console.is_terminal:
        yield lambda _: None
        return
    columns = (
        TextColumn("calls"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.description}"),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=console, transient=True) as progress:
        bar = progress.add_task("starting", total=None)

        def tell(tally: Tally) -> None:
            said = f"unknown {tally.unknown}, workers killed {tally.killed}"
            progress.update(bar, total=tally.calls, completed=tally.done, description=said)

        yield tell


def _print_table(result: Score, *, guarded: bool) -> None:
    from rich.console import Console  # noqa: PLC0415 - (as above)
    from rich.table import Table  # noqa: PLC0415 - (as above)

    table = Table(
        title="by Mycelium" if guarded else "unguarded: retry on error and on worker death", show_header=False
    )
    table.add_column("what")
    table.add_column("number", justify="right")
    for name, value in _rows(result):
        table.add_row(name, str(value))
    Console().print(table)


def _rows(result: Score) -> list[tuple[str, int | float]]:
    return [
        ("calls", result.calls),
        ("writes among them", result.writes),
        ("workers killed", result.kills),
        ("completed", result.completed),
        ("refused by the provider", result.refused),
        ("unknown, settled by the reconciler", result.reconciled),
        ("still unknown", result.unknown),
        ("lost", result.lost),
        ("effects per write, at most", result.max_effects_per_write),
        ("calls whose result differs from the data", result.wrong_results),
        ("silent duplicates", result.duplicates),
        ("seconds", result.seconds),
    ]
