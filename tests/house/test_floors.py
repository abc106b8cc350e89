"""Stops a floor from reaching up, and modules from importing each other in a circle, typing imports included."""

from __future__ import annotations

from pathlib import Path

from house.tree import import_graph

FLOORS = (
    *("leases", "ledger", "reconcilers", "guards", "actors", "", "integrations"),
    *("testing", "examples", "cli", "__main__"),
)
"""From the ground up: a floor imports only what stands before it. "" is the face, the root `__init__.py`."""


def floor_of(module: str) -> str:
    """The floor that a module stands on."""
    return module.split(".")[1] if "." in module else ""


def reaching_up(graph: dict[str, set[str]]) -> list[str]:
    """Imports that go to a higher floor."""
    return sorted(
        f"{module} imports {target}"
        for module, targets in graph.items()
        for target in targets
        if FLOORS.index(floor_of(target)) > FLOORS.index(floor_of(module))
    )


def circle(graph: dict[str, set[str]]) -> list[str]:
    """One circle of imports, or nothing."""
    done: set[str] = set()

    def walk(module: str, path: list[str]) -> list[str]:
        if module in path:
            return [*path[path.index(module) :], module]
        if module in done:
            return []
        for target in sorted(graph.get(module, set())):
            if found := walk(target, [*path, module]):
                return found
        done.add(module)
        return []

    for module in sorted(graph):
        if found := walk(module, []):
            return found
    return []


def test_every_folder_of_the_package_is_a_floor() -> None:
    assert {floor_of(module) for module in import_graph()} <= set(FLOORS)


def test_a_floor_imports_only_the_floors_below_it() -> None:
    assert reaching_up(import_graph()) == []


def test_no_modules_import_each_other_in_a_circle() -> None:
    assert circle(import_graph()) == []


def test_the_guards_see_hidden_imports(tmp_path: Path) -> None:
    files = {
        "__init__.py": "",
        "leases/__init__.py": "",
        "leases/clock.py": "def now():\n    from ..ledger import record\n",
        "ledger/__init__.py": "",
        "ledger/record.py": "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from .turn import Turn\n",
        "ledger/turn.py": "import mycelium.ledger.record\nclass Turn: ...\n",
        "ledger/mark.py": "from mycelium import anything\n",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    graph = import_graph(tmp_path)
    assert reaching_up(graph) == [
        "mycelium.leases.clock imports mycelium.ledger.record",
        "mycelium.ledger.mark imports mycelium",
    ]
    assert circle(graph) == ["mycelium.ledger.record", "mycelium.ledger.turn", "mycelium.ledger.record"]
