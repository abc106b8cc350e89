"""Calls of what sweeps, asks and tells, for each of their reply words."""

from __future__ import annotations

from kit.ledger import KINDS, TTL_MS, Ledger
from kit.script_cases import AUTO, KEYED, case
from mycelium.leases.scripts import Command
from mycelium.ledger.publish import PublishedTool, publish_script
from mycelium.ledger.receipts.follow import follow_script
from mycelium.ledger.receipts.stream import ReceiptItem, append_receipts_script
from mycelium.ledger.sweep import expire_script, sweep_script
from mycelium.ledger.verdict import KnownTool, due_script

# ── sweep: what is asked is how things stand, so the second answer tells that it was done ─────────────────────────────


@case("ledger", "alive", refusal=True)
def _expire_if_lapsed__alive(ledger: Ledger) -> Command:
    ledger.granted(AUTO)
    return expire_script(session="s1", page=10)


@case("ledger", "gone", refusal=True)
def _expire_if_lapsed__gone(ledger: Ledger) -> Command:
    return expire_script(session="s2", page=10)


@case("ledger", "expired", second="gone")
def _expire_if_lapsed__expired(ledger: Ledger) -> Command:
    for tool in KINDS:
        ledger.granted(tool, f"{tool}-1")
        ledger.marked(tool, f"{tool}-2")
    ledger.now_ms += TTL_MS
    return expire_script(session="s1", page=100)


@case("ledger", "more", second="expired")
def _expire_if_lapsed__more(ledger: Ledger) -> Command:
    ledger.granted(AUTO)
    ledger.granted(AUTO, "r2")
    ledger.now_ms += TTL_MS
    return expire_script(session="s1", page=1)


@case("ledger", "ok", second="ok")
def _sweep__ok(ledger: Ledger) -> Command:
    ledger.submit(AUTO, "r1", "r2", delay_s=1)
    ledger.submit(AUTO, "r3", delay_s=9)
    ledger.now_ms += 5000
    return sweep_script(page=10)


@case("ledger", "ok", second="ok")
def _due__ok(ledger: Ledger) -> Command:
    ledger.unknown()
    return due_script(page=10, put_off_ms=1000, known=[KnownTool(AUTO)])


@case("ledger", "ok")
def _publish_tools__ok(ledger: Ledger) -> Command:
    return publish_script(known=[PublishedTool("a", "{}"), PublishedTool("b", "{}")])


@case("ledger", "ok")
def _append_receipts__ok(ledger: Ledger) -> Command:
    receipts = [ReceiptItem("a", b"1"), ReceiptItem("b", b"2"), ReceiptItem("a", b"1")]
    return append_receipts_script(receipt=receipts)


@case("ledger", "moved")
def _follow_if_at__from_the_beginning(ledger: Ledger) -> Command:
    return follow_script(expect="", to="5-0 5")


@case("ledger", "moved")
def _follow_if_at__from_a_place(ledger: Ledger) -> Command:
    ledger.edit("HSET", ledger.keys.meta(), "followed", "5-0 5")
    return follow_script(expect="5-0 5", to="9-0 9")


@case("ledger", "elsewhere", refusal=True)
def _follow_if_at__elsewhere(ledger: Ledger) -> Command:
    ledger.edit("HSET", ledger.keys.meta(), "followed", "9-0 9")
    return follow_script(expect="5-0 5", to="7-0 7")


# ── verdict ───────────────────────────────────────────────────────────────────────────────────────────────────────────


@case("ledger", "settled")
def _verdict__completed(ledger: Ledger) -> Command:
    return ledger.judging("r1", ledger.unknown(), "completed", body=b"7")


@case("ledger", "settled")
def _verdict__not_executed(ledger: Ledger) -> Command:
    return ledger.judging("r1", ledger.unknown(), "not_executed")


@case("ledger", "settled")
def _verdict__not_executed_and_no_attempt_left(ledger: Ledger) -> Command:
    fence = ledger.unknown()
    ledger.edit("HSET", ledger.keys.row("r1"), "max_attempts", "1")
    return ledger.judging("r1", fence, "not_executed", body=b'{"error":"NotExecuted"}')


@case("ledger", "settled")
def _verdict__unknown(ledger: Ledger) -> Command:
    return ledger.judging("r1", ledger.unknown(), "unknown")


@case("ledger", "settled")
def _verdict__resend(ledger: Ledger) -> Command:
    return ledger.judging("r1", ledger.unknown(KEYED), "resend")


@case("ledger", "window", refusal=True)
def _verdict__window(ledger: Ledger) -> Command:
    return ledger.judging("r1", ledger.unknown(KEYED), "resend", window_ms=0)


@case("ledger", "window", refusal=True)
def _verdict__not_keyed(ledger: Ledger) -> Command:
    return ledger.judging("r1", ledger.unknown(AUTO), "resend")


@case("ledger", "refused", refusal=True)
def _verdict__refused(ledger: Ledger) -> Command:
    return ledger.judging("r1", ledger.marked(AUTO), "not_executed")


@case("ledger", "missing", refusal=True)
def _verdict__missing(ledger: Ledger) -> Command:
    return ledger.judging("r9", "1", "completed")


@case("ledger", "corrupt", refusal=True)
def _verdict__corrupt(ledger: Ledger) -> Command:
    fence = ledger.unknown()
    ledger.edit("HDEL", ledger.keys.row("r1"), "class")
    return ledger.judging("r1", fence, "completed")
