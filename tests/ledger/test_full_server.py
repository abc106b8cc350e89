"""A server without memory: what ends an attempt goes through, what begins one is refused in a sentence (S4)."""

from __future__ import annotations

import pytest
from redis.exceptions import OutOfMemoryError

from kit.fixtures import StartServer
from kit.ledger import KINDS, MC, TTL_MS, Ledger, connect, ended
from kit.ledger_checks import faults
from kit.servers import Flavour, flavours
from mycelium.leases.errors import ServerUnavailableError
from mycelium.leases.session import close_session
from mycelium.leases.store import open_store

AUTO, READ = "non_idempotent_mutate-automatic", "read-none"
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
