"""The verbs as the floors below call them: typed arguments in, typed answers out, on a real store."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import timedelta

import pytest
from redis.asyncio import Redis

from kit.ledger import NOON_MS, TTL_MS
from mycelium.leases.errors import EpochChangedError, IdentityConflictError, JobNotFoundError, ScriptError
from mycelium.leases.session import open_session
from mycelium.leases.store import Store, StoreSettings, open_store
from mycelium.ledger import sweep
from mycelium.ledger.about import About
from mycelium.ledger.binding import Binding
from mycelium.ledger.canon import canonical
from mycelium.ledger.identity import identify
from mycelium.ledger.instant import instant
from mycelium.ledger.mark import Mark, MarkReply, mark
from mycelium.ledger.record import Failure, read_body, read_record
from mycelium.ledger.states import Boundary, EffectClass, Settle, Settled, State
from mycelium.ledger.submit import BATCH, Intent, Retention, Submitted, submit
from mycelium.ledger.sweep import SweepReport
from mycelium.ledger.turn import Grant, Known, Settlement, TurnReply, TurnReport, take_turn
from mycelium.ledger.verdict import Said, VerdictReply, due, record_if_unknown

CHARGE = Binding(effect_class=EffectClass.KEYED_MUTATE, key_param="key", key_window_s=60)


@pytest.fixture
async def store(url: str, namespace: str) -> AsyncIterator[Store]:
    store = await open_store(url, namespace=namespace, settings=StoreSettings(now_ms=NOON_MS))
    await store.calls.run(
        open_session(session="s1", epoch=store.epoch, boot="b", ttl_ms=TTL_MS, grace_ms=0, name="w", info="{}")
    )
    yield store
    await store.aclose()


def an_intent(request_id: str = "r1", amount: int = 1, delay_s: float = 0.0) -> Intent:
    identity = identify(
        "charge", CHARGE.effect_class, canonical({"amount": amount}), request_id=request_id, namespace="n"
    )
    return Intent(
        identity=identity,
        tool="charge",
        binding=CHARGE,
        about=About(run_id="run", step=3),
        due=instant("delay", delay_s),
    )


async def turn(store: Store, *ended: Settlement, slots: int = 0, op: str = "1") -> TurnReport:
    return await take_turn(
        store.calls,
        session_id="s1",
        epoch=store.epoch,
        lane=0,
        op=op,
        slots=slots,
        ended=ended,
        known={"charge": Known(CHARGE)},
    )


async def granted(store: Store) -> Grant:
    await submit(store.calls, [an_intent()])
    (grant,) = (await turn(store, slots=1)).grants
    return grant


async def test_one_transition_from_submit_to_result(store: Store) -> None:
    assert await submit(store.calls, [an_intent()], client_id="c") == [Submitted("r1", True, State.READY)]
    report = await turn(store, slots=2)
    (grant,) = report.grants
    assert (report.standing, grant.request_id, grant.attempt, grant.age_ms) == (TurnReply.OK, "r1", 1, 0)
    assert (grant.effect_class, grant.effect_id) == (CHARGE.effect_class, an_intent().identity.effect_id)
    assert grant.args == b'{"amount":1}'
    marks = [Mark("r1", grant.fence, Boundary.MAYBE_CROSSED, "op-1"), Mark("r9", grant.fence, Boundary.CROSSED)]
    told = await mark(store.calls, marks, session_id="s1", epoch=store.epoch)
    assert told == [MarkReply.MARKED, MarkReply.MISSING]
    done = Settlement(request_id="r1", fence=grant.fence, verb=Settle.COMPLETED, body=b"\xff\x00")
    assert (await turn(store, done, op="2")).settled == (Settled.SETTLED,)
    record = await read_record(store, "r1")
    assert (record.state, record.boundary, record.ref) == (State.COMPLETED, Boundary.CROSSED, "op-1")
    assert (record.about.run_id, record.about.step, record.attempts, record.session) == ("run", 3, 1, "")
    assert [entry.number for entry in record.history] == [1, 2, 3, 4]
    assert [entry.what for entry in record.history] == ["ready", "claimed", "attempting", "completed"]
    assert record.changed_ms == NOON_MS
    assert await read_body(store, "r1") == b"\xff\x00"


async def test_more_than_a_batch_is_taken_in_order(store: Store) -> None:
    taken = await submit(store.calls, [an_intent(f"r{number}") for number in range(BATCH + 5)])
    assert [one.request_id for one in taken if isinstance(one, Submitted)] == [f"r{n}" for n in range(BATCH + 5)]


async def test_a_conflict_and_a_corrupt_row_are_entries_beside_what_was_taken(store: Store) -> None:
    async with Redis.from_url(store.url, protocol=2) as client:
        await client.set(store.keys.row("bad"), "x")
    await submit(store.calls, [an_intent()])
    conflict, corrupt, created, joined = await submit(
        store.calls, [an_intent(amount=2), an_intent("bad"), an_intent("r2"), an_intent()]
    )
    assert isinstance(conflict, IdentityConflictError)
    assert conflict.state == "ready"
    assert isinstance(corrupt, ScriptError)
    assert (created, joined) == (Submitted("r2", True, State.READY), Submitted("r1", False, State.READY))


async def test_nothing_is_submitted_to_a_data_set_that_was_emptied(store: Store) -> None:
    async with Redis.from_url(store.url) as client:
        await client.delete(store.keys.meta())
    with pytest.raises(EpochChangedError, match="emptied"):
        await submit(store.calls, [an_intent()])


async def test_a_lost_session_and_another_epoch_are_the_word_of_each_mark(store: Store) -> None:
    grant = await granted(store)
    marks = [Mark("r1", grant.fence, Boundary.MAYBE_CROSSED)] * 2
    told = await mark(store.calls, marks, session_id="s1", epoch=store.epoch + 1)
    assert told == [MarkReply.EPOCH] * 2
    store.calls.now_ms += TTL_MS
    assert await mark(store.calls, marks, session_id="s1", epoch=store.epoch) == [MarkReply.LOST] * 2
    assert (await turn(store, slots=1, op="2")).standing is TurnReply.LOST


async def test_a_sweep_takes_what_lapsed_and_promotes_what_is_due(store: Store) -> None:
    await granted(store)
    await submit(store.calls, [an_intent(f"later{number}", delay_s=1) for number in range(3)])
    assert await sweep.run_once(store) == SweepReport()
    store.calls.now_ms += TTL_MS
    assert await sweep.run_once(store) == SweepReport(sessions=1, rows=1, promoted=3)
    assert await sweep.run_once(store) == SweepReport()


async def test_a_doubt_is_handed_out_once_and_settled_by_what_was_asked_about(store: Store) -> None:
    grant = await granted(store)
    marks = [Mark("r1", grant.fence, Boundary.MAYBE_CROSSED, "op-1")]
    await mark(store.calls, marks, session_id="s1", epoch=store.epoch)
    failure = Failure("TimeoutError", "no answer")
    lost = Settlement(
        request_id="r1", fence=grant.fence, verb=Settle.UNKNOWN, body=failure.body(), error="TimeoutError"
    )
    await turn(store, lost, op="2")
    store.calls.now_ms += 1000
    (doubt,) = await due(store.calls, ["charge", "other"], page=5, put_off_s=10)
    assert await due(store.calls, ["charge"], page=5, put_off_s=10) == []
    assert (doubt.request_id, doubt.fence, doubt.ref, doubt.attempt) == ("r1", grant.fence, "op-1", 1)
    assert (doubt.unknown_for_ms, doubt.age_ms, doubt.ended, doubt.asks) == (1000, 1000, True, 0)
    assert (doubt.effect_id, doubt.args) == (grant.effect_id, grant.args)
    assert Failure.read(await read_body(store, "r1") or b"", "") == failure
    for said, reply in (
        (Said.UNKNOWN, VerdictReply.SETTLED),
        (Said.RESEND, VerdictReply.WINDOW),
        (Said.COMPLETED, VerdictReply.SETTLED),
        (Said.NOT_EXECUTED, VerdictReply.REFUSED),
    ):
        told = await record_if_unknown(store.calls, doubt, said, by="me", evidence=str(said), body=b"7", ask_again_s=1)
        assert told is reply
    record = await read_record(store, "r1")
    assert (record.state, record.evidence, record.said) == (State.COMPLETED, "completed", "")
    assert await read_body(store, "r1") == b"7"


async def test_a_row_that_nobody_wrote_or_that_is_not_ours_is_told_apart(store: Store) -> None:
    with pytest.raises(JobNotFoundError, match="does not prove"):
        await read_record(store, "r1")
    async with Redis.from_url(store.url) as client:
        await client.hset(store.keys.row("r1"), "state", "ready")
    with pytest.raises(ScriptError, match="corrupt"):
        await read_record(store, "r1")


def test_a_failure_is_read_from_whatever_is_there() -> None:
    assert Failure.read(b"", "Boom") == Failure("Boom", "")
    assert Failure.read(b"not json", "Boom") == Failure("Boom", "")
    assert Failure.read(b"[1]", "Boom") == Failure("Boom", "")
    assert Failure.read(b'{"error":"A","detail":"d"}', "Boom") == Failure("A", "d")


def test_durations_travel_in_milliseconds() -> None:
    intent = an_intent(delay_s=1.5)
    assert (intent.item().due, intent.item().keep) == ("+1500", 7 * 86_400_000)
    kept = Retention(row=timedelta(hours=1), result=timedelta(milliseconds=1))
    assert (kept.row, kept.result) == (timedelta(hours=1), timedelta(milliseconds=1))
    settlement = Settlement(request_id="r", fence="1", verb=Settle.RETRY, error="E" * 99, delay_s=-1)
    assert (settlement.item().delay_ms, len(settlement.item().error)) == (0, 64)
