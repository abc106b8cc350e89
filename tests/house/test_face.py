"""Stops the face from drifting: what type checkers see, what is really there, and that importing it loads nothing."""

from __future__ import annotations

import ast
import subprocess
import sys
from typing import cast

import pytest

import mycelium
from house.tree import ROOT


def seen_by_checkers(source: str) -> dict[str, str]:
    """Each name of the TYPE_CHECKING block, and the module it is from."""
    blocks = [node for node in ast.parse(source).body if isinstance(node, ast.If)]
    imports = [node for block in blocks for node in block.body if isinstance(node, ast.ImportFrom)]
    return {alias.asname or alias.name: node.module or "" for node in imports for alias in node.names}


def assigned(source: str, name: str) -> object:
    """The literal that a module assigns to a name."""
    for node in ast.parse(source).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == name:
            return cast("object", ast.literal_eval(node.value))
    return None


def faults(source: str) -> list[str]:
    """Differences between the three lists of the face."""
    checkers, homes, listed = seen_by_checkers(source), assigned(source, "_HOMES"), assigned(source, "__all__")
    found: list[str] = []
    if checkers != homes:
        found.append("the TYPE_CHECKING block and _HOMES differ")
    if listed != sorted(checkers):
        found.append("__all__ is not the sorted names of the TYPE_CHECKING block")
    return found


def test_the_three_lists_of_the_face_agree() -> None:
    assert faults((ROOT / "__init__.py").read_text(encoding="utf-8")) == []


@pytest.mark.parametrize("name", mycelium.__all__)
def test_a_public_name_resolves(name: str) -> None:
    assert getattr(mycelium, name) is not None
    assert name in dir(mycelium)


def test_a_name_that_is_not_public_is_refused() -> None:
    with pytest.raises(AttributeError, match="no public name 'nothing'"):
        getattr(mycelium, "nothing")  # noqa: B009 - type checkers refuse the plain form, as they should


def test_importing_the_face_loads_nothing() -> None:
    program = "import sys, mycelium; print([name for name in sys.modules if name.startswith('mycelium.')])"
    run = subprocess.run([sys.executable, "-P", "-c", program], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"


def test_the_guard_sees_each_kind_of_drift() -> None:
    face = "if TYPE_CHECKING:\n    from .a import B, C\n_HOMES = {'B': 'a', 'C': 'a'}\n__all__ = ['B', 'C']\n"
    assert faults(face) == []
    assert len(faults(face.replace("'C': 'a'", "'C': 'd'"))) == 1
    assert len(faults(face.replace("['B', 'C']", "['C', 'B']"))) == 1
    assert len(faults(face.replace("import B, C", "import B"))) == 2
