"""The actor of a tool host, with a real process under it: what cannot be sent to it, and how it tells of ends."""

from __future__ import annotations

import logging
import os
import random
import signal
from pathlib import Path

import pytest

from kit.host_stage import attempt_of, hosts_on_stage
from kit.hosting import TESTS, gate_in, soon
from mycelium.actors.hosts.frames import FRAME_LIMIT_BYTES, Outcome
from mycelium.actors.worker.messages import (
    AskAdapter,
    CancelRun,
    Died,
    HostAnswers,
    HostBusy,
    HostGone,
    HostReady,
    NotTaken,
    Progressed,
    Ran,
)
from mycelium.actors.worker.settling import settlement_of
from mycelium.ledger.states import Boundary, EffectClass, Settle
from mycelium.ledger.verdict import Doubt
from mycelium.reconcilers.verdict import VerdictWord

HUGE = b'{"order":"' + b"x" * FRAME_LIMIT_BYTES + b'"}'
AIRLINE = "mycelium.examples.airline.tools"


@pytest.fixture(autouse=True)
def _tools_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(TESTS), *filter(None, [os.environ.get("PYTHONPATH")])]))


async def test_arguments_above_the_frame_limit_fail_and_the_slot_is_free_again(url: str, namespace: str) -> None:
    async with hosts_on_stage(url, namespace, app=AIRLINE, slots=1) as stage:
        await stage.hear(HostReady)
        huge = stage.start(attempt_of("look_up", "1", args=HUGE))
        small = stage.start(attempt_of("look_up", "2", args={"order": "o"}))
        told, next_one = await stage.hear(Ran), await stage.hear(Ran)
    assert (told.attempt, next_one.attempt) == (huge, small)
    assert (told.done.outcome, told.done.boundary) == (Outcome.NOT_EXECUTED, Boundary.NOT_CROSSED)
    settlement = settlement_of(huge, told.done, random.Random(7))
    assert (settlement.verb, settlement.error) == (Settle.FAILED, "PayloadTooLarge")


async def test_a_question_above_the_frame_limit_stays_unknown(url: str, namespace: str) -> None:
    async with hosts_on_stage(url, namespace, app=AIRLINE) as stage:
        await stage.hear(HostReady)
        doubt = Doubt("r", "1", "look_up", EffectClass.READ, "e", 1, "", 1000, True, 0, 1000, "", HUGE)
        question = AskAdapter(doubt, 5.0)
        stage.tell("host-1", question)
        verdict = await soon(question.answer)
        assert stage.turns.empty()  # the host has not gone
    assert verdict.word is VerdictWord.UNKNOWN


async def test_a_run_that_is_past_its_time_is_told_apart_from_those_that_its_host_took_with_it(
    url: str, namespace: str
) -> None:
    async with hosts_on_stage(url, namespace, overdue_s=0.1) as stage:
        await stage.hear(HostReady)
        late = stage.start(attempt_of("hang_in_thread", "1", timeout_s=0.1))
        beside = stage.start(attempt_of("hang", "2"))
        await stage.hear(HostGone)
        ran, died = await stage.hear(Ran), await stage.hear(Died)
        await stage.hear(HostReady)
    assert (ran.attempt, ran.done.outcome, ran.done.over, ran.done.fence) == (late, Outcome.TIMEOUT, True, "1")
    assert (died.attempt, died.why) == (beside, "HostOverdue")


async def test_the_death_of_a_process_is_told_in_its_turn_and_another_is_started(url: str, namespace: str) -> None:
    async with hosts_on_stage(url, namespace) as stage:
        await stage.hear(HostReady)
        held = stage.start(attempt_of("hang", "1"))
        os.kill(await stage.pid_in(), signal.SIGKILL)
        await stage.hear(HostGone)
        died = await stage.hear(Died)
        ready = await stage.hear(HostReady)
        vitals = await stage.vitals("host-1")
    assert (died.attempt, died.why, ready.slots) == (held, "HostCrashed", 3)
    assert (vitals.starts, vitals.ends, vitals.running) == (2, {"crashed": 1}, 0)


async def test_a_busy_host_gets_nothing_and_its_silence_is_told(
    url: str, namespace: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    gate = gate_in(tmp_path)
    async with hosts_on_stage(url, namespace) as stage:
        await stage.hear(HostReady)
        blocking = stage.start(attempt_of("block_the_loop", "1", args={"gate": str(gate)}))
        assert (await stage.hear(HostBusy)).host == "host-1"
        assert (await stage.vitals("host-1")).lag_s > 0
        refused = stage.start(attempt_of("hang", "2"))
        assert (await stage.hear(NotTaken)).attempt is refused
        gate.unlink()
        told = [await soon(stage.turns.get()) for _ in range(2)]
        assert {type(each) for each in told} == {HostAnswers, Ran}
        assert [each.attempt for each in told if isinstance(each, Ran)] == [blocking]
    lines = [record.getMessage() for record in caplog.records if record.name == "mycelium.actors.worker.host"]
    assert ["it runs block_the_loop" in line for line in lines] == [True, False]
    assert str(gate) not in "".join(lines)


async def test_progress_is_told_to_whoever_keeps_it(url: str, namespace: str) -> None:
    async with hosts_on_stage(url, namespace) as stage:
        await stage.hear(HostReady)
        counting = stage.start(attempt_of("count_up", "1", args={"to": 1, "note": "half"}))
        await stage.hear(Ran)
        assert await soon(stage.progress.get()) == Progressed(counting, 1.0, 1.0, "half")


async def test_a_thread_that_is_cancelled_is_told_when_it_ends(url: str, namespace: str, tmp_path: Path) -> None:
    gate = gate_in(tmp_path)
    async with hosts_on_stage(url, namespace) as stage:
        await stage.hear(HostReady)
        held = stage.start(attempt_of("wait_in_thread", "1", args={"gate": str(gate)}))
        stage.tell("host-1", CancelRun(held))
        await stage.pid_in()
        assert stage.turns.empty()
        gate.unlink()
        assert (await stage.hear(Ran)).attempt is held
