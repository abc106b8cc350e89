"""Calls of what a holder without a queue needs, claim, decide and doubt, for each of their reply words."""

from __future__ import annotations

from kit.claims import claimed, claiming, deciding, version
from kit.ledger import KINDS, MC, NC, TTL_MS, Ledger, ended
from kit.script_cases import AUTO, IDEM, KEYED, READ, case
from mycelium.leases.scripts import Command
from mycelium.ledger.doubt import doubt_script
from mycelium.ledger.states import Drift

EXPLICIT_IDEM = "idempotent_mutate-explicit"


def failed(ledger: Ledger, tool: str, request_id: str = "r1") -> None:
    """Failed, with proof that nothing was sent."""
    fence = claimed(ledger, tool, request_id, boundary=MC).fence
    assert ledger.settle(ended(request_id, fence, "failed")) == ["settled"]


def doubted(ledger: Ledger, tool: str, request_id: str = "r1", **more: str) -> str:
    """Unknown, by a holder without a queue; gives the fence."""
    fence = claimed(ledger, tool, request_id, boundary=MC, **more).fence
    assert ledger.settle(ended(request_id, fence, "unknown", boundary=MC)) == ["settled"]
    return fence


def resent(ledger: Ledger) -> None:
    """Ready and in doubt: claimed for a second sending with its key, and given back unstarted."""
    doubted(ledger, KEYED)
    fence = claimed(ledger, KEYED, expect=version(ledger), auth="key", window_ms=60_000).fence
    assert ledger.settle(ended("r1", fence, "released")) == ["settled"]


# ── claim: granted ───────────────────────────────────────────────────────────────────────────────────────────────────


@case("ledger", "granted")
def _claim__new(ledger: Ledger) -> Command:
    return claiming(ledger, AUTO)


@case("ledger", "granted")
def _claim__new_and_marked(ledger: Ledger) -> Command:
    return claiming(ledger, KEYED, boundary=MC, key="k-1")


@case("ledger", "granted")
def _claim__new_with_a_dispatch(ledger: Ledger) -> Command:
    return claiming(ledger, AUTO, dispatch_id="d1")


@case("ledger", "granted")
def _claim__ready(ledger: Ledger) -> Command:
    ledger.settle(ended("r1", claimed(ledger, AUTO).fence, "released"))
    return claiming(ledger, AUTO, expect=version(ledger), auth="reclaim")


@case("ledger", "granted")
def _claim__failed(ledger: Ledger) -> Command:
    failed(ledger, KEYED)
    return claiming(ledger, KEYED, expect=version(ledger), auth="retry", boundary=MC)


@case("ledger", "granted")
def _claim__unknown_and_repeatable(ledger: Ledger) -> Command:
    doubted(ledger, IDEM)
    return claiming(ledger, IDEM, expect=version(ledger), auth="reclaim", boundary=MC)


@case("ledger", "granted")
def _claim__unknown_read(ledger: Ledger) -> Command:
    ledger.settle(ended("r1", claimed(ledger, READ, boundary=NC).fence, "unknown"))
    return claiming(ledger, READ, expect=version(ledger), auth="reclaim", boundary=NC)


@case("ledger", "granted")
def _claim__by_key(ledger: Ledger) -> Command:
    doubted(ledger, KEYED)
    return claiming(ledger, KEYED, expect=version(ledger), auth="key", window_ms=60_000, boundary=MC)


@case("ledger", "granted")
def _claim__ready_under_another_id(ledger: Ledger) -> Command:
    ledger.settle(ended("r1", claimed(ledger, AUTO, dispatch_id="d1").fence, "released"))
    return claiming(ledger, AUTO, "r2", dispatch_id="d1", expect=version(ledger), auth="reclaim")


# ── claim: shown ─────────────────────────────────────────────────────────────────────────────────────────────────────


@case("ledger", "known", refusal=True)
def _claim__held(ledger: Ledger) -> Command:
    claimed(ledger, AUTO)
    ledger.open("s2")
    return claiming(ledger, AUTO, session="s2", expect=version(ledger))


@case("ledger", "known")
def _claim__waits(ledger: Ledger) -> Command:
    claimed(ledger, AUTO)
    ledger.open("s2")
    return claiming(ledger, AUTO, session="s2", client="c2")


@case("ledger", "known")
def _claim__held_under_another_id(ledger: Ledger) -> Command:
    claimed(ledger, AUTO, dispatch_id="d1")
    return claiming(ledger, AUTO, "r2", dispatch_id="d1")


@case("ledger", "known", refusal=True)
def _claim__queued(ledger: Ledger) -> Command:
    ledger.submit(AUTO, "r1")
    return claiming(ledger, AUTO)


@case("ledger", "known", refusal=True)
def _claim__completed(ledger: Ledger) -> Command:
    ledger.settle(ended("r1", claimed(ledger, AUTO, boundary=MC).fence, "completed", boundary=MC))
    return claiming(ledger, AUTO, expect=version(ledger), auth="retry")


@case("ledger", "known", refusal=True)
def _claim__not_as_it_was_ruled_on(ledger: Ledger) -> Command:
    failed(ledger, KEYED)
    return claiming(ledger, KEYED, expect="1", auth="retry")


@case("ledger", "known", refusal=True)
def _claim__failed_and_manual(ledger: Ledger) -> Command:
    failed(ledger, AUTO)
    return claiming(ledger, AUTO, expect=version(ledger), auth="retry")


@case("ledger", "known", refusal=True)
def _claim__unknown(ledger: Ledger) -> Command:
    doubted(ledger, AUTO)
    return claiming(ledger, AUTO, expect=version(ledger), auth="key", window_ms=60_000)


@case("ledger", "known", refusal=True)
def _claim__past_the_window(ledger: Ledger) -> Command:
    doubted(ledger, KEYED)
    ledger.now_ms += 1_000
    return claiming(ledger, KEYED, expect=version(ledger), auth="key", window_ms=1_000)


@case("ledger", "known", refusal=True)
def _claim__before_its_first_dispatch(ledger: Ledger) -> Command:
    doubted(ledger, KEYED)
    ledger.now_ms -= 1_000
    return claiming(ledger, KEYED, expect=version(ledger), auth="key", window_ms=60_000)


@case("ledger", "known", refusal=True)
def _claim__with_another_key(ledger: Ledger) -> Command:
    doubted(ledger, KEYED, key="k-1")
    return claiming(ledger, KEYED, expect=version(ledger), auth="key", window_ms=60_000, key="k-2")


@case("ledger", "known", refusal=True)
def _claim__resent_and_past_the_window(ledger: Ledger) -> Command:
    resent(ledger)
    return claiming(ledger, KEYED, expect=version(ledger), auth="reclaim", window_ms=0)


@case("ledger", "known", refusal=True)
def _claim__worn_out(ledger: Ledger) -> Command:
    doubted(ledger, IDEM)
    ledger.edit("HSET", ledger.keys.row("r1"), "deaths", ledger.row("r1")["max_deaths"])
    return claiming(ledger, IDEM, expect=version(ledger), auth="reclaim")


@case("ledger", "conflict", refusal=True)
def _claim__another_class(ledger: Ledger) -> Command:
    doubted(ledger, IDEM)
    return claiming(ledger, AUTO, expect=version(ledger), auth="reclaim")


@case("ledger", "known", refusal=True)
def _claim__declared_anew(ledger: Ledger) -> Command:
    doubted(ledger, AUTO)
    ledger.edit("HSET", ledger.keys.row("r1"), "class", KINDS[IDEM].effect_class)
    return claiming(ledger, AUTO, expect=version(ledger), auth="reclaim")


# ── claim: refused ───────────────────────────────────────────────────────────────────────────────────────────────────


@case("ledger", "conflict", refusal=True)
def _claim__conflict(ledger: Ledger) -> Command:
    claimed(ledger, AUTO)
    return claiming(ledger, AUTO, value=2)


@case("ledger", "drift", refusal=True)
def _claim__drift(ledger: Ledger) -> Command:
    claimed(ledger, AUTO, None, dispatch_id="d1")
    return claiming(ledger, AUTO, None, value=2, dispatch_id="d1", drift=Drift.HARD)


@case("ledger", "corrupt", refusal=True)
def _claim__corrupt(ledger: Ledger) -> Command:
    claimed(ledger, AUTO)
    ledger.edit("HDEL", ledger.keys.row("r1"), "class")
    return claiming(ledger, AUTO)


@case("ledger", "corrupt", refusal=True)
def _claim__held_by_nobody(ledger: Ledger) -> Command:
    claimed(ledger, AUTO)
    ledger.edit("HDEL", ledger.keys.row("r1"), "session")
    return claiming(ledger, AUTO)


@case("ledger", "lost", refusal=True)
def _claim__lost(ledger: Ledger) -> Command:
    ledger.now_ms += TTL_MS
    return claiming(ledger, AUTO)


@case("ledger", "epoch", refusal=True)
def _claim__epoch(ledger: Ledger) -> Command:
    return claiming(ledger, AUTO, epoch=2)


# ── decide ───────────────────────────────────────────────────────────────────────────────────────────────────────────


@case("ledger", "decided")
def _decide__with_the_mark(ledger: Ledger) -> Command:
    return deciding(ledger, "r1", claimed(ledger, AUTO).fence)


@case("ledger", "decided")
def _decide__without_a_mark(ledger: Ledger) -> Command:
    return deciding(ledger, "r1", claimed(ledger, EXPLICIT_IDEM).fence, boundary=NC)


@case("ledger", "decided")
def _decide__under_another_id(ledger: Ledger) -> Command:
    fence = claimed(ledger, AUTO, dispatch_id="d1").fence
    claimed(ledger, AUTO, "r2", dispatch_id="d1")
    return deciding(ledger, "r2", fence)


@case("ledger", "denied")
def _decide__denied(ledger: Ledger) -> Command:
    return deciding(ledger, "r1", claimed(ledger, AUTO).fence, allowed=0)


@case("ledger", "denied")
def _decide__denied_after_a_doubt(ledger: Ledger) -> Command:
    doubted(ledger, IDEM)
    fence = claimed(ledger, IDEM, expect=version(ledger), auth="reclaim").fence
    return deciding(ledger, "r1", fence, allowed=0)


@case("ledger", "before", refusal=True)
def _decide__before(ledger: Ledger) -> Command:
    fence = claimed(ledger, AUTO).fence
    ledger.run(deciding(ledger, "r1", fence))
    return deciding(ledger, "r1", fence, allowed=0)


@case("ledger", "stale", refusal=True)
def _decide__older_fence(ledger: Ledger) -> Command:
    first = claimed(ledger, AUTO).fence
    ledger.settle(ended("r1", first, "released"))
    claimed(ledger, AUTO, expect=version(ledger), auth="reclaim")
    return deciding(ledger, "r1", first)


@case("ledger", "stale", refusal=True)
def _decide__another_session(ledger: Ledger) -> Command:
    ledger.open("s2")
    return deciding(ledger, "r1", claimed(ledger, AUTO).fence, session="s2")


@case("ledger", "stale", refusal=True)
def _decide__decided_with_the_claim(ledger: Ledger) -> Command:
    return deciding(ledger, "r1", claimed(ledger, AUTO, boundary=MC).fence, allowed=0)


@case("ledger", "lost", refusal=True)
def _decide__lost(ledger: Ledger) -> Command:
    fence = claimed(ledger, AUTO).fence
    ledger.now_ms += TTL_MS
    return deciding(ledger, "r1", fence)


@case("ledger", "epoch", refusal=True)
def _decide__epoch(ledger: Ledger) -> Command:
    return deciding(ledger, "r1", claimed(ledger, AUTO).fence, epoch=2)


@case("ledger", "missing", refusal=True)
def _decide__missing(ledger: Ledger) -> Command:
    return deciding(ledger, "r9", "1")


@case("ledger", "corrupt", refusal=True)
def _decide__corrupt(ledger: Ledger) -> Command:
    fence = claimed(ledger, AUTO).fence
    ledger.edit("HSET", ledger.keys.row("r1"), "boundary", "?")
    return deciding(ledger, "r1", fence)


# ── doubt ────────────────────────────────────────────────────────────────────────────────────────────────────────────


@case("ledger", "unknown")
def _doubt__of_what_may_not_be_sent_again(ledger: Ledger) -> Command:
    resent(ledger)
    return doubt_script(request_id="r1", expect=version(ledger), error="KeyWindowOver")


@case("ledger", "changed", refusal=True)
def _doubt__not_as_it_was_shown(ledger: Ledger) -> Command:
    resent(ledger)
    return doubt_script(request_id="r1", expect="1", error="KeyWindowOver")


@case("ledger", "changed", refusal=True)
def _doubt__of_what_sent_nothing(ledger: Ledger) -> Command:
    ledger.settle(ended("r1", claimed(ledger, AUTO).fence, "released"))
    return doubt_script(request_id="r1", expect=version(ledger), error="KeyWindowOver")


@case("ledger", "missing", refusal=True)
def _doubt__missing(ledger: Ledger) -> Command:
    return doubt_script(request_id="r9", expect="1", error="KeyWindowOver")


@case("ledger", "corrupt", refusal=True)
def _doubt__corrupt(ledger: Ledger) -> Command:
    resent(ledger)
    ledger.edit("HDEL", ledger.keys.row("r1"), "class")
    return doubt_script(request_id="r1", expect=version(ledger), error="KeyWindowOver")
