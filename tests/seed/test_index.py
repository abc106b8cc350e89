"""Every fact is accounted for, and docs/seed.md names no test that does not exist."""

from __future__ import annotations

import re
from collections.abc import Collection
from pathlib import Path

TESTS = Path(__file__).parents[1]
DOC = TESTS.parent / "docs" / "seed.md"
FACTS = range(1, 77)
CORNERS = range(1, 12)


def _defined() -> set[str]:
    sources = (path.read_text(encoding="utf-8") for path in TESTS.rglob("test_*.py"))
    return {name for source in sources for name in re.findall(r"^(?:async )?def (test_\w+)", source, re.MULTILINE)}


def missing(text: str, defined: Collection[str]) -> list[str]:
    """What a text names and nobody defines."""
    named = re.findall(r"`(test_[a-z0-9_]+\*?)`", text)
    return [
        name
        for name in named
        if not any(one.startswith(name[:-1]) if name.endswith("*") else one == name for one in defined)
    ]


def _elsewhere(text: str) -> set[int]:
    section = text.partition("## Elsewhere")[2].partition("\n## ")[0]
    return {int(number) for number in re.findall(r"^\| (\d+) \|", section, re.MULTILINE)}


def test_every_fact_has_a_test_or_a_place_elsewhere() -> None:
    defined, elsewhere = _defined(), _elsewhere(DOC.read_text(encoding="utf-8"))
    tested = {fact for fact in FACTS if any(name.startswith(f"test_fact_{fact:02}_") for name in defined)}
    assert tested | elsewhere == set(FACTS)
    assert tested & elsewhere == set()


def test_every_corner_case_has_a_test() -> None:
    defined = _defined()
    assert [n for n in CORNERS if not any(name.startswith(f"test_c{n}_") for name in defined)] == []


def test_each_test_that_the_list_names_exists() -> None:
    assert missing(DOC.read_text(encoding="utf-8"), _defined()) == []


def test_the_guard_sees_a_test_that_does_not_exist() -> None:
    assert missing("`test_a*`, `test_b`, `test_ab`", {"test_ab"}) == ["test_b"]
