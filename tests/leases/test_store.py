"""Opening a store: what is refused and how it is said; a new server run is a new epoch; listening goes on."""

from __future__ import annotations

import asyncio
import logging
import socket
from pathlib import Path
from typing import Any, Protocol, cast

import pytest

from kit.fixtures import StartServer
from kit.plain import Plain
from kit.proxy import FaultProxy
from mycelium.leases.address import normal_url, spoken_address
from mycelium.leases.errors import ServerUnavailableError, ServerUnfitError, SettingsError
from mycelium.leases.requirements import ServerFacts
from mycelium.leases.session import open_session, renew_session
from mycelium.leases.store import Store, StoreSettings, open_store
from mycelium.leases.subscription import Heard, Resubscribed

HASTY = StoreSettings(connect_timeout_s=0.3)


class OpenStore(Protocol):
    async def __call__(self, url: str, settings: StoreSettings | None = None) -> Store: ...


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


# ── addresses ────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "url",
    [
        "http://localhost",
        "localhost:6379",
        "redis://",
        "redis://host:0",
        "redis://host:port",
        "redis://host:99999",
        "unix://",
        "redis://host?decode_responses=true",
        "redis://host?retry_on_timeout=true",
        "redis://host?socket_timeout=1",
        "embedded://host/dir",
        "",
    ],
)
async def test_a_bad_url_is_refused(url: str, namespace: str) -> None:
    with pytest.raises(SettingsError):
        await open_store(url, namespace=namespace, settings=HASTY)


def test_a_bad_url_with_a_password_is_refused_without_saying_it() -> None:
    with pytest.raises(SettingsError) as caught:
        normal_url("reds://user:s3cret@host:1/0")
    assert "s3cret" not in str(caught.value)


@pytest.mark.parametrize(
    "url, normal",
    [
        ("valkey://h:1/2", "redis://h:1/2"),
        ("valkeys://h", "rediss://h"),
        ("unix:///a/b.sock?db=1", "unix:///a/b.sock?db=1"),
        ("rediss://h?ssl_cert_reqs=none", "rediss://h?ssl_cert_reqs=none"),
    ],
)
def test_schemes(url: str, normal: str) -> None:
    assert normal_url(url) == normal


def test_an_address_is_spoken_without_credentials() -> None:
    assert spoken_address("redis://user:s3cret@host:7/0") == "host:7"
    assert spoken_address("redis://host") == "host:6379"
    assert spoken_address("unix://user@/a/b.sock?password=s3cret") == "/a/b.sock"


async def test_nothing_listens(namespace: str) -> None:
    port = free_port()
    with pytest.raises(ServerUnavailableError) as caught:
        await open_store(f"redis://user:s3cret@127.0.0.1:{port}", namespace=namespace, settings=HASTY)
    assert f"127.0.0.1:{port}" in str(caught.value)
    assert "s3cret" not in str(caught.value)


async def test_something_listens_that_never_answers(namespace: str) -> None:
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        with pytest.raises(ServerUnavailableError, match=r"within 0\.3 s"):
            await open_store(f"redis://127.0.0.1:{silent.getsockname()[1]}", namespace=namespace, settings=HASTY)


async def test_a_wrong_password_is_refused_at_once(start_server: StartServer, namespace: str) -> None:
    server = start_server(port=0)
    async with Plain(server.url) as client:
        await client("CONFIG", "SET", "requirepass", "right")
        url = server.url.replace("redis://", "redis://:s3cret@")
        with pytest.raises(ServerUnfitError) as caught:
            await open_store(url, namespace=namespace, settings=StoreSettings(connect_timeout_s=60))
    assert "s3cret" not in str(caught.value)


# ── requirements ─────────────────────────────────────────────────────────────────────────────────────────────────────


async def test_facts(opened: OpenStore, url: str) -> None:
    facts = (await opened(url)).facts
    assert facts.role == "master"
    assert len(facts.run_id) == 40
    assert facts.maxmemory_policy == "noeviction"
    assert facts.appendonly == "no"


async def test_a_stand_in_that_says_nothing_is_taken_as_it_is(opened: OpenStore, fake_url: str) -> None:
    store = await opened(fake_url)
    assert isinstance(store.facts, ServerFacts)
    assert store.epoch == 1


async def test_an_evicting_server_is_refused_with_the_command_that_mends_it(
    start_server: StartServer, namespace: str
) -> None:
    server = start_server(config={"maxmemory-policy": "allkeys-lru"})
    with pytest.raises(ServerUnfitError, match="CONFIG SET maxmemory-policy noeviction"):
        await open_store(server.url, namespace=namespace)
    async with Plain(server.url) as client:
        assert await client("DBSIZE") == 0


async def test_a_replica_is_refused(start_server: StartServer, namespace: str) -> None:
    server = start_server()
    async with Plain(server.url) as client:
        await client("REPLICAOF", "127.0.0.1", str(free_port()))
    with pytest.raises(ServerUnfitError, match="replica"):
        await open_store(server.url, namespace=namespace)


async def test_weak_persistence_is_warned_of_once(
    start_server: StartServer, opened: OpenStore, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    server = start_server(tmp_path / "data", config={"appendfsync": "everysec"})
    with caplog.at_level(logging.WARNING, "mycelium"):
        store = await opened(server.url)
    assert len(store.facts.warnings) == 1
    assert [record.getMessage() for record in caplog.records] == list(store.facts.warnings)


async def test_another_schema_is_refused(opened: OpenStore, url: str, namespace: str, direct: Plain) -> None:
    store = await opened(url)
    await direct("HSET", store.keys.meta(), "schema", "9")
    with pytest.raises(ServerUnfitError, match="schema 9"):
        await open_store(url, namespace=namespace)


@pytest.mark.parametrize("name", ["connect_timeout_s", "call_timeout_s", "renew_timeout_s", "patience_s", "lanes"])
def test_settings_are_positive(name: str) -> None:
    with pytest.raises(SettingsError, match=name):
        StoreSettings(**cast("Any", {name: 0}))


# ── epochs ───────────────────────────────────────────────────────────────────────────────────────────────────────────


async def test_the_same_run_is_the_same_epoch(opened: OpenStore, url: str) -> None:
    assert (await opened(url)).epoch == (await opened(url)).epoch == 1


async def test_a_restart_is_a_new_epoch_before_any_command_goes_out(
    start_server: StartServer, opened: OpenStore, tmp_path: Path
) -> None:
    first = start_server(tmp_path / "data")
    store = await opened(first.url)
    await store.calls.run(open_session(session="s", epoch=1, boot="b", ttl_ms=60_000, grace_ms=0, name="", info=""))
    fence = int(cast("bytes", await store.calls.read("HGET", store.keys.meta(), "fence")))
    await first.stop_async()
    second = start_server(tmp_path / "data")
    assert second.url == first.url
    # Nobody told the store: it finds out on its new connection, and the session of the old life is refused.
    reply = cast("list[object]", await store.calls.run(renew_session(session="s", epoch=1, ttl_ms=60_000)))
    assert reply[0] == b"epoch"
    assert store.epoch == 2
    assert int(cast("bytes", await store.calls.read("HGET", store.keys.meta(), "fence"))) > fence
    assert await store.refresh_epoch() == 2


# ── listening ────────────────────────────────────────────────────────────────────────────────────────────────────────


async def test_listening_outlives_the_connection(opened: OpenStore, proxy: FaultProxy, direct: Plain) -> None:
    store = await opened(proxy.url)
    bell = store.keys.bell()
    words = store.listen(bell, store.keys.settled("c"))
    async with asyncio.timeout(10):
        assert await anext(words) == Resubscribed()
        await direct("PUBLISH", bell, b"\xff")
        assert await anext(words) == Heard(bell, b"\xff")
        proxy.shut()
        await proxy.reopen()
        assert await anext(words) == Resubscribed()
        await direct("PUBLISH", store.keys.settled("c"), "r1")
        assert await anext(words) == Heard(store.keys.settled("c"), b"r1")
    await words.aclose()


# ── the embedded server ──────────────────────────────────────────────────────────────────────────────────────────────


async def test_an_embedded_url_starts_a_server_and_stops_it(tmp_path: Path, namespace: str) -> None:
    store = await open_store(f"embedded://{tmp_path / 'data'}", namespace=namespace)
    try:
        assert store.facts.appendonly == "yes"
        assert store.facts.warnings == ()
    finally:
        await store.aclose()
    with pytest.raises(ServerUnavailableError):
        await open_store(store.url, namespace=namespace, settings=HASTY)
