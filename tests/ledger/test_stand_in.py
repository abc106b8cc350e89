"""The same scripts on fakeredis, which users run their own tests on: the subset of Redis that they stay inside."""

from __future__ import annotations

import pytest

from kit.every_script import CASES, Case
from kit.ledger import Ledger, connect, script_names, steady
from mycelium.leases.scripts import REGISTRY

FIRST = {case.script: case for case in reversed(CASES)}


def test_the_suite_is_whole() -> None:
    assert sorted(FIRST) == script_names()
    assert set(FIRST) <= set(REGISTRY)


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.id}-{case.make.__name__.partition('__')[2]}")
def test_a_script_runs_on_the_stand_in(fake_url: str, namespace: str, case: Case) -> None:
    with connect(fake_url) as client:
        ledger = Ledger(client, namespace)
        ledger.found("a stand-in's run")
        ledger.open()
        command = case.make(ledger)
        first = ledger.run(command)
        once = ledger.dump()
        second = ledger.run(command)
        assert first[0] == case.words[0]
        assert second[0] == (case.second or case.words)[0]
        if case.words != ("more",):
            assert steady(ledger.dump()) == steady(once)
        ledger.drop()
