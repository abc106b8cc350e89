"""Stops files and functions from growing past what fits into a head."""

from __future__ import annotations

import ast
from pathlib import Path

from house.tree import ROOT, shipped_files

LONGEST_FILE = 400
LONGEST_FUNCTION = 60


def too_long(path: Path) -> list[str]:
    """What is too long in a file."""
    text = path.read_text(encoding="utf-8")
    lines = len(text.splitlines())
    found = [f"{path.name}: {lines} lines"] if lines > LONGEST_FILE else []
    if path.suffix == ".py":
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                length = (node.end_lineno or node.lineno) - node.lineno + 1
                if length > LONGEST_FUNCTION:
                    found.append(f"{path.name}: {node.name} has {length} lines")
    return found


def test_files_and_functions_are_short() -> None:
    sources = [path for path in shipped_files() if path.suffix in {".py", ".lua"}]
    measured = [path for path in sources if path.relative_to(ROOT).parts[0] != "examples"]
    assert [fault for path in measured for fault in too_long(path)] == []


def test_the_guard_sees_what_is_too_long(tmp_path: Path) -> None:
    path = tmp_path / "long.py"
    path.write_text("async def work():\n" + "    pass\n" * LONGEST_FUNCTION + "\n" * LONGEST_FILE)
    assert too_long(path) == ["long.py: 461 lines", "long.py: work has 61 lines"]
