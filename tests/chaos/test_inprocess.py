"""Ledgers in processes of their own that are killed, frozen, interrupted and forked."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import time
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import pytest
from chaos.inprocess_cast import LAPSED_S, QUICK, TIMES, Cast, casting
from chaos.stage import SEED, runs, until

from kit.inprocess import CLASSES, Runs, async_tool, world
from kit.proxy import FaultProxy
from mycelium import (
    LedgerHardBlockError,
    SessionLostError,
    task_ledger_sync,
)
from mycelium.leases.session import SessionSettings

StartProxy = Callable[[str], Awaitable[FaultProxy]]


@pytest.fixture
def cast(url: str, namespace: str, tmp_path: Path) -> Iterator[Cast]:
    with world(url, namespace) as at, casting(at, tmp_path) as made:
        yield made


# ── killed at every point ────────────────────────────────────────────────────────────────────────────────────────────

POINTS = ("before", "claimed", "began", "marked", "sent", "returned", "settled")


def after_a_death(effect_class: str, point: str, *, explicit: bool) -> tuple[int, str]:
    """How many effects there are after a redispatch, and the state: what docs/gates.md says."""
    if point in {"before", "claimed"}:
        return 1, "completed"
    sent = point in {"sent", "returned", "settled"}
    if point == "settled":
        return 1, "completed"
    if effect_class in {"read", "idempotent_mutate"}:
        return 1 + sent, "completed"
    if explicit and point == "began":
        return 1, "completed"
    return int(sent), "unknown"


async def test_whatever_is_killed_wherever_has_its_effect_as_the_gates_say(cast: Cast) -> None:
    cases = [
        (effect_class, explicit, point)
        for effect_class in CLASSES
        for explicit in (False, True)
        for point in POINTS
        if effect_class != "read" or point not in {"marked", "returned"}
    ]
    names = {case: f"{case[0]}-{case[1]}-{case[2]}" for case in cases}
    pids = [cast.start(names[case], effect_class=case[0], explicit=case[1], die=case[2]) for case in cases]
    await cast.gone(*pids)
    assert not [name for name in names.values() if cast.said(name) and not name.endswith("settled")]
    await asyncio.sleep(LAPSED_S)
    answers = {case: await asyncio.to_thread(cast.again, names[case], case[0], explicit=case[1]) for case in cases}
    for case in cases:
        effects, state = after_a_death(case[0], case[2], explicit=case[1])
        found = cast.effects.get(names[case], 0), cast.world.state(names[case])
        assert found == (effects, state), (case, answers[case])
        assert isinstance(answers[case], LedgerHardBlockError if state == "unknown" else str), case
    cast.world.idle()


@pytest.mark.parametrize("effect_class", ["non_idempotent_mutate", "idempotent_mutate"])
async def test_d12_a_task_that_is_killed_is_unknown_or_runs_again_as_its_class_says(
    cast: Cast, effect_class: str
) -> None:
    await cast.gone(cast.start("day", task=True, effect_class=effect_class, die="marked"))
    assert cast.world.state("task:act:day") == "attempting"
    await asyncio.sleep(LAPSED_S)

    @task_ledger_sync(ledger=cast.world.ledger(session=QUICK), name="act", effect_class=effect_class)
    def act(key: str) -> str:
        return key

    if effect_class == "idempotent_mutate":
        assert await asyncio.to_thread(act, "day", task_id="day") == "day"
        return
    with pytest.raises(LedgerHardBlockError):
        await asyncio.to_thread(act, "day", task_id="day")
    assert cast.world.state("task:act:day") == "unknown"


# ── frozen ───────────────────────────────────────────────────────────────────────────────────────────────────────────


async def test_what_a_frozen_holder_still_does_is_refused_or_evidence(cast: Cast) -> None:
    gate, pids = cast.gate(), dict[str, int]()
    for name, effect_class, explicit, wait in (
        ("unmarked", "irreversible", True, "began"),
        ("undecided", "irreversible", False, "claimed"),
        ("marked", "non_idempotent_mutate", False, "sent"),
        ("read", "read", False, "sent"),
        ("repeated", "idempotent_mutate", False, "sent"),
    ):
        pids[name] = cast.start(name, effect_class=effect_class, explicit=explicit, wait=wait, gate=gate.path)
        await cast.at(name)
    fences = {name: cast.world.row(name)["fence"] for name in pids}
    for pid in pids.values():
        os.kill(pid, signal.SIGSTOP)
    await asyncio.sleep(LAPSED_S)
    answers = [
        await asyncio.to_thread(cast.again, "unmarked", "irreversible", explicit=True),
        await asyncio.to_thread(cast.again, "undecided", "irreversible", explicit=False),
        await asyncio.to_thread(cast.again, "marked", "non_idempotent_mutate", explicit=False),
        await asyncio.to_thread(cast.again, "read", "read", explicit=False),
        await asyncio.to_thread(cast.again, "repeated", "idempotent_mutate", explicit=False),
    ]
    assert [answers[at] for at in (0, 1, 3, 4)] == ["again"] * 4
    assert isinstance(answers[2], LedgerHardBlockError)
    gate.open()
    for pid in pids.values():
        os.kill(pid, signal.SIGCONT)
    await cast.gone(*pids.values())
    assert [cast.said(name)[-1][:2] for name in ("unmarked", "undecided")] == [
        ["raised", "BoundaryError"],
        ["raised", "SessionLostError"],
    ]
    # Only what may repeat was sent twice.
    assert cast.effects == {"unmarked": 1, "undecided": 1, "marked": 1, "read": 2, "repeated": 2}
    # Nobody ran it after the frozen one, so its late result is the evidence that was missing.
    assert cast.world.state("marked") == "completed"
    for name in ("read", "repeated"):
        notes = [why for what, why in cast.world.history(name) if what == "note"]
        assert notes == [f"refused-completed-{fences[name]}"]
        assert cast.world.row(name)["fence"] != fences[name]
    cast.world.idle()


async def test_a_holder_past_its_trusted_time_does_not_begin(cast: Cast) -> None:
    """Its portal stands still, so it renews nothing; and its own loop is late to see that it was granted."""
    # Nobody takes it for dead meanwhile: only its own look keeps it from beginning.
    kept, ran = cast.world.ledger(session=SessionSettings(**TIMES | {"grace_s": 60.0})), Runs()

    async def body(order: str) -> str:
        ran.note()
        return order

    act = async_tool(kept, body)
    await act("warm", request_id="r0")
    loop = kept.engine._portal.loop  # pyright: ignore[reportPrivateUsage]
    call = asyncio.create_task(act("A", request_id="r1"))
    await asyncio.sleep(0)
    while cast.world.state("r1") != "attempting":
        pass
    loop.call_soon_threadsafe(time.sleep, LAPSED_S)
    time.sleep(TIMES["ttl_s"])  # noqa: ASYNC251 - the loop is late
    with pytest.raises(SessionLostError):
        await call
    assert ran.count == 1
    await asyncio.to_thread(cast.world.idle)
    assert cast.world.state("r1") == "ready"


async def test_a_body_that_blocks_its_loop_stops_no_renewal(cast: Cast) -> None:
    pid = cast.start("slow", "blocks", seconds=1.2 * LAPSED_S)
    await until(lambda: cast.world.state("slow") == "attempting")
    session = cast.world.session_of("slow")
    assert await asyncio.to_thread(cast.again, "slow", "non_idempotent_mutate", explicit=False) == "slow"
    await cast.gone(pid)
    assert cast.effects == {"slow": 1}
    assert (cast.world.row("slow")["deaths"], cast.world.row("slow")["attempts"]) == ("0", "1")
    assert session


# ── interrupted, ended, forked ───────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("explicit", [False, True])
async def test_interrupts_at_any_step_leave_nothing_held_and_no_effect_twice(cast: Cast, *, explicit: bool) -> None:
    gate, rng = cast.gate(), random.Random(SEED)
    pid = cast.start("many", "interrupted", explicit=explicit, wait="done", gate=gate.path, seconds=1.5)
    await cast.at("many")
    while len(cast.said("many")) < 2 and runs(pid):
        os.kill(pid, signal.SIGINT)
        await asyncio.sleep(rng.uniform(0.0005, 0.006))
    await until(lambda: len(cast.said("many")) == 3)
    _, hits, calls, last = cast.said("many")[1]
    assert hits > 50
    assert last == "last"
    assert calls > hits
    # It lives, and its session with it: what is held is held for something.
    cast.world.idle()
    assert runs(pid)
    assert max(cast.effects.values()) == 1
    for key in cast.effects:
        assert cast.world.state(key) in {"completed", "unknown"}, key
    gate.open()
    await cast.gone(pid)


async def test_a_program_that_ends_over_its_calls_leaves_their_rows_to_run_out(cast: Cast) -> None:
    gate = cast.gate()
    pid = cast.start("ending", "exits", wait="began", gate=gate.path)
    await cast.gone(pid)
    await asyncio.sleep(LAPSED_S)
    for key in ("ending", "ending-2"):
        answer = await asyncio.to_thread(cast.again, key, "non_idempotent_mutate", explicit=False)
        assert isinstance(answer, LedgerHardBlockError)
        assert cast.world.state(key) == "unknown"
    assert cast.effects == {}
    cast.world.idle()


async def test_a_fork_gets_a_session_of_its_own_and_harms_its_parent_in_nothing(cast: Cast) -> None:
    pid = cast.start("fork", "forks")
    await cast.gone(pid)
    said = {line[0]: line[1:] for line in cast.said("fork")}
    assert said["child"] == ["child-1", "parent-1"]
    # What its parent claimed is the parent's to settle.
    assert said["refused"] == ["LedgerError"]
    assert cast.world.state("manual") == "completed"
    assert said["parent"][:2] == [0, "parent-30"]
    assert set(cast.effects.values()) == {1}
    assert len(cast.effects) == 31
    # Each closed its own session, and nobody's was lost.
    assert cast.world.direct.zcard(cast.world.keys.sessions()) == 0
    log = (cast.place / "log").read_text(encoding="utf-8")
    assert "Traceback" not in log, log


async def test_what_a_fork_drops_its_parent_still_hears(cast: Cast) -> None:
    await cast.gone(cast.start("polls", "polls"))
    assert cast.said("polls") == [["heard", 1], ["heard", 0]]


async def test_a_copy_of_a_body_settles_nothing(cast: Cast) -> None:
    pid = cast.start("copied", "forks_in_body")
    await cast.gone(pid)
    await until(lambda: len(cast.said("copied")) == 2)
    answers = sorted(line[:2] for line in cast.said("copied"))
    assert answers == [["raised", "OutcomeUnrecordedError"], ["returned", "parent copied"]]
    assert (cast.effects, cast.world.state("copied")) == ({"copied": 1}, "completed")
