"""The command `mycelium`: every verb in one place, each loading what it needs only when it runs."""

from __future__ import annotations

import typer

from .actors import actors
from .options import EPILOG, WORKER_EPILOG, Version
from .queues import queues
from .receipts import receipts
from .schedules import schedules
from .submit import submit
from .transitions import transitions
from .usage import Commands
from .worker import worker
from .workers import workers

app = typer.Typer(
    cls=Commands,
    no_args_is_help=True,
    # Local variables in a traceback would show arguments, results and passwords.
    pretty_exceptions_enable=False,
    epilog=EPILOG,
    help="Runs the tool calls of AI agents: at most one dispatch per intended effect, with an outcome that is known or "
    "explicitly unknown.",
)


@app.callback()
def _root(
    _: Version = False,  # noqa: FBT002 - an option
) -> None:
    """Take the options that come before a verb."""


# The replay has many options of its own: its own parser reads them.
@app.command(
    context_settings={"allow_extra_args": True, "ignore_unknown_options": True}, add_help_option=False, epilog=EPILOG
)
def demo(ctx: typer.Context) -> None:
    """Replay the tool calls of a real model through workers that are killed, and count the effects."""
    from .demo import demo as replay  # noqa: PLC0415 - it brings the whole product along

    inner = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
    inner.command(epilog=EPILOG)(replay)
    inner(args=ctx.args, prog_name="mycelium demo")


app.command(epilog=WORKER_EPILOG)(worker)
app.command(epilog=EPILOG)(submit)
app.add_typer(transitions, name="transitions", epilog=EPILOG)
app.add_typer(queues, name="queues", epilog=EPILOG)
app.add_typer(receipts, name="receipts", epilog=EPILOG)
app.command(epilog=EPILOG)(workers)
app.command(epilog=EPILOG)(schedules)
app.add_typer(actors, name="actors", epilog=EPILOG)


def main() -> None:
    """The command `mycelium`."""
    app(prog_name="mycelium")
