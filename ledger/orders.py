"""What an operator orders of all jobs of a kind: pause a queue or a tool, strike a tool by the value of an argument."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from enum import StrEnum

import msgspec

from ..leases.errors import SettingsError
from ..leases.scripts import scripted
from ..leases.store import Store
from .canon import canonical
from .facets import facet
from .line import checked_queue
from .replies import mapping, text, words

_TOOL = re.compile(r"[A-Za-z0-9_.-]{1,128}")


class PauseReply(StrEnum):
    """What the store says of a pause."""

    PAUSED = "paused"
    """Its jobs stay ready; what runs goes on."""
    RESUMED = "resumed"
    """Its jobs are taken again."""
    UNCHANGED = "unchanged"
    """It was so already; who ordered it first stays on record."""


class StrikeReply(StrEnum):
    """What the store says of a strike."""

    STRUCK = "struck"
    """Jobs with that argument stay ready; what runs goes on."""
    LIFTED = "lifted"
    """They are taken again."""
    UNCHANGED = "unchanged"
    """It was so already; who ordered it first stays on record."""


class Target(StrEnum):
    """What can be paused."""

    QUEUE = "queue"
    """All jobs of a queue."""
    TOOL = "tool"
    """All jobs of a tool, whatever queue they wait in."""


@scripted("mycelium.ledger", "pause", PauseReply)
def pause_script(*, target: str, on: int, said: str) -> None:
    """Stub of `pause.lua`."""


@scripted("mycelium.ledger", "strike", StrikeReply)
def strike_script(*, strike: str, on: int, said: str) -> None:
    """Stub of `strike.lua`."""


class _Said(msgspec.Struct, omit_defaults=True):
    by: str = ""
    reason: str = ""
    parameter: str = ""
    value: str = ""


@dataclass(frozen=True, slots=True)
class Pause:
    """A standing pause.

    Attributes:
        target: what kind of thing is paused.
        name: which.
        at_ms: server milliseconds at which it was ordered.
        by: who ordered it.
        reason: why.
    """

    target: Target
    name: str
    at_ms: int
    by: str
    reason: str


@dataclass(frozen=True, slots=True)
class Strike:
    """A standing strike.

    Attributes:
        tool: the tool.
        parameter: the argument.
        value: its value, in canonical text.
        at_ms: server milliseconds at which it was ordered.
        by: who ordered it.
        reason: why.
    """

    tool: str
    parameter: str
    # An argument may be a secret of a caller's, and a repr ends up in logs.
    value: str = field(repr=False)
    at_ms: int
    by: str
    reason: str


@dataclass(frozen=True, slots=True)
class Orders:
    """Everything that an operator ordered and that stands."""

    pauses: tuple[Pause, ...]
    strikes: tuple[Strike, ...]


async def pause(store: Store, target: Target, name: str, *, by: str, reason: str) -> PauseReply:
    """Keep the jobs of a queue or a tool from being taken. What runs goes on, and what is submitted waits.

    Raises:
        SettingsError: no queue or tool can have this name.
        ServerError: the store could not be asked; asking again is safe.
    """
    return await _pause(store, target, name, on=True, said=_Said(by, reason))


async def resume(store: Store, target: Target, name: str) -> PauseReply:
    """Let the jobs of a paused queue or tool be taken again.

    Raises:
        SettingsError: no queue or tool can have this name.
        ServerError: the store could not be asked; asking again is safe.
    """
    return await _pause(store, target, name, on=False, said=_Said())


async def strike(  # noqa: PLR0913 - what a strike names, and who orders it
    store: Store, tool: str, parameter: str, value: object, *, by: str, reason: str
) -> StrikeReply:
    """Keep the jobs of a tool that have one value for one argument from being taken.

    Args:
        store: the server.
        tool: the tool's name.
        parameter: the argument: one at the top, whose value is one text, number or truth value.
        value: its value, as the tool's parameter has it: `1` and `1.0` are one value, `"1"` is another.
        by: who orders it, for the record.
        reason: why, for the record.

    Raises:
        SettingsError: no tool or argument can be called so, or the value is none of these.
        ServerError: the store could not be asked; asking again is safe.
    """
    shown = canonical(value).decode() if isinstance(value, (str, int, float, bool)) else ""
    return await _strike(store, tool, parameter, value, on=True, said=_Said(by, reason, parameter, shown))


async def lift(store: Store, tool: str, parameter: str, value: object) -> StrikeReply:
    """Lift a strike: what it kept back goes to where it stood in its line.

    Raises:
        SettingsError: as `strike`.
        ServerError: the store could not be asked; asking again is safe.
    """
    return await _strike(store, tool, parameter, value, on=False, said=_Said())


async def read_orders(store: Store) -> Orders:
    """Read what stands.

    Raises:
        ServerError: the store could not be asked.
    """
    paused = mapping(await store.calls.read("HGETALL", store.keys.paused()))
    struck = mapping(await store.calls.read("HGETALL", store.keys.strikes()))
    return Orders(
        tuple(sorted((_read_pause(*item) for item in paused.items()), key=lambda one: (one.target, one.name))),
        tuple(
            sorted(
                (_read_strike(*item) for item in struck.items()), key=lambda one: (one.tool, one.parameter, one.value)
            )
        ),
    )


async def _pause(store: Store, target: Target, name: str, *, on: bool, said: _Said) -> PauseReply:
    if target is Target.QUEUE:
        checked_queue(name)
    else:
        _check_tool(name)
    command = pause_script(target=f"{target}:{name}", on=int(on), said=msgspec.json.encode(said).decode())
    return PauseReply(text(words(await store.calls.run(command))[0]))


async def _strike(  # noqa: PLR0913 - what a strike names
    store: Store, tool: str, parameter: str, value: object, *, on: bool, said: _Said
) -> StrikeReply:
    _check_tool(tool)
    if not parameter.isidentifier() or not isinstance(value, (str, int, float, bool)):
        what = "A strike names one argument, and one text, number or truth value for it."
        raise SettingsError(
            what, next_step="Nothing was ordered. Name an argument of the tool itself, not a part of one."
        )
    command = strike_script(
        strike=f"{tool}:{facet(parameter, value)}", on=int(on), said=msgspec.json.encode(said).decode()
    )
    return StrikeReply(text(words(await store.calls.run(command))[0]))


def _check_tool(name: str) -> None:
    if not _TOOL.fullmatch(name):
        raise SettingsError(f"{name!r} is not a tool's name.", next_step="Nothing was ordered. Correct the name.")


def _said(field_: str) -> tuple[int, _Said]:
    at_ms, _, body = field_.partition(" ")
    try:
        return int(at_ms), msgspec.json.decode(body, type=_Said)
    except (ValueError, json.JSONDecodeError):
        return 0, _Said()


def _read_pause(name: str, told: str) -> Pause:
    target, _, named = name.partition(":")
    at_ms, said = _said(told)
    return Pause(Target(target), named, at_ms, said.by, said.reason)


def _read_strike(name: str, told: str) -> Strike:
    at_ms, said = _said(told)
    return Strike(name.rpartition(":")[0], said.parameter, said.value, at_ms, said.by, said.reason)
