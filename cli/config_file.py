"""The file of `--config`: TOML with the long names of a command's options.

What the command line says counts more than the environment, and that more than the file.
"""

from __future__ import annotations

import difflib
from pathlib import Path
from typing import Any, cast

import typer

_USAGE_ERROR: Any = typer.BadParameter.__bases__[0]
_LEFT_OVER = "Value error, "
"""What typer's own checker puts in front of a message."""
_LEFT_OUT = frozenset({"config", "version", "help", "install-completion", "show-completion"})


def read_config(ctx: typer.Context, path: str) -> str:
    """Let what a file says stand where neither the command line nor the environment says anything.

    Raises:
        BadParameter: the file cannot be read, is no TOML, or has a name or a value that is none of the command's.
    """
    if path and not ctx.resilient_parsing:
        options = _options(ctx)
        defaults: dict[str, object] = {}
        for key, value in _read(path).items():
            option = options[_known(key, options, path)]
            defaults[option.name] = _checked(ctx, option, key, value, path)
        ctx.default_map = defaults
    return path


def _options(ctx: typer.Context) -> dict[str, Any]:
    """The command's options and arguments by the names that a file has for them."""
    found: dict[str, Any] = {}
    for parameter in cast("list[Any]", ctx.command.params):
        longs = [word.removeprefix("--") for word in parameter.opts if word.startswith("--")]
        found[longs[0] if longs else parameter.name] = parameter
    return {key: parameter for key, parameter in found.items() if key not in _LEFT_OUT}


def _read(path: str) -> dict[str, object]:
    import tomllib  # noqa: PLC0415 - only where there is a file

    try:
        return tomllib.loads(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise typer.BadParameter(f"{path}: {error.strerror}.") from None
    except ValueError as error:
        raise typer.BadParameter(f"{path} is not TOML: {error}.") from None


def _known(key: str, options: dict[str, Any], path: str) -> str:
    if key in options:
        return key
    near = difflib.get_close_matches(key, options, n=1)
    hint = f"Do you mean {near[0]!r}?" if near else f"There are: {', '.join(sorted(options))}."
    raise typer.BadParameter(f"{path}: there is no option {key!r}. {hint}")


def _checked(ctx: typer.Context, option: Any, key: str, value: object, path: str) -> object:  # noqa: ANN401 - typer's types are private
    """Take a value as the command line would take its text; but only what is true or false for a switch."""
    switch = bool(getattr(option, "is_flag", False))
    if isinstance(value, list) and all(isinstance(item, str) for item in cast("list[object]", value)):
        value = ",".join(cast("list[str]", value))
    if isinstance(value, bool) is not switch or not isinstance(value, (str, int, float)):
        kind = "true or false" if switch else "a number or a string"
        raise typer.BadParameter(f"{path}: {key} is to be {kind}.")
    told = value if switch else str(value)
    try:
        option.process_value(ctx, told)
    except _USAGE_ERROR as error:
        said = str(error.message).removeprefix(_LEFT_OVER)
        raise typer.BadParameter(f"{path}: {key}: {said}") from None
    return told
