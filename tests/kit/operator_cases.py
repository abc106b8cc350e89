"""Calls of a person's verbs, release and mark-dead, and of the taking of one row, for each of their reply words."""

from __future__ import annotations

from kit.ledger import MC, NOON_MS, TTL_MS, Ledger, ended
from kit.script_cases import AUTO, IDEM, OWN, case
from mycelium.leases.scripts import Command
from mycelium.leases.session import open_session
from mycelium.ledger.mark_dead import mark_dead_script
from mycelium.ledger.release import release_script
from mycelium.ledger.sweep import lapse_script

PRESUMED_MS = 30_000


def releasing(
    ledger: Ledger,
    verified: str = "completed",
    *,
    request_id: str = "r1",
    expect: str | None = None,
    override: int = 0,
    op: str = "",
) -> Command:
    """A release of the row as it stands."""
    return release_script(
        op=op or ledger.op(),
        request_id=request_id,
        expect=ledger.row(request_id).get("n", "0") if expect is None else expect,
        verified=verified,
        by="ops",
        reason="seen at the provider",
        presumed_ms=PRESUMED_MS,
        override=override,
        body=b"7" if verified == "completed" else b"",
    )


def burying(ledger: Ledger, *, request_id: str = "r1", override: int = 0, op: str = "") -> Command:
    """A declaration that the holder is dead."""
    return mark_dead_script(
        op=op or ledger.op(),
        request_id=request_id,
        by="ops",
        reason="its pod is gone",
        presumed_ms=PRESUMED_MS,
        override=override,
    )


def doubtful(ledger: Ledger, tool: str = AUTO, request_id: str = "r1") -> str:
    """Unknown, with an attempt of which nobody knows whether it is over; gives the fence."""
    fence = ledger.marked(tool, request_id)
    assert ledger.settle(ended(request_id, fence, "unknown", boundary=MC, over=0)) == ["settled"]
    return fence


def graced(ledger: Ledger, grace_ms: int = 60_000) -> str:
    """Held by a session that lapsed and has a grace; gives the fence."""
    ledger.run(open_session(session="s2", epoch=1, boot="b", ttl_ms=TTL_MS, grace_ms=grace_ms, name="w", info="{}"))
    fence = ledger.marked(AUTO, session="s2")
    ledger.now_ms = NOON_MS + TTL_MS
    return fence


def aliased(ledger: Ledger, other: str, request_id: str = "r1") -> None:
    """Let another request id name the row."""
    ledger.edit("HSET", ledger.keys.row(other), "alias", request_id, "effect", "e")
    ledger.edit("SADD", ledger.keys.aliases(request_id), other)
    ledger.edit("HSET", ledger.keys.row(request_id), "share", "0" * 64)


# ── release ──────────────────────────────────────────────────────────────────────────────────────────────────────────


@case("ledger", "released")
def _release__completed(ledger: Ledger) -> Command:
    ledger.unknown()
    return releasing(ledger)


@case("ledger", "released")
def _release__not_executed(ledger: Ledger) -> Command:
    ledger.unknown()
    return releasing(ledger, "not_executed")


@case("ledger", "released")
def _release__not_executed_by_now(ledger: Ledger) -> Command:
    doubtful(ledger)
    ledger.now_ms += PRESUMED_MS
    return releasing(ledger, "not_executed")


@case("ledger", "already", refusal=True)
def _release__already(ledger: Ledger) -> Command:
    ledger.unknown()
    ledger.run(releasing(ledger, "not_executed"))
    return releasing(ledger)


@case("ledger", "held", refusal=True)
def _release__held(ledger: Ledger) -> Command:
    ledger.marked(AUTO)
    return releasing(ledger)


@case("ledger", "lapsed", refusal=True)
def _release__lapsed(ledger: Ledger) -> Command:
    ledger.marked(AUTO)
    ledger.now_ms += TTL_MS
    return releasing(ledger)


@case("ledger", "alive", refusal=True)
def _release__may_still_send(ledger: Ledger) -> Command:
    doubtful(ledger)
    return releasing(ledger, "not_executed")


@case("ledger", "alive", refusal=True)
def _release__in_grace(ledger: Ledger) -> Command:
    graced(ledger)
    return releasing(ledger)


@case("ledger", "open", refusal=True)
def _release__open(ledger: Ledger) -> Command:
    ledger.submit(AUTO, "r1")
    return releasing(ledger)


@case("ledger", "terminal", refusal=True)
def _release__terminal(ledger: Ledger) -> Command:
    ledger.settle(ended("r1", ledger.marked(AUTO), "completed"))
    return releasing(ledger)


@case("ledger", "changed", refusal=True)
def _release__changed(ledger: Ledger) -> Command:
    ledger.unknown()
    return releasing(ledger, expect="1")


@case("ledger", "missing", refusal=True)
def _release__missing(ledger: Ledger) -> Command:
    return releasing(ledger, request_id="r9")


@case("ledger", "corrupt", refusal=True)
def _release__corrupt(ledger: Ledger) -> Command:
    ledger.unknown()
    ledger.edit("HDEL", ledger.keys.row("r1"), "class")
    return releasing(ledger)


# ── mark dead ────────────────────────────────────────────────────────────────────────────────────────────────────────


@case("ledger", "declared")
def _mark_dead__of_a_write(ledger: Ledger) -> Command:
    graced(ledger)
    ledger.now_ms += PRESUMED_MS
    return burying(ledger)


@case("ledger", "declared")
def _mark_dead__of_an_unmarked_one(ledger: Ledger) -> Command:
    ledger.granted(OWN)
    return burying(ledger, override=1)


@case("ledger", "declared")
def _mark_dead__of_one_that_repeats(ledger: Ledger) -> Command:
    ledger.marked(IDEM)
    return burying(ledger, override=1)


@case("ledger", "declared")
def _mark_dead__of_an_unknown(ledger: Ledger) -> Command:
    doubtful(ledger)
    return burying(ledger, override=1)


@case("ledger", "alive", refusal=True)
def _mark_dead__alive(ledger: Ledger) -> Command:
    ledger.marked(AUTO)
    return burying(ledger)


@case("ledger", "over", refusal=True)
def _mark_dead__over(ledger: Ledger) -> Command:
    ledger.unknown()
    return burying(ledger)


@case("ledger", "nobody", refusal=True)
def _mark_dead__nobody(ledger: Ledger) -> Command:
    ledger.submit(AUTO, "r1")
    return burying(ledger)


@case("ledger", "terminal", refusal=True)
def _mark_dead__terminal(ledger: Ledger) -> Command:
    ledger.settle(ended("r1", ledger.marked(AUTO), "completed"))
    return burying(ledger, override=1)


@case("ledger", "missing", refusal=True)
def _mark_dead__missing(ledger: Ledger) -> Command:
    return burying(ledger, request_id="r9")


@case("ledger", "corrupt", refusal=True)
def _mark_dead__corrupt(ledger: Ledger) -> Command:
    ledger.marked(AUTO)
    ledger.edit("HSET", ledger.keys.row("r1"), "boundary", "?")
    return burying(ledger, override=1)


# ── lapse: what is asked is how one row stands, so the second answer tells that it was done ──────────────────────────


@case("ledger", "taken", second="free")
def _lapse__taken(ledger: Ledger) -> Command:
    ledger.marked(AUTO)
    ledger.now_ms += TTL_MS
    return lapse_script(request_id="r1")


@case("ledger", "held", refusal=True)
def _lapse__held(ledger: Ledger) -> Command:
    ledger.marked(AUTO)
    return lapse_script(request_id="r1")


@case("ledger", "grace", refusal=True)
def _lapse__grace(ledger: Ledger) -> Command:
    graced(ledger)
    return lapse_script(request_id="r1")


@case("ledger", "free", refusal=True)
def _lapse__free(ledger: Ledger) -> Command:
    ledger.unknown()
    return lapse_script(request_id="r1")


@case("ledger", "missing", refusal=True)
def _lapse__missing(ledger: Ledger) -> Command:
    return lapse_script(request_id="r9")


@case("ledger", "corrupt", refusal=True)
def _lapse__corrupt(ledger: Ledger) -> Command:
    ledger.marked(AUTO)
    ledger.edit("HDEL", ledger.keys.row("r1"), "mode")
    return lapse_script(request_id="r1")
