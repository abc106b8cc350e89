"""What is the matter with a transition and what to type, and which are listed as stuck."""

from __future__ import annotations

import shlex
from collections.abc import AsyncIterator

import pytest

from kit.ledger import NOON_MS, Ledger, ended
from kit.operator_cases import PRESUMED_MS, burying, doubtful, graced
from kit.script_cases import AUTO, OWN
from mycelium.leases.store import Store, StoreSettings, open_store
from mycelium.ledger.advice import OVERDUE_MS, UNCLAIMED_MS, Stuck
from mycelium.ledger.listing import Listed, Wanted, find_transitions, list_transitions, look_at
from mycelium.ledger.states import Liveness


@pytest.fixture
async def store(url: str, ledger: Ledger) -> AsyncIterator[Store]:
    """The ledger through a store."""
    store = await open_store(url, namespace=ledger.keys.namespace, settings=StoreSettings(now_ms=NOON_MS))
    yield store
    await store.aclose()


async def stuck(store: Store, ledger: Ledger) -> dict[str, Listed]:
    """What is stuck at the ledger's time."""
    store.calls.now_ms = ledger.now_ms
    return {one.record.request_id: one for one in await list_transitions(store, stuck=True)}


async def test_what_runs_or_waits_its_turn_is_not_stuck(store: Store, ledger: Ledger) -> None:
    ledger.marked(AUTO)
    ledger.submit(AUTO, "r2")
    ledger.submit(AUTO, "r3", delay_s=5)
    assert await stuck(store, ledger) == {}


async def test_a_holder_in_its_grace_may_be_declared_dead(store: Store, ledger: Ledger) -> None:
    graced(ledger)
    one = (await stuck(store, ledger))["r1"]
    assert (one.why, one.liveness) == (Stuck.HOLDER_LOST, Liveness.GRACE)
    assert one.advice.commands == ("mycelium transitions mark-dead r1 --by YOU --reason WHY",)
    ledger.now_ms += 60_000
    dead = (await stuck(store, ledger))["r1"]
    assert (dead.why, dead.liveness) == (Stuck.HOLDER_LOST, Liveness.DEAD)
    # The next sweep takes it; what a person can do meanwhile is to let it run no more.
    assert dead.advice.commands == ("mycelium transitions cancel r1 --by YOU --reason WHY",)


async def test_what_a_dead_session_still_has_is_stuck_before_its_deadline(store: Store, ledger: Ledger) -> None:
    ledger.marked(AUTO)
    ledger.marked(AUTO, "r2")
    ledger.run(burying(ledger, override=1))
    found = await stuck(store, ledger)
    assert {name: one.why for name, one in found.items()} == {"r1": Stuck.IN_DOUBT, "r2": Stuck.HOLDER_LOST}
    assert found["r2"].liveness is Liveness.DEAD


async def test_of_an_unknown_one_it_is_told_whether_its_attempt_may_still_send(store: Store, ledger: Ledger) -> None:
    doubtful(ledger)
    ledger.unknown(request_id="r2")
    found = await stuck(store, ledger)
    assert (found["r1"].liveness, found["r2"].liveness) == (Liveness.GRACE, Liveness.NOBODY)
    assert "may still send" in found["r1"].advice.text
    assert "may still send" not in found["r2"].advice.text
    ledger.now_ms += PRESUMED_MS
    assert (await stuck(store, ledger))["r1"].liveness is Liveness.DEAD


async def test_a_due_one_that_nobody_promotes_and_a_ready_one_that_nobody_claims_are_stuck(
    store: Store, ledger: Ledger
) -> None:
    ledger.submit(AUTO, "late", delay_s=1)
    ledger.submit(AUTO, "left")
    ledger.edit("HSET", ledger.keys.tools(), AUTO, "{}")
    ledger.now_ms += 1000 + OVERDUE_MS
    assert await stuck(store, ledger) == {}
    ledger.now_ms += 1
    assert [one.why for one in (await stuck(store, ledger)).values()] == [Stuck.OVERDUE]
    ledger.now_ms = NOON_MS + UNCLAIMED_MS + 1
    assert {one.why for one in (await stuck(store, ledger)).values()} == {Stuck.OVERDUE, Stuck.UNCLAIMED}


async def test_what_waits_for_an_approval_is_stuck(store: Store, ledger: Ledger) -> None:
    ledger.submit(AUTO, "r1")
    ledger.edit("HSET", ledger.keys.row("r1"), "state", "parked")
    ledger.edit("XADD", ledger.keys.events(), "*", "moves", "r1\tready\tparked\t0\tapproval")
    assert (await stuck(store, ledger))["r1"].why is Stuck.WAITS_FOR_PERSON


async def test_only_what_another_handed_off_and_what_has_stood_long_enough(store: Store, ledger: Ledger) -> None:
    ledger.submit(AUTO, "r1", "r2")
    ledger.edit("HSET", ledger.keys.row("r2"), "about", '{"parent_request_id":"r1"}')
    store.calls.now_ms = NOON_MS + 10_000
    assert [one.record.request_id for one in await list_transitions(store, parent="r1")] == ["r2"]
    assert len(await list_transitions(store, older_than_s=10)) == 2
    assert await list_transitions(store, older_than_s=10.001) == []


async def test_what_is_wanted_is_found_however_many_others_moved_after_it(store: Store, ledger: Ledger) -> None:
    ledger.settle(ended("r0", ledger.marked(OWN, "r0"), "completed"))
    for at in range(40):
        ledger.settle(ended(f"x{at}", ledger.marked(AUTO, f"x{at}"), "completed"))
    ledger.submit(AUTO, *[f"y{at}" for at in range(250)])
    assert [one.record.request_id for one in await list_transitions(store, tool=OWN, limit=1)] == ["r0"]
    found = await find_transitions(store, Wanted(tool=OWN), look_back=100)
    assert (found.lines, found.cut, found.more) == ((), True, False)
    assert found.looked_back_to_ms is not None
    whole = await find_transitions(store, Wanted(), limit=291)
    assert (len(whole.lines), whole.cut, whole.more) == (291, False, False)
    assert (await find_transitions(store, Wanted(), limit=290)).more


async def test_the_lists_of_open_ones_are_looked_through_so_far_and_no_further(store: Store, ledger: Ledger) -> None:
    ledger.submit(AUTO, *[f"x{at}" for at in range(9)])
    ledger.submit(AUTO, "child")
    ledger.edit("HSET", ledger.keys.row("child"), "about", '{"parent_request_id":"r1"}')
    ledger.edit("HSET", ledger.keys.tools(), AUTO, "{}")
    ledger.edit("DEL", ledger.keys.events())
    assert [one.record.request_id for one in await list_transitions(store, parent="r1", limit=1)] == ["child"]
    found = await find_transitions(store, Wanted(parent="r1"), look_back=9)
    assert (found.lines, found.cut, found.looked_back_to_ms) == ((), True, None)


@pytest.mark.parametrize("name", ["-rf", "it's; rm", "charge-order:ORD-1"])
async def test_a_command_survives_a_shell_whatever_the_id_is(store: Store, ledger: Ledger, name: str) -> None:
    ledger.unknown(request_id=name)
    happened, did_not = (await look_at(store, name)).advice.commands
    for command, verified in ((happened, "completed"), (did_not, "not-executed")):
        words = shlex.split(command)
        assert words[:3] == ["mycelium", "transitions", "release"]
        assert words[-1 if name.startswith("-") else 3] == name
        assert words[words.index("--verified") + 1] == verified
        assert words[words.index("--expect") + 1] == ledger.row(name)["n"]
