"""Tells usage errors as every other error is told: as JSON to who asked for that, and in words of ours."""

from __future__ import annotations

import json
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from typing import Any, cast

import typer
from typer.core import TyperGroup

from .options import ExitCode

_USAGE_ERROR: type[Exception] = typer.BadParameter.__bases__[0]
"""The root of all usage errors; typer does not export it."""

_LEFT_OVER = "Value error, "
"""What typer's own checker puts in front of a message."""


class Commands(TyperGroup):
    """The commands, with their usage errors told so."""

    def make_context(self, info_name: str | None, args: list[str], parent: Any = None, **extra: Any) -> Any:  # noqa: ANN401 - typer's types are private
        """Take the words that come before a verb."""
        as_json = _asks_for_json(args)
        with _told(as_json=as_json):
            context = super().make_context(info_name, args, parent, **extra)
        context.meta[__name__] = as_json
        return context

    def invoke(self, ctx: Any) -> Any:  # noqa: ANN401 - (the same)
        """Take the rest, and run the verb."""
        with _told(as_json=ctx.meta[__name__]):
            return super().invoke(ctx)


def _asks_for_json(args: Sequence[str]) -> bool:
    before = args[: args.index("--")] if "--" in args else args
    return "--json" in before


@contextmanager
def _told(*, as_json: bool) -> Generator[None]:
    try:
        yield
    except _USAGE_ERROR as error:
        usage = cast("Any", error)
        usage.message = usage.message.replace(_LEFT_OVER, "")
        if not as_json:
            raise
        context = usage.ctx
        command = context.command_path if context is not None else "mycelium"
        what, next_step = usage.format_message(), f"Nothing was done. `{command} --help` tells how it is called."
        told = {"kind": "UsageError", "what": what, "state": None, "next_step": next_step}
        typer.echo(json.dumps({"error": told}), err=True)
        raise typer.Exit(ExitCode.BAD_CALL) from None
