"""The source tree as the guards see it: which files are the product, and what they import."""

from __future__ import annotations

import ast
import os
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

NOT_SHIPPED = {"bench", "bin", "build", "compose", "dist", "docs", "tests"}
"""Folders of the root that are no part of the package."""


def is_shipped(path: Path, root: Path = ROOT) -> bool:
    """Tell whether a file belongs to the package `mycelium`."""
    parts = path.relative_to(root).parts
    if any(part.startswith(".") or part == "__pycache__" or part.endswith(".egg-info") for part in parts):
        return False
    if len(parts) == 1:
        return path.suffix == ".py" or path.name == "py.typed"
    return parts[0] not in NOT_SHIPPED


def shipped_files(root: Path = ROOT) -> list[Path]:
    """List every file of the package, data included."""
    folders = [folder for folder in root.iterdir() if folder.is_dir() and not folder.is_symlink()]
    files = [path for path in root.iterdir() if path.is_file()]
    for folder in folders:
        if is_shipped(folder / "file", root):
            files.extend(path for path in folder.rglob("*") if path.is_file())
    return sorted(path for path in files if is_shipped(path, root))


def lua_scripts(root: Path = ROOT) -> list[Path]:
    """List the script files; the parts that they include are not among them."""
    return [path for path in shipped_files(root) if path.suffix == ".lua" and path.parent.name == "lua"]


def repository_files(root: Path = ROOT) -> list[Path]:
    """List what a clone has: everything but caches, environments and builds."""
    skipped = {".git", ".venv", ".typing", "build", "dist", "__pycache__", ".hypothesis"}

    def wanted(path: Path) -> bool:
        parts = path.relative_to(root).parts
        return not any(part in skipped or part.endswith(("_cache", ".egg-info")) for part in parts)

    found: list[Path] = []
    for folder, names, files in os.walk(root):
        names[:] = [name for name in names if wanted(Path(folder, name))]
        found.extend(Path(folder, name) for name in files)
    return sorted(path for path in found if not path.is_symlink())


def module_name(path: Path, root: Path = ROOT) -> str:
    """Name the module of a source file."""
    parts = path.relative_to(root).with_suffix("").parts
    return ".".join(("mycelium", *parts)).removesuffix(".__init__")


def import_graph(root: Path = ROOT) -> dict[str, set[str]]:
    """Map each module to the modules that it imports: at its top, in functions, and for type checkers only."""
    sources = {module_name(path, root): path for path in shipped_files(root) if path.suffix == ".py"}
    graph: dict[str, set[str]] = {}
    for name, path in sources.items():
        package = name if path.name == "__init__.py" else name.rpartition(".")[0]
        tree = ast.parse(path.read_text(encoding="utf-8"))
        graph[name] = {target for node in ast.walk(tree) for target in _targets(node, package, set(sources))} - {name}
    return graph


def _targets(node: ast.AST, package: str, known: set[str]) -> list[str]:
    if isinstance(node, ast.Import):
        return [found for alias in node.names if (found := _nearest(alias.name, known))]
    if not isinstance(node, ast.ImportFrom):
        return []
    above = package.split(".")[: len(package.split(".")) - node.level + 1] if node.level else []
    origin = ".".join([*above, node.module] if node.module else above)
    names = [f"{origin}.{alias.name}" for alias in node.names]
    return [found for name in names if (found := _nearest(name, known))]


def _nearest(name: str, known: set[str]) -> str | None:
    """The module that a dotted name is, or is an attribute of."""
    if name in known:
        return name
    parent = name.rpartition(".")[0]
    return parent if parent in known else None
