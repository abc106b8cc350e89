"""Stops the README from showing commands and options that do not exist."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from tomllib import loads

import pytest

from house.tree import ROOT

FENCE = re.compile(r"^```(?:sh|bash|console|shell)\n(.*?)^```", re.MULTILINE | re.DOTALL)
SCRIPTS: dict[str, str] = loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["scripts"]


def commands(text: str) -> list[list[str]]:
    """The command lines of a text's shell blocks that call something of ours, without comments."""
    lines = [line.removeprefix("$ ") for block in FENCE.findall(text) for line in block.splitlines()]
    split = [shlex.split(line, comments=True) for line in lines if re.match(r"(bin/|mycelium\b)", line)]
    return [words for words in split if words]


def shown(page: str) -> list[list[str]]:
    """The command lines of a page of ours."""
    return commands((ROOT / page).read_text(encoding="utf-8"))


def help_of(words: list[str]) -> subprocess.CompletedProcess[str]:
    """Ask a console script for the help of the command that a line calls."""
    module, _, function = SCRIPTS[words[0]].partition(":")
    program = f"import sys; from {module} import {function} as main; sys.exit(main())"
    path = [word for word in words[1:3] if re.fullmatch(r"[a-z][a-z-]*", word)]
    calm = {**os.environ, "COLUMNS": "200", "NO_COLOR": "1", "TERM": "dumb"}
    run = _run(program, path, calm)
    # The second word may be an argument of the first, not a command below it.
    return run if run.returncode == 0 else _run(program, path[:1], calm)


def _run(program: str, path: list[str], env: dict[str, str]) -> subprocess.CompletedProcess[str]:
    asked = [sys.executable, "-P", "-c", program, *path, "--help"]
    return subprocess.run(asked, capture_output=True, text=True, check=False, env=env)


@pytest.mark.parametrize("words", shown("README.md"), ids=" ".join)
def test_a_command_of_the_readme_exists(words: list[str]) -> None:
    if words[0].startswith("bin/"):
        assert os.access(ROOT / words[0], os.X_OK), words[0]
        return
    answer = help_of(words)
    assert answer.returncode == 0, answer.stderr
    for option in [word.partition("=")[0] for word in words if word.startswith("--")]:
        assert option in answer.stdout, f"{option} is no option of {' '.join(words)}"


def test_the_guard_reads_shell_blocks_only() -> None:
    text = "```sh\n$ mycelium demo --seed 3  # twice\nls\nbin/test\n```\n```python\nmycelium.tool\n```\n"
    assert commands(text) == [["mycelium", "demo", "--seed", "3"], ["bin/test"]]
