"""A worker is told where its tools are."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from mycelium.actors.load import load_tools
from mycelium.leases.errors import SettingsError

SOURCE = """
from mycelium.actors.tool import tool

@tool(effect_class="read")
def one() -> int:
    return 1

@tool(effect_class="read")
def two() -> int:
    return 2

again = one
mapping = {"x": one}
several = [one, two]
mixed = [one, "two"]
number = 5
"""


@pytest.fixture
def package(tmp_path: Path) -> Iterator[str]:
    name = "shop_tools_of_this_test"
    (tmp_path / f"{name}.py").write_text(SOURCE, encoding="utf-8")
    (tmp_path / f"{name}_other.py").write_text(SOURCE, encoding="utf-8")
    (tmp_path / f"{name}_broken.py").write_text("import no_such_thing\n", encoding="utf-8")
    (tmp_path / f"{name}_exits.py").write_text("raise SystemExit(3)\n", encoding="utf-8")
    (tmp_path / f"{name}_empty.py").write_text("x = 1\n", encoding="utf-8")
    sys.path.insert(0, str(tmp_path))
    yield name
    sys.path.remove(str(tmp_path))
    for loaded in [module for module in sys.modules if module.startswith(name)]:
        del sys.modules[loaded]


def test_all_tools_of_a_module_or_the_ones_that_are_named(package: str) -> None:
    assert list(load_tools(package)) == ["one", "two"]
    assert list(load_tools(f"{package}:two")) == ["two"]
    assert list(load_tools(f"{package}:mapping")) == ["one"]
    assert list(load_tools(f"{package}:several")) == ["one", "two"]
    assert list(load_tools(f"{package}:one, {package}:two")) == ["one", "two"]


@pytest.mark.parametrize(
    "spec, words",
    [
        ("{}_nowhere", "There is no module"),
        ("", "not a module"),
        (".relative", "not a module"),
        ("{}:nothing", "has no attribute 'nothing'. It has: again (SyncTool), mapping (dict)"),
        ("{}:number", "number (int)"),
        ("{}:mixed", "something else among them"),
        ("{}_empty", "has no tools"),
        ("{}_broken", "fails on import: ModuleNotFoundError"),
        ("{}_exits", "fails on import: SystemExit"),
        ("{},{}_other", "Two tools are called 'one'"),
    ],
)
def test_what_cannot_be_loaded_is_told_with_what_was_found(package: str, spec: str, words: str) -> None:
    with pytest.raises(SettingsError) as caught:
        load_tools(spec.replace("{}", package))
    assert words in str(caught.value)
