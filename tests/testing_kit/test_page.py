"""What docs/testing.md and the example show runs, in a project of its own, as a reader would run it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

from house.tree import ROOT

PAGE = (ROOT / "docs/testing.md").read_text(encoding="utf-8")
_BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
_INI = re.findall(r"^```ini\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)[0]
_NAME = re.compile(r"# (\w+\.py)\n")


def files(page: str) -> dict[str, str]:
    """The files that a page shows: a block without a name goes on with the one before it."""
    found: dict[str, str] = {}
    name = ""
    for block in _BLOCK.findall(page):
        named = _NAME.match(block)
        name = named.group(1) if named else name
        found[name] = found.get(name, "") + block
    return found


def run(where: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run pytest there, warnings being errors, as a project that has not heard of this repository's settings."""
    (where / "pytest.ini").write_text(f"{_INI}filterwarnings = error\n")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:valkey", *arguments]
    quiet = {name: value for name, value in os.environ.items() if not name.startswith(("MYCELIUM", "PYTEST"))}
    return subprocess.run(command, cwd=where, env=quiet, capture_output=True, text=True, check=False)


def test_the_files_of_the_page_are_a_project_whose_tests_pass(tmp_path: Path) -> None:
    shown = files(PAGE)
    assert list(shown) == ["shop.py", "conftest.py", "test_shop.py"]
    for name, text in shown.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    ran = run(tmp_path)
    assert ran.returncode == 0, ran.stdout[-4000:]
    assert f"{shown['test_shop.py'].count('async def test_') + 2} passed" in ran.stdout


def test_the_example_passes(tmp_path: Path) -> None:
    ran = run(tmp_path, str(ROOT / "examples" / "test_charge.py"), "--rootdir", str(tmp_path))
    assert ran.returncode == 0, ran.stdout[-4000:]


def test_a_worker_without_tools_says_which_fixture_is_missing(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text('pytest_plugins = ["mycelium.testing.fixtures"]\n')
    (tmp_path / "test_it.py").write_text("async def test_it(mycelium_worker): ...\n")
    ran = run(tmp_path)
    assert ran.returncode == 1
    assert "Define a fixture mycelium_tools in your conftest.py" in ran.stdout
