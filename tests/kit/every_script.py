"""The cases of every script."""

from __future__ import annotations

from importlib import import_module

from kit.script_cases import CASES, Case

__all__ = ["CASES", "Case"]

for _noun in ("lease", "job", "order", "sweep", "claim", "operator", "repair", "tree", "schedule"):
    # Each adds its cases as it is imported.
    import_module(f"kit.{_noun}_cases")
