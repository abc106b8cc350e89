"""Finds the tools that a worker is told to run, and their schedules: `package.module` or `package.module:attribute`."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any, TypeVar, cast

from ..leases.errors import SettingsError
from .schedules.declaration import Schedule
from .tool import Tool

AnyTool = Tool[..., Any]
V = TypeVar("V")


@dataclass(frozen=True, slots=True)
class App:
    """What a worker is told to run.

    Attributes:
        tools: by name.
        schedules: when tools among them are called by themselves, by name.
    """

    tools: dict[str, AnyTool] = field(default_factory=dict[str, AnyTool])
    schedules: dict[str, Schedule] = field(default_factory=dict[str, Schedule])


def load_tools(spec: str) -> dict[str, AnyTool]:
    """Import tools by name: those of `load_app`.

    Raises:
        SettingsError: as `load_app`.
    """
    return load_app(spec).tools


def load_app(spec: str) -> App:
    """Import tools and schedules.

    Args:
        spec: `package.module` (every tool and schedule in its namespace, and in lists of schedules there) or
            `package.module:attribute` (a tool or schedule, or an iterable or mapping of them); several with commas
            between them. The working directory is importable.

    Raises:
        SettingsError: a module or attribute is missing or fails on import, has no tool or schedule, two tools or two
            schedules share a name, or a schedule calls a tool that is not among the tools.
    """
    app = App()
    for part in spec.split(","):
        for each in _values_of(part.strip()):
            if isinstance(each, Tool):
                _add("tools", app.tools, each.name, each, "name=")
            else:
                _add("schedules", app.schedules, each.name, each, "another first argument")
    if not app.tools:
        raise SettingsError(f"{spec!r} has no tools.", next_step="Name the module or the list that has them as well.")
    for each in app.schedules.values():
        if app.tools.get(each.tool.name) is not each.tool:
            what = f"The schedule {each.name!r} calls {each.tool.name!r}, which is not among the tools of {spec!r}."
            raise SettingsError(what, next_step="Name the tool there too, with a comma between: nobody would run it.")
    return app


def _add(kind: str, found: dict[str, V], name: str, value: V, how: str) -> None:
    if found.setdefault(name, value) is not value:
        what = f"Two {kind} are called {name!r}."
        raise SettingsError(what, next_step=f"Give one of them another name with {how}.")


def _values_of(spec: str) -> list[AnyTool | Schedule]:
    module_name, colon, attribute = spec.partition(":")
    module = _module(module_name)
    values = _values(module, attribute) if colon else _namespace(module)
    found: list[AnyTool | Schedule] = [value for value in values if isinstance(value, (Tool, Schedule))]
    if not found or (colon and len(found) != len(values)):
        what = f"{spec!r} has no tools, or something else among them. The module has: {_names_in(module)}."
        raise SettingsError(what, next_step="Decorate functions with @tool, or name them: package.module:attribute.")
    return found


def _namespace(module: ModuleType) -> list[object]:
    values: list[object] = list(vars(module).values())
    for value in list(values):
        if isinstance(value, (list, tuple)):
            values += [each for each in cast("list[object]", value) if isinstance(each, Schedule)]
    return values


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
