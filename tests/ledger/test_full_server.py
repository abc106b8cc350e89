"""A server without memory: what ends an attempt goes through, what begins one is refused in a sentence (S4)."""

from __future__ import annotations

import pytest
from redis.exceptions import OutOfMemoryError

from kit.claims import claimed, claiming, deciding, repairing, version
from kit.fixtures import StartServer
from kit.ledger import KINDS, MC, TTL_MS, Ledger, connect, ended
from kit.ledger_checks import faults
from kit.script_cases import AUTO, KEYED, READ
from kit.servers import Flavour, flavours
from mycelium.leases.errors import ServerUnavailableError
from mycelium.leases.session import close_session
from mycelium.leases.store import open_store
from mycelium.ledger.sweep import lapse_script

VERBS = ("completed", "failed", "unknown", "retry", "died", "released")


@pytest.mark.parametrize("flavour", flavours())
async def test_a_full_server_lets_every_attempt_end(
    start_server: StartServer, namespace: str, flavour: Flavour
) -> None:
    url = start_server(flavour=flavour).url
    with connect(url) as client:
        ledger = Ledger(client, namespace)
        ledger.found()
        ledger.open()
        fences = {verb: ledger.marked(AUTO, verb) for verb in VERBS}
        stale = ledger.granted(AUTO, "stale")
        ledger.granted(AUTO, "held")
        ledger.submit(READ, "later", delay_s=1)
        ledger.open("s2")
        doubts = [(f"doubt-{said}", ledger.marked(AUTO, f"doubt-{said}", session="s2")) for said in ("a", "b")]
        ledger.settle(*[ended(*doubt, "unknown", boundary=MC) for doubt in doubts], session="s2")

        client.config_set("maxmemory", "1")
        for verb, fence in fences.items():
            assert ledger.settle(ended(verb, fence, verb, boundary=MC, body=b"x" * 1000)) == ["settled"]
        # A refusal alone in its turn is noted, too.
        assert ledger.settle(ended("stale", stale, "completed")) == ["stale"]
        assert ledger.settle(ended("stale", stale, "released")) == ["settled"]
        assert ledger.renew() == "renewed"
        assert ledger.judge(*doubts[0], "completed") == "settled"
        assert ledger.judge(*doubts[1], "not_executed") == "settled"
        assert ledger.run(close_session(session="s2"))[0] == "closed"
        for refused in (
            ledger.submitting(AUTO, "new"),
            ledger.submitting(AUTO, "new", "stale", client="c9"),
        ):
            with pytest.raises(OutOfMemoryError):
                ledger.run(refused)
        assert ledger.row("new") == {}
        ledger.now_ms += TTL_MS
        assert ledger.promote() == 1
        assert ledger.expire() == "expired"
        assert ledger.state("held") == "ready"
        assert faults(ledger.dump()) == []

        store = await open_store(url, namespace=namespace)
        try:
            with pytest.raises(ServerUnavailableError, match=r"submit did not run.*OOM.*Nothing was changed"):
                await store.calls.run(ledger.submitting(AUTO, "new"), patience_s=0.2)
        finally:
            await store.aclose()
        assert sorted(KINDS) == sorted(set(KINDS))


@pytest.mark.parametrize("flavour", flavours())
def test_a_mark_on_a_full_server_is_written_or_refused_but_never_half(
    start_server: StartServer, namespace: str, flavour: Flavour
) -> None:
    with connect(start_server(flavour=flavour).url) as client:
        ledger = Ledger(client, namespace)
        ledger.found()
        ledger.open()
        fence = ledger.granted(AUTO)
        client.config_set("maxmemory", "1")
        with pytest.raises(OutOfMemoryError):
            ledger.mark("r1", fence)
        assert ledger.state("r1") == "claimed"
        assert faults(ledger.dump()) == []


@pytest.mark.parametrize("flavour", flavours())
def test_a_full_server_begins_no_call_and_lets_every_one_go(
    start_server: StartServer, namespace: str, flavour: Flavour
) -> None:
    with connect(start_server(flavour=flavour).url) as client:
        ledger = Ledger(client, namespace)
        ledger.found()
        ledger.open()
        ledger.open("s2")
        denied, allowed = claimed(ledger, AUTO, "denied").fence, claimed(ledger, AUTO, "allowed").fence
        damaged, lost = claimed(ledger, AUTO, "damaged").fence, claimed(ledger, AUTO, "lost", session="s2").fence
        assert len({denied, allowed, damaged, lost}) == 4
        failed = claimed(ledger, KEYED, "failed", boundary=MC).fence
        ledger.settle(ended("failed", failed, "failed"))
        client.config_set("maxmemory", "1")
        before = ledger.dump()
        for refused in (
            claiming(ledger, AUTO, "new"),
            claiming(ledger, AUTO, "new", dispatch_id="d1"),
            claiming(ledger, KEYED, "failed", expect=version(ledger, "failed"), auth="retry", boundary=MC),
            deciding(ledger, "allowed", allowed),
        ):
            with pytest.raises(OutOfMemoryError):
                ledger.run(refused)
        assert ledger.dump() == before
        # Who only looks, and would be told, is told where things stand, or hears that the server is full.
        assert claimed(ledger, AUTO, "allowed").word == "known"
        assert ledger.run(deciding(ledger, "denied", denied, allowed=0)) == ["denied"]
        ledger.now_ms += TTL_MS
        assert ledger.run(lapse_script(request_id="lost")) == ["taken"]
        client.config_set("maxmemory", "0")
        ledger.edit("HDEL", ledger.keys.row("damaged"), "mode")
        client.config_set("maxmemory", "1")
        with pytest.raises(OutOfMemoryError):
            ledger.run(repairing(AUTO, "damaged"))
        client.config_set("maxmemory", "0")
        assert ledger.run(repairing(AUTO, "damaged")) == ["repaired"]
        assert faults(ledger.dump()) == []
