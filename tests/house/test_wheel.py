"""Stops a package or a data file from working in the clone and being absent from the wheel, and the reverse."""

from __future__ import annotations

import shutil
import subprocess
import sys
import zipfile
from importlib import import_module
from pathlib import Path
from tomllib import loads

import pytest

from house.tree import ROOT, repository_files, shipped_files

BUILD = "import sys; from setuptools import build_meta; build_meta.build_wheel(sys.argv[1])"


def built(source: Path, target: Path) -> set[str]:
    """Build a wheel and list its files, without those that describe the distribution."""
    target.mkdir()
    run = subprocess.run(
        [sys.executable, "-P", "-c", BUILD, str(target)], cwd=source, capture_output=True, text=True, check=False
    )
    assert run.returncode == 0, run.stderr[-2000:]
    with zipfile.ZipFile(next(target.glob("*.whl"))) as wheel:
        return {name for name in wheel.namelist() if ".dist-info/" not in name}


def expected(root: Path) -> set[str]:
    """What the wheel has to hold."""
    return {f"mycelium/{path.relative_to(root).as_posix()}" for path in shipped_files(root)}


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """A copy of the repository, since a build leaves files behind."""
    root = tmp_path / "a clone, copied"
    for path in repository_files():
        place = root / path.relative_to(ROOT)
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(path, place)
    return root


def test_the_wheel_holds_the_package_and_nothing_else(copy: Path, tmp_path: Path) -> None:
    assert built(copy, tmp_path / "wheel") == expected(copy)


def test_the_guard_sees_a_package_that_is_not_listed(copy: Path, tmp_path: Path) -> None:
    stray = copy / "leases" / "stray"
    stray.mkdir()
    (stray / "__init__.py").touch()
    (copy / "conftest.py").touch()
    assert expected(copy) - built(copy, tmp_path / "wheel") == {"mycelium/leases/stray/__init__.py"}


def test_nothing_at_the_root_is_shipped_by_accident() -> None:
    assert {path.name for path in shipped_files() if path.parent == ROOT} == {"__init__.py", "__main__.py", "py.typed"}


def test_the_commands_of_the_wheel_exist() -> None:
    scripts = loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["scripts"]
    for place in scripts.values():
        module, _, function = place.partition(":")
        assert callable(getattr(import_module(module), function))
