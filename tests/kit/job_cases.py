"""Calls of what a queue needs, submit, turn and mark, for each of their reply words."""

from __future__ import annotations

from kit.asking import cancel
from kit.claims import claimed, intent
from kit.ledger import CR, KINDS, MC, TTL_MS, Ledger, ended
from kit.script_cases import AUTO, IDEM, OWN, READ, case
from mycelium.leases.scripts import Command
from mycelium.ledger.mark import MarkItem
from mycelium.ledger.submit import submit_script

# ── submit ────────────────────────────────────────────────────────────────────────────────────────────────────────────


@case("ledger", "ok created created created joined")
def _submit__created(ledger: Ledger) -> Command:
    return ledger.submitting(AUTO, "r1", "r2", "r3", "r1")


@case("ledger", "ok created")
def _submit__delayed(ledger: Ledger) -> Command:
    return ledger.submitting(AUTO, "r1", delay_s=5)


@case("ledger", "ok joined")
def _submit__joined(ledger: Ledger) -> Command:
    ledger.submit(AUTO, "r1")
    return ledger.submitting(AUTO, "r1", client="c2")


@case("ledger", "ok conflict", refusal=True)
def _submit__conflict(ledger: Ledger) -> Command:
    ledger.submit(AUTO, "r1")
    return ledger.submitting(AUTO, "r1", value=2)


@case("ledger", "ok corrupt", refusal=True)
def _submit__corrupt(ledger: Ledger) -> Command:
    ledger.edit("HSET", ledger.keys.row("r1"), "state", "ready")
    return ledger.submitting(AUTO, "r1")


@case("ledger", "ok corrupt", refusal=True)
def _submit__another_type(ledger: Ledger) -> Command:
    ledger.edit("SET", ledger.keys.row("r1"), "x")
    return ledger.submitting(AUTO, "r1")


@case("ledger", "ok drift", refusal=True)
def _submit__drift(ledger: Ledger) -> Command:
    ledger.run(submit_script(op=ledger.op(), client="", job=[intent(AUTO, None, dispatch_id="d1").item()]))
    return submit_script(op=ledger.op(), client="", job=[intent(AUTO, None, value=2, dispatch_id="d1").item()])


@case("ledger", "ok joined")
def _submit__another_id(ledger: Ledger) -> Command:
    ledger.run(submit_script(op=ledger.op(), client="", job=[intent(AUTO, "r1", dispatch_id="d1").item()]))
    return submit_script(op=ledger.op(), client="", job=[intent(AUTO, "r2", dispatch_id="d1").item()])


@case("ledger", "ok joined")
def _submit__what_was_claimed_in_process(ledger: Ledger) -> Command:
    ledger.settle(ended("r1", claimed(ledger, AUTO).fence, "released"))
    return ledger.submitting(AUTO, "r1")


@case("ledger", "epoch", refusal=True)
def _submit__epoch(ledger: Ledger) -> Command:
    ledger.edit("DEL", ledger.keys.meta())
    return ledger.submitting(AUTO, "r1")


# ── turn ──────────────────────────────────────────────────────────────────────────────────────────────────────────────


@case("ledger", "ok")
def _turn__claims(ledger: Ledger) -> Command:
    for tool in KINDS:
        ledger.submit(tool, f"{tool}-1", f"{tool}-2")
    return ledger.turning(100)


@case("ledger", "ok")
def _turn__finds_nothing(ledger: Ledger) -> Command:
    return ledger.turning(100)


@case("ledger", "ok settled")
def _turn__completes_and_claims(ledger: Ledger) -> Command:
    fence = ledger.marked(AUTO)
    ledger.submit(AUTO, "r2")
    return ledger.turning(3, ended("r1", fence, "completed"))


@case("ledger", "ok settled settled")
def _turn__claims_what_it_gave_back(ledger: Ledger) -> Command:
    first, second = ledger.granted(AUTO), ledger.marked(IDEM, "r2")
    return ledger.turning(3, ended("r1", first, "released"), ended("r2", second, "retry", boundary=MC))


@case("ledger", "ok settled")
def _turn__settled_unknown(ledger: Ledger) -> Command:
    return ledger.turning(0, ended("r1", ledger.marked(AUTO), "unknown", boundary=MC, error="TimeoutError"))


@case("ledger", "ok settled")
def _turn__settled_retry(ledger: Ledger) -> Command:
    return ledger.turning(0, ended("r1", ledger.granted(READ), "retry", delay_ms=100))


@case("ledger", "ok settled")
def _turn__settled_died(ledger: Ledger) -> Command:
    return ledger.turning(0, ended("r1", ledger.marked(AUTO), "died", boundary=MC))


@case("ledger", "ok settled")
def _turn__settled_failed(ledger: Ledger) -> Command:
    return ledger.turning(0, ended("r1", ledger.marked(AUTO), "failed"))


@case("ledger", "ok late", second="ok settled")  # what was accepted late is by then recorded
def _turn__late(ledger: Ledger) -> Command:
    return ledger.turning(0, ended("r1", ledger.unknown(), "completed", boundary=CR))


@case("ledger", "ok stale", refusal=True)
def _turn__older_fence(ledger: Ledger) -> Command:
    first = ledger.granted(AUTO)
    ledger.settle(ended("r1", first, "released"))
    ledger.claim()
    return ledger.turning(0, ended("r1", first, "completed"))


@case("ledger", "ok stale", refusal=True)
def _turn__undecided(ledger: Ledger) -> Command:
    return ledger.turning(0, ended("r1", ledger.granted(AUTO), "completed"))


@case("ledger", "ok stale", refusal=True)
def _turn__another_session(ledger: Ledger) -> Command:
    ledger.open("s2")
    return ledger.turning(0, ended("r1", ledger.marked(AUTO), "completed"), session="s2")


@case("ledger", "ok missing", refusal=True)
def _turn__missing(ledger: Ledger) -> Command:
    return ledger.turning(0, ended("r9", "1", "completed"))


@case("ledger", "ok corrupt", refusal=True)
def _turn__corrupt(ledger: Ledger) -> Command:
    fence = ledger.granted(AUTO)
    ledger.edit("HSET", ledger.keys.row("r1"), "attempts", "many")
    ledger.edit("DEL", ledger.keys.held("s1"))
    return ledger.turning(0, ended("r1", fence, "completed"))


@case("ledger", "lost", refusal=True)
def _turn__lost(ledger: Ledger) -> Command:
    ledger.submit(AUTO, "r1")
    ledger.now_ms += TTL_MS
    return ledger.turning(1)


@case("ledger", "lost settled")
def _turn__lost_but_settles(ledger: Ledger) -> Command:
    fence = ledger.marked(AUTO)
    ledger.now_ms += TTL_MS
    return ledger.turning(1, ended("r1", fence, "completed"))


@case("ledger", "epoch", refusal=True)
def _turn__epoch(ledger: Ledger) -> Command:
    ledger.submit(AUTO, "r1")
    return ledger.turning(1, epoch=2)


# ── mark ──────────────────────────────────────────────────────────────────────────────────────────────────────────────


@case("ledger", "ok marked marked")
def _mark__marked(ledger: Ledger) -> Command:
    first, second = ledger.granted(AUTO), ledger.granted(OWN, "r2")
    return ledger.marking(MarkItem("r1", first, MC, ""), MarkItem("r2", second, CR, "op-7"))


@case("ledger", "ok marked")
def _mark__reference(ledger: Ledger) -> Command:
    return ledger.marking(MarkItem("r1", ledger.marked(AUTO), MC, "op-7"))


@case("ledger", "ok stale", refusal=True)
def _mark__older_fence(ledger: Ledger) -> Command:
    first = ledger.granted(AUTO)
    ledger.settle(ended("r1", first, "released"))
    ledger.claim()
    return ledger.marking(MarkItem("r1", first, MC, ""))


@case("ledger", "ok stale", refusal=True)
def _mark__no_boundary(ledger: Ledger) -> Command:
    return ledger.marking(MarkItem("r1", ledger.granted(AUTO), "across", ""))


@case("ledger", "ok stopped", refusal=True)
def _mark__after_a_cancel(ledger: Ledger) -> Command:
    fence = ledger.granted(AUTO)
    cancel(ledger, "r1")
    return ledger.marking(MarkItem("r1", fence, MC, ""))


@case("ledger", "ok missing", refusal=True)
def _mark__missing(ledger: Ledger) -> Command:
    return ledger.marking(MarkItem("r9", "1", MC, ""))


@case("ledger", "ok corrupt", refusal=True)
def _mark__corrupt(ledger: Ledger) -> Command:
    fence = ledger.granted(AUTO)
    ledger.edit("HSET", ledger.keys.row("r1"), "boundary", "?")
    return ledger.marking(MarkItem("r1", fence, MC, ""))


@case("ledger", "lost", refusal=True)
def _mark__lost(ledger: Ledger) -> Command:
    fence = ledger.granted(AUTO)
    ledger.now_ms += TTL_MS
    return ledger.marking(MarkItem("r1", fence, MC, ""))


@case("ledger", "epoch", refusal=True)
def _mark__epoch(ledger: Ledger) -> Command:
    return ledger.marking(MarkItem("r1", ledger.granted(AUTO), MC, ""), epoch=2)
