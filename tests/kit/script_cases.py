"""A call of every script for each of its reply words, with what stands before it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from kit.ledger import CR, KINDS, MC, TTL_MS, Ledger, ended
from mycelium.leases.epoch import found
from mycelium.leases.scripts import Command
from mycelium.leases.session import close_session, open_session, renew_session
from mycelium.ledger.mark import MarkItem
from mycelium.ledger.publish import PublishedTool, publish_script
from mycelium.ledger.sweep import expire_script, promote_script
from mycelium.ledger.verdict import KnownTool, due_script

AUTO, OWN, READ = "non_idempotent_mutate-automatic", "non_idempotent_mutate-explicit", "read-none"
KEYED, IDEM = "keyed_mutate-automatic", "idempotent_mutate-automatic"


@dataclass(frozen=True, slots=True)
class Case:
    """One call.

    Attributes:
        script: its name in the registry.
        words: the reply words that it must answer with, in order.
        make: brings the ledger there, and gives the call.
        refusal: it changes nothing but counts of calls and noted facts.
        second: the words of the same call sent again, where they differ, and why that is right.
    """

    script: str
    words: tuple[str, ...]
    make: Callable[[Ledger], Command]
    refusal: bool = False
    second: tuple[str, ...] | None = None

    @property
    def id(self) -> str:
        return f"{self.script.rpartition('/')[2]}-{'-'.join(self.words)}"


CASES: list[Case] = []


def _case(
    package: str, words: str, *, refusal: bool = False, second: str | None = None
) -> Callable[[Callable[[Ledger], Command]], Callable[[Ledger], Command]]:
    def add(make: Callable[[Ledger], Command]) -> Callable[[Ledger], Command]:
        name = make.__name__.removeprefix("_").partition("__")[0]
        again = None if second is None else tuple(second.split())
        CASES.append(Case(f"mycelium.{package}/{name}", tuple(words.split()), make, refusal, again))
        return make

    return add


def _run_id(ledger: Ledger) -> str:
    return ledger.row_of_meta()["run_id"]


# ── the floor below ──────────────────────────────────────────────────────────────────────────────────────────────────


@_case("leases", "founded", second="adopted")  # the same epoch and fence: only the word tells that it was done
def _found__founded(ledger: Ledger) -> Command:
    run_id = _run_id(ledger)
    ledger.drop()
    return found(run_id=run_id)


@_case("leases", "adopted", refusal=True)
def _found__adopted(ledger: Ledger) -> Command:
    return found(run_id=_run_id(ledger))


@_case("leases", "advanced", second="adopted")  # (the same)
def _found__advanced(ledger: Ledger) -> Command:
    run_id = _run_id(ledger)
    ledger.edit("HSET", ledger.keys.meta(), "run_id", "another")
    return found(run_id=run_id)


@_case("leases", "schema", refusal=True)
def _found__schema(ledger: Ledger) -> Command:
    ledger.edit("HSET", ledger.keys.meta(), "schema", "0")
    return found(run_id=_run_id(ledger))


@_case("leases", "opened")
def _open_session__opened(ledger: Ledger) -> Command:
    return open_session(session="s2", epoch=1, boot="b", ttl_ms=TTL_MS, name="w", info="{}")


@_case("leases", "epoch", refusal=True)
def _open_session__epoch(ledger: Ledger) -> Command:
    return open_session(session="s2", epoch=2, boot="b", ttl_ms=TTL_MS, name="w", info="{}")


@_case("leases", "taken", refusal=True)
def _open_session__taken(ledger: Ledger) -> Command:
    return open_session(session="s1", epoch=1, boot="c", ttl_ms=TTL_MS, name="w", info="{}")


@_case("leases", "renewed")
def _renew_session__renewed(ledger: Ledger) -> Command:
    return renew_session(session="s1", epoch=1, ttl_ms=2 * TTL_MS)


@_case("leases", "lost", refusal=True)
def _renew_session__lost(ledger: Ledger) -> Command:
    return renew_session(session="s2", epoch=1, ttl_ms=TTL_MS)


@_case("leases", "epoch", refusal=True)
def _renew_session__epoch(ledger: Ledger) -> Command:
    return renew_session(session="s1", epoch=2, ttl_ms=TTL_MS)


@_case("leases", "closed", second="gone")  # the row that could remember is what was deleted
def _close_session__closed(ledger: Ledger) -> Command:
    return close_session(session="s1")


@_case("leases", "holding", refusal=True)
def _close_session__holding(ledger: Ledger) -> Command:
    ledger.granted(AUTO)
    return close_session(session="s1")


@_case("leases", "gone", refusal=True)
def _close_session__gone(ledger: Ledger) -> Command:
    return close_session(session="s2")


# ── submit ───────────────────────────────────────────────────────────────────────────────────────────────────────────


@_case("ledger", "ok created created created joined")
def _submit__created(ledger: Ledger) -> Command:
    return ledger.submitting(AUTO, "r1", "r2", "r3", "r1")


@_case("ledger", "ok created")
def _submit__delayed(ledger: Ledger) -> Command:
    return ledger.submitting(AUTO, "r1", delay_s=5)


@_case("ledger", "ok joined")
def _submit__joined(ledger: Ledger) -> Command:
    ledger.submit(AUTO, "r1")
    return ledger.submitting(AUTO, "r1", client="c2")


@_case("ledger", "ok conflict", refusal=True)
def _submit__conflict(ledger: Ledger) -> Command:
    ledger.submit(AUTO, "r1")
    return ledger.submitting(AUTO, "r1", value=2)


@_case("ledger", "ok corrupt", refusal=True)
def _submit__corrupt(ledger: Ledger) -> Command:
    ledger.edit("HSET", ledger.keys.row("r1"), "state", "ready")
    return ledger.submitting(AUTO, "r1")


@_case("ledger", "ok corrupt", refusal=True)
def _submit__another_type(ledger: Ledger) -> Command:
    ledger.edit("SET", ledger.keys.row("r1"), "x")
    return ledger.submitting(AUTO, "r1")


@_case("ledger", "epoch", refusal=True)
def _submit__epoch(ledger: Ledger) -> Command:
    ledger.edit("DEL", ledger.keys.meta())
    return ledger.submitting(AUTO, "r1")


# ── turn ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


@_case("ledger", "ok")
def _turn__claims(ledger: Ledger) -> Command:
    for tool in KINDS:
        ledger.submit(tool, f"{tool}-1", f"{tool}-2")
    return ledger.turning(100)


@_case("ledger", "ok")
def _turn__finds_nothing(ledger: Ledger) -> Command:
    return ledger.turning(100)


@_case("ledger", "ok settled")
def _turn__completes_and_claims(ledger: Ledger) -> Command:
    fence = ledger.marked(AUTO)
    ledger.submit(AUTO, "r2")
    return ledger.turning(3, ended("r1", fence, "completed"))


@_case("ledger", "ok settled settled")
def _turn__claims_what_it_gave_back(ledger: Ledger) -> Command:
    first, second = ledger.granted(AUTO), ledger.marked(IDEM, "r2")
    return ledger.turning(3, ended("r1", first, "released"), ended("r2", second, "retry", boundary=MC))


@_case("ledger", "ok settled")
def _turn__settled_unknown(ledger: Ledger) -> Command:
    return ledger.turning(0, ended("r1", ledger.marked(AUTO), "unknown", boundary=MC, error="TimeoutError"))


@_case("ledger", "ok settled")
def _turn__settled_retry(ledger: Ledger) -> Command:
    return ledger.turning(0, ended("r1", ledger.granted(READ), "retry", delay_ms=100))


@_case("ledger", "ok settled")
def _turn__settled_died(ledger: Ledger) -> Command:
    return ledger.turning(0, ended("r1", ledger.marked(AUTO), "died", boundary=MC))


@_case("ledger", "ok settled")
def _turn__settled_failed(ledger: Ledger) -> Command:
    return ledger.turning(0, ended("r1", ledger.marked(AUTO), "failed"))


@_case("ledger", "ok late", second="ok settled")  # what was accepted late is by then recorded
def _turn__late(ledger: Ledger) -> Command:
    return ledger.turning(0, ended("r1", ledger.unknown(), "completed", boundary=CR))


@_case("ledger", "ok stale", refusal=True)
def _turn__older_fence(ledger: Ledger) -> Command:
    first = ledger.granted(AUTO)
    ledger.settle(ended("r1", first, "released"))
    ledger.claim()
    return ledger.turning(0, ended("r1", first, "completed"))


@_case("ledger", "ok stale", refusal=True)
def _turn__undecided(ledger: Ledger) -> Command:
    return ledger.turning(0, ended("r1", ledger.granted(AUTO), "completed"))


@_case("ledger", "ok stale", refusal=True)
def _turn__another_session(ledger: Ledger) -> Command:
    ledger.open("s2")
    return ledger.turning(0, ended("r1", ledger.marked(AUTO), "completed"), session="s2")


@_case("ledger", "ok missing", refusal=True)
def _turn__missing(ledger: Ledger) -> Command:
    return ledger.turning(0, ended("r9", "1", "completed"))


@_case("ledger", "ok corrupt", refusal=True)
def _turn__corrupt(ledger: Ledger) -> Command:
    fence = ledger.granted(AUTO)
    ledger.edit("HSET", ledger.keys.row("r1"), "attempts", "many")
    ledger.edit("DEL", ledger.keys.held("s1"))
    return ledger.turning(0, ended("r1", fence, "completed"))


@_case("ledger", "lost", refusal=True)
def _turn__lost(ledger: Ledger) -> Command:
    ledger.submit(AUTO, "r1")
    ledger.now_ms += TTL_MS
    return ledger.turning(1)


@_case("ledger", "lost settled")
def _turn__lost_but_settles(ledger: Ledger) -> Command:
    fence = ledger.marked(AUTO)
    ledger.now_ms += TTL_MS
    return ledger.turning(1, ended("r1", fence, "completed"))


@_case("ledger", "epoch", refusal=True)
def _turn__epoch(ledger: Ledger) -> Command:
    ledger.submit(AUTO, "r1")
    return ledger.turning(1, epoch=2)


# ── mark ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


@_case("ledger", "ok marked marked")
def _mark__marked(ledger: Ledger) -> Command:
    first, second = ledger.granted(AUTO), ledger.granted(OWN, "r2")
    return ledger.marking(MarkItem("r1", first, MC, ""), MarkItem("r2", second, CR, "op-7"))


@_case("ledger", "ok marked")
def _mark__reference(ledger: Ledger) -> Command:
    return ledger.marking(MarkItem("r1", ledger.marked(AUTO), MC, "op-7"))


@_case("ledger", "ok stale", refusal=True)
def _mark__older_fence(ledger: Ledger) -> Command:
    first = ledger.granted(AUTO)
    ledger.settle(ended("r1", first, "released"))
    ledger.claim()
    return ledger.marking(MarkItem("r1", first, MC, ""))


@_case("ledger", "ok stale", refusal=True)
def _mark__no_boundary(ledger: Ledger) -> Command:
    return ledger.marking(MarkItem("r1", ledger.granted(AUTO), "across", ""))


@_case("ledger", "ok missing", refusal=True)
def _mark__missing(ledger: Ledger) -> Command:
    return ledger.marking(MarkItem("r9", "1", MC, ""))


@_case("ledger", "ok corrupt", refusal=True)
def _mark__corrupt(ledger: Ledger) -> Command:
    fence = ledger.granted(AUTO)
    ledger.edit("HSET", ledger.keys.row("r1"), "boundary", "?")
    return ledger.marking(MarkItem("r1", fence, MC, ""))


@_case("ledger", "lost", refusal=True)
def _mark__lost(ledger: Ledger) -> Command:
    fence = ledger.granted(AUTO)
    ledger.now_ms += TTL_MS
    return ledger.marking(MarkItem("r1", fence, MC, ""))


@_case("ledger", "epoch", refusal=True)
def _mark__epoch(ledger: Ledger) -> Command:
    return ledger.marking(MarkItem("r1", ledger.granted(AUTO), MC, ""), epoch=2)


# ── sweep: what is asked is how things stand, so the second answer tells that it was done ────────────────────────────


@_case("ledger", "alive", refusal=True)
def _expire_if_lapsed__alive(ledger: Ledger) -> Command:
    ledger.granted(AUTO)
    return expire_script(session="s1", page=10)


@_case("ledger", "gone", refusal=True)
def _expire_if_lapsed__gone(ledger: Ledger) -> Command:
    return expire_script(session="s2", page=10)


@_case("ledger", "expired", second="gone")
def _expire_if_lapsed__expired(ledger: Ledger) -> Command:
    for tool in KINDS:
        ledger.granted(tool, f"{tool}-1")
        ledger.marked(tool, f"{tool}-2")
    ledger.now_ms += TTL_MS
    return expire_script(session="s1", page=100)


@_case("ledger", "more", second="expired")
def _expire_if_lapsed__more(ledger: Ledger) -> Command:
    ledger.granted(AUTO)
    ledger.granted(AUTO, "r2")
    ledger.now_ms += TTL_MS
    return expire_script(session="s1", page=1)


@_case("ledger", "ok", second="ok")
def _promote__ok(ledger: Ledger) -> Command:
    ledger.submit(AUTO, "r1", "r2", delay_s=1)
    ledger.submit(AUTO, "r3", delay_s=9)
    ledger.now_ms += 5000
    return promote_script(page=10)


@_case("ledger", "ok", second="ok")
def _due__ok(ledger: Ledger) -> Command:
    ledger.unknown()
    return due_script(page=10, put_off_ms=1000, known=[KnownTool(AUTO)])


@_case("ledger", "ok")
def _publish_tools__ok(ledger: Ledger) -> Command:
    return publish_script(known=[PublishedTool("a", "{}"), PublishedTool("b", "{}")])


# ── verdict ──────────────────────────────────────────────────────────────────────────────────────────────────────────


@_case("ledger", "settled")
def _verdict__completed(ledger: Ledger) -> Command:
    return ledger.judging("r1", ledger.unknown(), "completed", body=b"7")


@_case("ledger", "settled")
def _verdict__not_executed(ledger: Ledger) -> Command:
    return ledger.judging("r1", ledger.unknown(), "not_executed")


@_case("ledger", "settled")
def _verdict__not_executed_and_no_attempt_left(ledger: Ledger) -> Command:
    fence = ledger.unknown()
    ledger.edit("HSET", ledger.keys.row("r1"), "max_attempts", "1")
    return ledger.judging("r1", fence, "not_executed", body=b'{"error":"NotExecuted"}')


@_case("ledger", "settled")
def _verdict__unknown(ledger: Ledger) -> Command:
    return ledger.judging("r1", ledger.unknown(), "unknown")


@_case("ledger", "settled")
def _verdict__resend(ledger: Ledger) -> Command:
    return ledger.judging("r1", ledger.unknown(KEYED), "resend")


@_case("ledger", "window", refusal=True)
def _verdict__window(ledger: Ledger) -> Command:
    return ledger.judging("r1", ledger.unknown(KEYED), "resend", window_ms=0)


@_case("ledger", "window", refusal=True)
def _verdict__not_keyed(ledger: Ledger) -> Command:
    return ledger.judging("r1", ledger.unknown(AUTO), "resend")


@_case("ledger", "refused", refusal=True)
def _verdict__refused(ledger: Ledger) -> Command:
    return ledger.judging("r1", ledger.marked(AUTO), "not_executed")


@_case("ledger", "missing", refusal=True)
def _verdict__missing(ledger: Ledger) -> Command:
    return ledger.judging("r9", "1", "completed")


@_case("ledger", "corrupt", refusal=True)
def _verdict__corrupt(ledger: Ledger) -> Command:
    fence = ledger.unknown()
    ledger.edit("HDEL", ledger.keys.row("r1"), "class")
    return ledger.judging("r1", fence, "completed")
