"""Turns a Lua file into a typed Python function whose replies are words.

A script file begins with a header that names everything that crosses the border:

    -- One sentence: what the verb does.
    -- ARGV  session epoch:int fence:digits
    -- EACH  item: id fence:digits verb
    -- REPLY renewed lost
    -- WRITES sessions session
    -- INCLUDE prelude keys

`ARGV` names single arguments, in order: plain ones are opaque bytes, `:int` ones become Lua numbers, `:digits` ones
stay text because fences and instants may pass 2^53. `EACH` names a group of repeated arguments. The loader makes the
Lua locals from the header and puts the included parts of `lua/lib/` in front of the body. Two locals are always there:
`tag`, the hash tag of the namespace and the only entry of KEYS, and `now`, 0 outside tests.

The Python side is a stub whose signature must equal the header: a parameter for each argument, and for each group a
sequence of NamedTuples with the columns as fields. A difference is refused at import.
"""

from __future__ import annotations

import hashlib
import inspect
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from importlib import resources
from typing import Generic, ParamSpec, cast, get_args, get_type_hints

from .errors import ScriptError

P = ParamSpec("P")
Arg = str | bytes | int | float

_DIRECTIVE = re.compile(r"--\s+(ARGV|EACH|REPLY|WRITES|INCLUDE)\s*(.*)")
_LIBRARIES = ("mycelium.leases", "mycelium.ledger")

REGISTRY: dict[str, Script[...]] = {}
"""Every script that was loaded, by `package/name`."""


@dataclass(frozen=True, slots=True)
class Group:
    """A group of repeated arguments: its name and the names of its columns."""

    name: str
    columns: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Header:
    """What a script file says of itself."""

    summary: str
    args: tuple[tuple[str, str], ...]
    groups: tuple[Group, ...]
    replies: frozenset[str]
    writes: tuple[str, ...]
    includes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Command:
    """One call of a script, ready to be sent. Sending it again is safe: that is what each script is written for."""

    script: Script[...]
    args: tuple[Arg, ...]


class Script(Generic[P]):
    """A script and its header; calling it packs a `Command` and sends nothing."""

    def __init__(self, package: str, name: str, header: Header, source: str) -> None:
        self.package = package
        self.name = name
        self.header = header
        self.source = source
        self.sha = hashlib.sha1(source.encode(), usedforsecurity=False).hexdigest()

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> Command:
        """Pack one call; every argument goes by name."""
        if args:
            what = f"Script {self.name} takes its arguments by name."
            raise TypeError(what)
        packed: list[Arg] = []
        for name, _ in self.header.args:
            packed.append(_arg(kwargs[name]))
        for group in self.header.groups:
            rows = kwargs[group.name]
            if not isinstance(rows, Sequence):
                what = f"Script {self.name} takes a sequence for {group.name}."
                raise TypeError(what)
            packed.append(len(cast("Sequence[object]", rows)))
            for row in cast("Sequence[Sequence[Arg]]", rows):
                packed.extend(row)
        return Command(self, tuple(packed))


def scripted(package: str, name: str, replies: type[StrEnum]) -> Callable[[Callable[P, None]], Script[P]]:
    """Bind a stub to `package/lua/name.lua`.

    Args:
        package: the dotted package that has the `lua` folder.
        name: the file's stem, and the verb.
        replies: the closed set of words that the script answers with.

    Raises:
        ScriptError: the stub and the header name different arguments or replies.
    """

    def bind(stub: Callable[P, None]) -> Script[P]:
        text = (resources.files(package) / "lua" / f"{name}.lua").read_text(encoding="utf-8")
        header = read_header(text)
        _check_stub(name, stub, header, replies)
        script: Script[P] = Script(package, name, header, assemble(header, text))
        REGISTRY[f"{package}/{name}"] = script
        return script

    return bind


def read_header(text: str) -> Header:
    """Read the comment block at the head of a script file."""
    found: dict[str, list[str]] = {}
    summary = ""
    for line in text.splitlines():
        if not line.startswith("--"):
            break
        directive = _DIRECTIVE.match(line)
        if directive:
            found.setdefault(directive[1], []).append(directive[2].strip())
        elif not summary:
            summary = line.removeprefix("--").strip()
    words = {key: tuple(" ".join(lines).split()) for key, lines in found.items() if key != "EACH"}
    return Header(
        summary=summary,
        args=tuple(_typed(word) for word in words.get("ARGV", ())),
        groups=tuple(_group(line) for line in found.get("EACH", ())),
        replies=frozenset(words.get("REPLY", ())),
        writes=words.get("WRITES", ()),
        includes=words.get("INCLUDE", ()),
    )


def assemble(header: Header, text: str) -> str:
    """Put the locals of the header and the included parts in front of a script's body."""
    lines = ["local tag = KEYS[1]", "local now = tonumber(ARGV[1])"]
    at = 2
    for name, kind in header.args:
        value = f"tonumber(ARGV[{at}])" if kind == "int" else f"ARGV[{at}]"
        lines.append(f"local {name} = {value}")
        at += 1
    if header.groups:
        lines.append(f"local at = {at}")
    for group in header.groups:
        width = len(group.columns)
        lines.append(f"local {group.name} = {{n = tonumber(ARGV[at]), at = at + 1, width = {width}}}")
        lines.append(f"at = at + 1 + {group.name}.n * {width}")
    parts = [_library(name) for name in header.includes]
    return "\n".join([*lines, *parts, text])


def _library(name: str) -> str:
    for package in _LIBRARIES:
        part = resources.files(package) / "lua" / "lib" / f"{name}.lua"
        if part.is_file():
            return part.read_text(encoding="utf-8")
    what = f"No lua/lib/{name}.lua in {' or '.join(_LIBRARIES)}."
    raise ScriptError(what, next_step="Correct the INCLUDE line of the script.")


def _typed(word: str) -> tuple[str, str]:
    name, _, kind = word.partition(":")
    return name, kind


def _group(line: str) -> Group:
    name, _, columns = line.partition(":")
    return Group(name.strip(), tuple(_typed(word)[0] for word in columns.split()))


def _arg(value: object) -> Arg:
    if isinstance(value, (str, bytes, int, float)):
        return value
    what = f"A script argument is text, bytes or a number, not {type(value).__name__}."
    raise TypeError(what)


def _check_stub(name: str, stub: Callable[..., None], header: Header, replies: type[StrEnum]) -> None:
    wanted = [arg for arg, _ in header.args] + [group.name for group in header.groups]
    given = list(inspect.signature(stub).parameters)
    if given != wanted:
        _refuse(name, f"the header names {wanted}, the stub {given}")
    hints = get_type_hints(stub)
    for group in header.groups:
        item = get_args(hints[group.name])[0]
        fields = tuple(item._fields)
        if fields != group.columns:
            _refuse(name, f"group {group.name} has columns {group.columns}, {item.__name__} has {fields}")
    words = frozenset(member.value for member in replies)
    if words != header.replies:
        _refuse(name, f"the header answers {sorted(header.replies)}, {replies.__name__} has {sorted(words)}")


def _refuse(name: str, difference: str) -> None:
    what = f"Script {name} and its stub differ: {difference}."
    raise ScriptError(what, next_step="Make the two agree: neither is right by itself.")
