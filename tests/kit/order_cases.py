"""Calls of what callers and operators ask of jobs, and of what limits and time do to them, for each reply word."""

from __future__ import annotations

from kit.asking import cancelling, pause, pausing, requeue, requeueing, strike, striking, telling
from kit.ledger import MC, Ledger, ended
from kit.operator_cases import aliased
from kit.script_cases import AUTO, IDEM, OWN, READ, case
from mycelium.leases.scripts import Command
from mycelium.ledger.facets import facets_of
from mycelium.ledger.limits import Concurrency, Rate
from mycelium.ledger.line import Priority
from mycelium.ledger.sweep import sweep_script

ONE = (Concurrency("customer:{value}", 1),)
SLOW = (Rate("stripe", 1, per_s=10),)


def doubtful(ledger: Ledger) -> str:
    """Ready, and it may have had its effect; gives the fence of the attempt that may have."""
    fence = ledger.marked(IDEM)
    assert ledger.settle(ended("r1", fence, "retry", boundary=MC)) == ["settled"]
    return fence


def dead(ledger: Ledger) -> str:
    """Dead of its failures; gives the fence of the last attempt."""
    fence = ledger.granted(READ)
    ledger.edit("HSET", ledger.keys.row("r1"), "max_attempts", "1")
    assert ledger.settle(ended("r1", fence, "retry")) == ["settled"]
    assert ledger.state("r1") == "dead"
    return fence


# ── submit, with all that can be said ─────────────────────────────────────────────────────────────────────────────────


@case("ledger", "ok created created")
def _submit__with_all_that_can_be_said(ledger: Ledger) -> Command:
    return ledger.submitting(
        AUTO,
        *("r1", "r2"),
        queue="mail",
        priority=Priority.LOW,
        tenant="acme",
        limits=(*ONE, *SLOW),
        facets=facets_of({"value": 1}),
        start_by_s=5,
        deadline_s=9,
    )


@case("ledger", "ok late", refusal=True)
def _submit__after_its_deadline(ledger: Ledger) -> Command:
    return ledger.submitting(AUTO, "r1", deadline_s=0)


@case("ledger", "ok late", refusal=True)
def _submit__due_after_it_had_to_start(ledger: Ledger) -> Command:
    return ledger.submitting(AUTO, "r1", delay_s=9, start_by_s=9)


@case("ledger", "ok joined")
def _submit__again_after_its_deadline(ledger: Ledger) -> Command:
    ledger.submit(AUTO, "r1", deadline_s=1)
    ledger.now_ms += 2_000
    return ledger.submitting(AUTO, "r1", deadline_s=0, client="c2")


# ── turn: the other ways to end, and what does not run ────────────────────────────────────────────────────────────────


@case("ledger", "ok settled")
def _turn__timed_out(ledger: Ledger) -> Command:
    return ledger.turning(0, ended("r1", ledger.granted(READ), "timed_out", delay_ms=100))


@case("ledger", "ok settled")
def _turn__timed_out_once_too_often(ledger: Ledger) -> Command:
    fence = ledger.granted(READ)
    ledger.edit("HSET", ledger.keys.row("r1"), "max_timeouts", "1")
    return ledger.turning(0, ended("r1", fence, "timed_out"))


@case("ledger", "ok settled")
def _turn__not_done(ledger: Ledger) -> Command:
    return ledger.turning(0, ended("r1", ledger.marked(AUTO), "not_done", delay_ms=100))


@case("ledger", "ok settled settled")
def _turn__cancelled(ledger: Ledger) -> Command:
    first, second = ledger.marked(AUTO), ledger.granted(OWN, "r2")
    for request_id in ("r1", "r2"):
        ledger.run(cancelling(ledger, request_id))
    return ledger.turning(0, ended("r1", first, "cancelled", boundary=MC), ended("r2", second, "cancelled"))


@case("ledger", "ok settled")
def _turn__given_back_after_a_cancel(ledger: Ledger) -> Command:
    fence = ledger.granted(AUTO)
    ledger.run(cancelling(ledger))
    return ledger.turning(1, ended("r1", fence, "released"))


@case("ledger", "ok settled")
def _turn__in_doubt_after_a_cancel(ledger: Ledger) -> Command:
    fence = ledger.marked(IDEM)
    ledger.run(cancelling(ledger))
    return ledger.turning(1, ended("r1", fence, "retry", boundary=MC))


@case("ledger", "ok settled")
def _turn__wakes_who_waits_for_its_place(ledger: Ledger) -> Command:
    ledger.submit(AUTO, "r1", "r2", limits=ONE)
    fence = ledger.claim(2)[0].fence
    return ledger.turning(1, ended("r1", fence, "failed"))


@case("ledger", "ok")
def _turn__of_rows_under_gates(ledger: Ledger) -> Command:
    """Two of one key, two of one rate, one struck, and one that is past its deadline."""
    ledger.submit(AUTO, "r1", "r2", limits=ONE)
    ledger.submit(OWN, "r3", "r4", limits=SLOW)
    ledger.submit(IDEM, "r5", facets=facets_of({"value": 1}))
    strike(ledger, IDEM, "value", 1)
    ledger.submit(READ, "r6", deadline_s=1)
    ledger.now_ms += 1_000
    return ledger.turning(10)


# ── cancel ───────────────────────────────────────────────────────────────────────────────────────────────────────────


@case("ledger", "cancelled")
def _cancel__ready(ledger: Ledger) -> Command:
    ledger.submit(AUTO, "r1")
    return cancelling(ledger)


@case("ledger", "cancelled")
def _cancel__delayed(ledger: Ledger) -> Command:
    ledger.submit(AUTO, "r1", delay_s=5, deadline_s=60)
    return cancelling(ledger)


@case("ledger", "cancelled")
def _cancel__under_a_gate(ledger: Ledger) -> Command:
    ledger.submit(AUTO, "r2", "r1", limits=ONE)
    ledger.claim(2)
    assert "gate" in ledger.row("r1")
    return cancelling(ledger)


@case("ledger", "cancelled")
def _cancel__under_another_id(ledger: Ledger) -> Command:
    ledger.submit(AUTO, "r1")
    aliased(ledger, "r2")
    return cancelling(ledger, "r2")


@case("ledger", "asked")
def _cancel__claimed(ledger: Ledger) -> Command:
    ledger.granted(AUTO)
    return cancelling(ledger)


@case("ledger", "asked")
def _cancel__attempting(ledger: Ledger) -> Command:
    ledger.marked(AUTO)
    return cancelling(ledger)


@case("ledger", "unknown")
def _cancel__unknown(ledger: Ledger) -> Command:
    ledger.unknown()
    return cancelling(ledger)


@case("ledger", "unknown")
def _cancel__ready_and_in_doubt(ledger: Ledger) -> Command:
    doubtful(ledger)
    return cancelling(ledger)


@case("ledger", "ended", refusal=True)
def _cancel__ended(ledger: Ledger) -> Command:
    ledger.settle(ended("r1", ledger.marked(AUTO), "completed"))
    return cancelling(ledger)


@case("ledger", "ended", refusal=True)
def _cancel__cancelled_by_another(ledger: Ledger) -> Command:
    ledger.submit(AUTO, "r1")
    ledger.run(cancelling(ledger))
    return cancelling(ledger)


@case("ledger", "missing", refusal=True)
def _cancel__missing(ledger: Ledger) -> Command:
    return cancelling(ledger, "r9")


@case("ledger", "corrupt", refusal=True)
def _cancel__corrupt(ledger: Ledger) -> Command:
    ledger.unknown()
    ledger.edit("HDEL", ledger.keys.row("r1"), "class")
    return cancelling(ledger)


# ── requeue ──────────────────────────────────────────────────────────────────────────────────────────────────────────


@case("ledger", "requeued")
def _requeue__dead(ledger: Ledger) -> Command:
    dead(ledger)
    return requeueing(ledger)


@case("ledger", "requeued")
def _requeue__failed(ledger: Ledger) -> Command:
    ledger.settle(ended("r1", ledger.marked(AUTO), "failed"))
    return requeueing(ledger)


@case("ledger", "requeued")
def _requeue__past_its_deadline(ledger: Ledger) -> Command:
    ledger.submit(AUTO, "r1", deadline_s=1, limits=ONE)
    ledger.now_ms += 1_000
    ledger.run(sweep_script(page=10))
    assert ledger.state("r1") == "cancelled"
    return requeueing(ledger)


@case("ledger", "requeued")
def _requeue__under_another_id(ledger: Ledger) -> Command:
    dead(ledger)
    aliased(ledger, "r2")
    return requeueing(ledger, "r2")


@case("ledger", "open", refusal=True)
def _requeue__held(ledger: Ledger) -> Command:
    ledger.marked(AUTO)
    return requeueing(ledger)


@case("ledger", "open", refusal=True)
def _requeue__unknown(ledger: Ledger) -> Command:
    ledger.unknown()
    return requeueing(ledger)


@case("ledger", "open", refusal=True)
def _requeue__by_another_before(ledger: Ledger) -> Command:
    dead(ledger)
    requeue(ledger)
    return requeueing(ledger)


@case("ledger", "completed", refusal=True)
def _requeue__completed(ledger: Ledger) -> Command:
    ledger.settle(ended("r1", ledger.marked(AUTO), "completed"))
    return requeueing(ledger)


@case("ledger", "forgotten", refusal=True)
def _requeue__forgotten(ledger: Ledger) -> Command:
    dead(ledger)
    ledger.edit("DEL", ledger.keys.args("r1"))
    return requeueing(ledger)


@case("ledger", "missing", refusal=True)
def _requeue__missing(ledger: Ledger) -> Command:
    return requeueing(ledger, "r9")


@case("ledger", "corrupt", refusal=True)
def _requeue__corrupt(ledger: Ledger) -> Command:
    dead(ledger)
    ledger.edit("HDEL", ledger.keys.row("r1"), "class")
    return requeueing(ledger)


# ── progress ─────────────────────────────────────────────────────────────────────────────────────────────────────────


@case("ledger", "ok told stale stale")
def _progress__told_by_its_holder_only(ledger: Ledger) -> Command:
    first, second = ledger.marked(AUTO), ledger.granted(OWN, "r2")
    ledger.settle(ended("r2", second, "failed"))
    return telling(("r1", first), ("r2", second), ("r9", "1"))


@case("ledger", "ok stale", refusal=True)
def _progress__of_another_session(ledger: Ledger) -> Command:
    ledger.open("s2")
    return telling(("r1", ledger.marked(AUTO)), session="s2")


@case("ledger", "ok stale", refusal=True)
def _progress__of_what_is_no_row(ledger: Ledger) -> Command:
    ledger.edit("SET", ledger.keys.row("r1"), "x")
    return telling(("r1", "1"))


# ── pause and strike: what is asked is how things stand, so the second answer tells that it was so already ────────────


@case("ledger", "paused", second="unchanged")
def _pause__a_queue(ledger: Ledger) -> Command:
    return pausing("queue:default")


@case("ledger", "resumed", second="unchanged")
def _pause__no_more(ledger: Ledger) -> Command:
    pause(ledger, f"tool:{AUTO}")
    return pausing(f"tool:{AUTO}", on=False)


@case("ledger", "unchanged", refusal=True)
def _pause__twice(ledger: Ledger) -> Command:
    pause(ledger, "queue:default")
    return pausing("queue:default")


@case("ledger", "struck", second="unchanged")
def _strike__a_value(ledger: Ledger) -> Command:
    return striking(AUTO, "value", 1)


@case("ledger", "lifted", second="unchanged")
def _strike__no_more(ledger: Ledger) -> Command:
    ledger.submit(AUTO, "r1", facets=facets_of({"value": 1}))
    strike(ledger, AUTO, "value", 1)
    ledger.claim()
    assert "gate" in ledger.row("r1")
    return striking(AUTO, "value", 1, on=False)


@case("ledger", "unchanged", refusal=True)
def _strike__nothing(ledger: Ledger) -> Command:
    return striking(AUTO, "value", 1, on=False)


# ── sweep ────────────────────────────────────────────────────────────────────────────────────────────────────────────


@case("ledger", "ok", second="ok")
def _sweep__ends_what_is_past_its_time(ledger: Ledger) -> Command:
    ledger.submit(AUTO, "r1", deadline_s=1)
    ledger.submit(OWN, "r2", delay_s=0.5, start_by_s=1)
    ledger.submit(READ, "r3", deadline_s=1)
    ledger.claim(known=[READ])
    ledger.now_ms += 1_000
    return sweep_script(page=10)
