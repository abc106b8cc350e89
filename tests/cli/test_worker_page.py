"""docs/worker.md says of the command what the command says of itself."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from house.tree import ROOT
from mycelium.actors.health.vitals import Unready
from mycelium.actors.runtime import ActorState
from mycelium.actors.worker.exits import WorkerExit
from mycelium.cli import worker as command

PAGE = (ROOT / "docs/worker.md").read_text(encoding="utf-8")
_ROW = re.compile(r"^\| (?P<first>[^|]+) \| (?P<second>[^|]*) \|", re.MULTILINE)


def section(name: str) -> str:
    """A section of the page, without the ones beside it."""
    return PAGE.partition(f"\n## {name}\n")[2].partition("\n## ")[0]


def words_of(text: str) -> set[str]:
    """What stands as code in the first column of a section's table."""
    return {word for row in _ROW.finditer(text) for word in re.findall(r"`([a-z_]+)`", row["first"])}


def test_every_option_is_on_the_page_with_its_variable() -> None:
    app = typer.Typer()
    app.command()(command.worker)
    told = {row["first"]: row["second"] for row in _ROW.finditer(section("Options"))}
    for parameter in typer.main.get_command(app).params:
        if isinstance(parameter.envvar, str):
            name = max(parameter.opts, key=len) if parameter.param_type_name == "option" else "APP"
            rows = [row for row in told if f"`{name}`" in row or f"`{name} " in row]
            assert [told[row] for row in rows] == [f"`{parameter.envvar}`"], name


def test_every_exit_code_is_on_the_page() -> None:
    codes = {int(row["first"]) for row in _ROW.finditer(section("Exit codes")) if row["first"].isdigit()}
    assert {int(code) for code in WorkerExit} <= codes


@pytest.mark.parametrize("name, words", [("Health", Unready), ("The tree", ActorState)])
def test_every_word_is_on_the_page(name: str, words: type[Unready | ActorState]) -> None:
    assert set(words) <= words_of(section(name))


def test_the_file_on_the_page_is_one(tmp_path: Path, url: str, namespace: str) -> None:
    (block,) = re.findall(r"^```toml\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    file = tmp_path / "worker.toml"
    file.write_text(block, encoding="utf-8")
    app = typer.Typer()
    app.command()(command.worker)
    # Each name and value is taken; only the app is none that this machine has.
    ran = CliRunner().invoke(app, ["--config", str(file), "--url", url, "--namespace", namespace])
    assert (ran.exit_code, "There is no module 'shop.tools'" in ran.output) == (WorkerExit.BAD_USAGE, True), ran.output
