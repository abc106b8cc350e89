"""Finds the globals that a Lua 5.1 program reads and assigns, in its bytecode: no branch has to run for it."""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any, cast

GETGLOBAL, SETGLOBAL = 5, 7
COMPILE = b"""
function(source)
  local program, why = loadstring(source, 'script')
  if program then return string.dump(program) end
  error(why)
end
"""


@dataclass(slots=True)
class Globals:
    """Names that are no local of the program."""

    read: set[str] = field(default_factory=set[str])
    assigned: set[str] = field(default_factory=set[str])


def lua() -> Any:  # noqa: ANN401 - lupa has no types
    """A Lua of the version that the servers have, which takes and gives bytes."""
    return import_module("lupa.lua51").LuaRuntime(encoding=None)


def globals_of(source: str) -> Globals:
    """Compile a program and list its globals.

    Raises:
        Exception: the program does not compile; the message has the line.
    """
    dump = cast("Callable[[bytes], bytes]", lua().eval(COMPILE))(source.encode())
    found = Globals()
    _Reader(dump, at=12).function(found)
    return found


@dataclass(slots=True)
class _Reader:
    """Walks through a dump; the layout is that of `ldump.c` of Lua 5.1 on a 64-bit machine."""

    dump: bytes
    at: int

    def take(self, layout: str) -> int:
        (value,) = struct.unpack_from(layout, self.dump, self.at)
        self.at += struct.calcsize(layout)
        return cast("int", value)

    def text(self) -> str:
        size = self.take("=Q")
        start, self.at = self.at, self.at + size
        return self.dump[start : self.at].rstrip(b"\0").decode("utf-8", "replace")

    def constant(self) -> str:
        kind = self.take("=B")
        if kind == 4:
            return self.text()
        self.at += {0: 0, 1: 1, 3: 8}[kind]
        return ""

    def function(self, found: Globals) -> None:
        self.text()
        self.at += 2 * 4 + 4  # lines of its beginning and end; upvalues, parameters, variadic, stack
        code = [self.take("=I") for _ in range(self.take("=i"))]
        constants = [self.constant() for _ in range(self.take("=i"))]
        for instruction in code:
            operation, operand = instruction & 0x3F, instruction >> 14
            if operation == GETGLOBAL:
                found.read.add(constants[operand])
            if operation == SETGLOBAL:
                found.assigned.add(constants[operand])
        for _ in range(self.take("=i")):
            self.function(found)
        lines = self.take("=i")
        self.at += 4 * lines
        for _ in range(self.take("=i")):  # locals, each with where it begins and ends
            self.text()
            self.at += 8
        for _ in range(self.take("=i")):  # upvalues
            self.text()
