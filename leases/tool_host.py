"""Tells whether this process is a tool host, or a program that a tool started: there, some things must not be done."""

from __future__ import annotations

import os

VARIABLE = "MYCELIUM_TOOL_HOST"
"""The environment variable that a tool host sets, and that every program below it inherits."""


def this_is_a_tool_host() -> None:
    """From now on this process, and what it starts, is below a tool host."""
    os.environ[VARIABLE] = "1"


def below_a_tool_host() -> bool:
    """Whether this process is a tool host or was started by one's tools."""
    return VARIABLE in os.environ
