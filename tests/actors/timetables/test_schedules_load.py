"""Schedules are found where the tools are, and none is taken that nobody would run."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from kit.hosting import hosting
from mycelium.actors.load import load_app
from mycelium.leases.errors import SettingsError

PATH = (str(Path(__file__).parents[2]),)
SOURCE = """
from datetime import timedelta
from mycelium.actors.schedules.declaration import schedule
from mycelium.actors.tool import tool

@tool(effect_class="read")
def one(x: int = 1) -> int:
    return x

@tool(effect_class="read")
def two() -> int:
    return 2

first = schedule("first", one, every=timedelta(hours=1))
SCHEDULES = [first, schedule("second", two, cron="0 3 * * *")]
BOTH = [one, first]
TWICE = [first, schedule("first", one, every=timedelta(hours=2))]
DAYS = ["mon", "tue"]
"""


@pytest.fixture
def app(tmp_path: Path) -> Iterator[str]:
    name = "scheduled_app_of_this_test"
    (tmp_path / f"{name}.py").write_text(SOURCE, encoding="utf-8")
    sys.path.insert(0, str(tmp_path))
    yield name
    sys.path.remove(str(tmp_path))
    sys.modules.pop(name, None)


@pytest.mark.parametrize(
    "spec, tools, schedules",
    [
        ("{}:one", ["one"], []),
        ("{}:BOTH", ["one"], ["first"]),
        ("{0}:one,{0}:two,{0}:SCHEDULES", ["one", "two"], ["first", "second"]),
        ("{0}:first, {0}:one", ["one"], ["first"]),
    ],
)
def test_the_ones_that_are_named(app: str, spec: str, tools: list[str], schedules: list[str]) -> None:
    found = load_app(spec.format(app))
    assert (list(found.tools), sorted(found.schedules)) == (tools, schedules)


@pytest.mark.parametrize(
    "spec, words",
    [
        ("{}", "Two schedules are called 'first'"),
        ("{}:TWICE", "Two schedules are called 'first'"),
        ("{}:SCHEDULES", "has no tools"),
        ("{0}:one,{0}:SCHEDULES", "calls 'two', which is not among the tools"),
        ("{}:DAYS", "something else among them"),
    ],
)
def test_what_cannot_be_scheduled_is_refused(app: str, spec: str, words: str) -> None:
    with pytest.raises(SettingsError) as caught:
        load_app(spec.format(app))
    assert words in str(caught.value)


def test_all_of_a_module_and_those_in_its_lists(app: str, tmp_path: Path) -> None:
    (tmp_path / f"{app}.py").write_text(SOURCE.replace("\nTWICE = ", "\n# "), encoding="utf-8")
    found = load_app(app)
    assert (list(found.tools), sorted(found.schedules)) == (["one", "two"], ["first", "second"])


def test_the_example_is_one() -> None:
    assert sorted(load_app("mycelium.examples.schedules").schedules) == ["billing", "mail", "nightly-report"]


async def test_a_host_tells_the_schedules_of_its_tools() -> None:
    async with hosting("kit.schedules", path=PATH) as control:
        assert sorted(control.host.tools) == ["ping", "report"]
        assert {name: str(facts.rule) for name, facts in control.host.schedules.items()} == {
            "nightly": "0 3 * * *",
            "pulse": "every 0:05:00",
        }


async def test_a_worker_whose_schedules_cannot_be_does_not_start() -> None:
    with pytest.raises(SettingsError, match=r"calls 'ping', which is not among the tools"):
        async with hosting("kit.schedules:report,kit.schedules:SCHEDULES", path=PATH):
            pass
