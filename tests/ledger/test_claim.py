"""Claims of holders without a queue, beside workers that have one: who gets what, and what is left behind."""

from __future__ import annotations

import pytest

from kit.claim_cases import doubted, failed
from kit.claims import claimed, claiming, repairing, seen, version
from kit.ledger import KINDS, MC, TTL_MS, Ledger, Passed, ended
from kit.ledger_checks import faults
from kit.script_cases import AUTO, IDEM, KEYED, OWN
from mycelium.ledger.states import EffectClass

CLAIMERS = 50


def test_of_fifty_that_rule_on_one_verdict_one_runs(ledger: Ledger) -> None:
    assert ledger.judge("r1", doubted(ledger, AUTO), "not_executed") == "settled"
    ruled_on = version(ledger)
    sessions = [f"p{number}" for number in range(CLAIMERS)]
    for session in sessions:
        ledger.open(session)
    told = [claimed(ledger, AUTO, session=session, expect=ruled_on, auth="reclaim").word for session in sessions]
    assert told == ["granted"] + ["known"] * (CLAIMERS - 1)
    assert faults(ledger.dump()) == []


def test_what_is_claimed_past_its_queue_is_granted_to_no_worker_until_it_is_given_back(ledger: Ledger) -> None:
    ledger.submit(AUTO, "r1")
    ledger.open("s2")
    first = claimed(ledger, AUTO, expect=version(ledger), auth="reclaim")
    assert (first.word, ledger.claim(4, session="s2")) == ("granted", [])
    ledger.settle(ended("r1", first.fence, "released"))
    assert [one.id for one in ledger.claim(4, session="s2")] == ["r1"]
    assert faults(ledger.dump()) == []


def test_what_ran_in_process_waits_for_its_caller_and_not_for_a_worker(ledger: Ledger) -> None:
    ledger.settle(ended("r1", claimed(ledger, AUTO).fence, "released"))
    assert (ledger.state("r1"), ledger.claim(4)) == ("ready", [])
    ledger.submit(AUTO, "r1")
    assert [one.id for one in ledger.claim(4)] == ["r1"]
    assert faults(ledger.dump()) == []


def test_the_stricter_declaration_stays_with_the_row(ledger: Ledger) -> None:
    fence = claimed(ledger, OWN).fence
    ledger.settle(ended("r1", fence, "released"))
    ledger.edit("HSET", ledger.keys.row("r1"), "class", "idempotent_mutate", "mode", "none")
    assert claimed(ledger, OWN, expect=version(ledger), auth="reclaim").word == "granted"
    row = ledger.row("r1")
    assert (row["class"], row["mode"]) == ("non_idempotent_mutate", "explicit")


def test_what_may_have_happened_and_may_not_repeat_any_more_is_not_granted(ledger: Ledger) -> None:
    claimed(ledger, IDEM, boundary=MC)
    ledger.now_ms += TTL_MS
    assert ledger.expire() == "expired"
    assert (ledger.state("r1"), ledger.row("r1")["doubt"]) == ("ready", "1")
    ledger.edit("HSET", ledger.keys.row("r1"), "again", "0")
    ledger.open("s2")
    assert claimed(ledger, IDEM, session="s2", expect=version(ledger), auth="reclaim").word == "known"


def test_a_failure_lets_the_window_of_the_key_begin_anew_and_a_doubt_does_not(ledger: Ledger) -> None:
    failed(ledger, KEYED)
    ledger.now_ms += 1_000
    again = claimed(ledger, KEYED, expect=version(ledger), auth="retry", boundary=MC)
    assert int(ledger.row("r1")["first"]) == ledger.now_ms
    ledger.settle(ended("r1", again.fence, "unknown", boundary=MC))
    ledger.now_ms += 1_000
    key: dict[str, Passed] = {"auth": "key", "window_ms": 5_000, "boundary": MC}
    assert claimed(ledger, KEYED, expect=version(ledger), **key).word == "granted"
    assert int(ledger.row("r1")["first"]) == ledger.now_ms - 1_000


def test_what_names_a_row_lives_and_goes_with_it(ledger: Ledger) -> None:
    fence = claimed(ledger, KEYED, None, dispatch_id="d1", boundary=MC)
    claimed(ledger, KEYED, "r2", dispatch_id="d1")
    names = ("row", "share", "ticket", "aliases")

    def mortal() -> set[bool]:
        return {key.mortal for name, key in ledger.dump().items() if name.partition(":")[0] in names}

    assert mortal() == {False}
    ledger.settle(ended(fence.id, fence.fence, "failed"))
    assert mortal() == {True}
    again = claiming(ledger, KEYED, "r2", dispatch_id="d1", expect=version(ledger, fence.id), auth="retry")
    assert seen(ledger.run(again)).id == fence.id
    assert mortal() == {False}
    assert faults(ledger.dump()) == []


def test_a_repair_goes_on_with_the_history_that_is_left_and_says_what_was_lost(ledger: Ledger) -> None:
    doubted(ledger, AUTO)
    before = ledger.row("r1")
    ledger.edit("HDEL", ledger.keys.row("r1"), "n", "mode")
    assert ledger.run(repairing(AUTO)) == ["repaired"]
    row = ledger.row("r1")
    last = int(before["n"]) + 1
    assert (row["n"], row[f"h{last}"].split(" ")[1:]) == (str(last), ["note", row["fence"], "repaired-mode,n"])
    assert {name: row[name] for name in before if name[0] == "h"} == {n: v for n, v in before.items() if n[0] == "h"}


@pytest.mark.parametrize("tool", [IDEM, KEYED, AUTO])
def test_a_held_row_that_lost_its_holder_is_judged_as_a_lost_one(ledger: Ledger, tool: str) -> None:
    claimed(ledger, tool, boundary=MC)
    ledger.edit("HDEL", ledger.keys.row("r1"), "session")
    ledger.edit("DEL", ledger.keys.held("s1"))
    assert ledger.run(repairing(tool)) == ["repaired"]
    repeats = KINDS[tool].effect_class is EffectClass.IDEMPOTENT_MUTATE
    assert ledger.state("r1") == ("ready" if repeats else "unknown")
    assert faults(ledger.dump()) == []


def test_a_held_row_that_lost_its_fence_is_found_when_its_session_ends(ledger: Ledger) -> None:
    fence = claimed(ledger, AUTO, boundary=MC).fence
    ledger.edit("HDEL", ledger.keys.row("r1"), "fence")
    assert ledger.run(repairing(AUTO)) == ["repaired"]
    assert ledger.settle(ended("r1", fence, "completed")) == ["stale"]
    ledger.now_ms += TTL_MS
    assert (ledger.expire(), ledger.state("r1")) == ("expired", "unknown")
    assert faults(ledger.dump()) == []
