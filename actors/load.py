"""Finds the tools that a worker is told to run: `package.module` or `package.module:attribute`."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Iterable, Mapping
from types import ModuleType
from typing import Any, cast

from ..leases.errors import SettingsError
from .tool import Tool

AnyTool = Tool[..., Any]


def load_tools(spec: str) -> dict[str, AnyTool]:
    """Import tools by name.

    Args:
        spec: `package.module` (every tool in its namespace) or `package.module:attribute` (a tool, or an iterable or
            mapping of them); several with commas between them. The working directory is importable.

    Returns:
        Tools by name.

    Raises:
        SettingsError: a module or attribute is missing or fails on import, has no tool, or two tools share a name.
    """
    found: dict[str, AnyTool] = {}
    for part in spec.split(","):
        for each in _tools_of(part.strip()):
            if found.setdefault(each.name, each) is not each:
                raise SettingsError(
                    f"Two tools are called {each.name!r}.", next_step="Give one of them another name with name=."
                )
    return found


def _tools_of(spec: str) -> list[AnyTool]:
    module_name, colon, attribute = spec.partition(":")
    module = _module(module_name)
    values = _values(module, attribute) if colon else list(vars(module).values())
    tools: list[AnyTool] = [value for value in values if isinstance(value, Tool)]
    if not tools or (colon and len(tools) != len(values)):
        what = f"{spec!r} has no tools, or something else among them. The module has: {_names_in(module)}."
        raise SettingsError(what, next_step="Decorate functions with @tool, or name them: package.module:attribute.")
    return tools


def _module(name: str) -> ModuleType:
    if not all(part.isidentifier() for part in name.split(".")):
        what = f"{name!r} is not a module's name."
        raise SettingsError(what, next_step="Write it as package.module or package.module:attribute, without the .py.")
    cwd = os.getcwd()  # noqa: PTH109 - sys.path holds text
    if cwd not in sys.path:
        sys.path.insert(0, cwd)
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{name}.".startswith(f"{error.name}."):
            raise _failed(name, error) from error
        what = f"There is no module {name!r} in {cwd} or on the Python path (missing: {error.name!r})."
        raise SettingsError(what, next_step="Check the name, and the directory that the worker starts in.") from None
    except (Exception, SystemExit) as error:
        raise _failed(name, error) from error


def _failed(name: str, error: BaseException) -> SettingsError:
    what = f"The module {name!r} fails on import: {type(error).__name__}: {error}."
    return SettingsError(what, next_step="Import it with Python directly to see the whole traceback.")


def _names_in(module: ModuleType) -> str:
    public = {name: value for name, value in vars(module).items() if name.isidentifier() and not name.startswith("_")}
    return ", ".join(sorted(f"{name} ({type(value).__name__})" for name, value in public.items())) or "nothing"


def _values(module: ModuleType, attribute: str) -> list[object]:
    if not hasattr(module, attribute):
        what = f"The module {module.__name__!r} has no attribute {attribute!r}. It has: {_names_in(module)}."
        raise SettingsError(what, next_step="Check the part after the colon.")
    value: object = getattr(module, attribute)
    if isinstance(value, Mapping):
        return list(cast("Mapping[object, object]", value).values())
    if isinstance(value, Iterable):
        return list(cast("Iterable[object]", value))
    return [value]
