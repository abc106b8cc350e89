"""The scripts of epoch and session: every word, that asking twice changes nothing, that a refusal writes nothing."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Protocol, cast

import pytest

from kit.fixtures import StartServer
from kit.plain import Plain
from kit.servers import Flavour, flavours
from mycelium.leases.epoch import found
from mycelium.leases.errors import ServerUnavailableError
from mycelium.leases.scripts import Command
from mycelium.leases.session import close_session, describe_session, open_session, renew_session
from mycelium.leases.store import Store, StoreSettings

NOON_MS = 1_800_000_000_000
TTL_MS = 15_000

Keys = dict[str, Any]
Keyspace = Callable[[Store], Awaitable[Keys]]


class OpenStore(Protocol):
    async def __call__(self, url: str, settings: StoreSettings | None = None) -> Store: ...


@pytest.fixture(params=["real", "fake"])
async def store(request: pytest.FixtureRequest, opened: OpenStore) -> Store:
    """A store at a fixed server time, on a real server and on the stand-in."""
    url = request.getfixturevalue("url" if request.param == "real" else "fake_url")
    return await opened(url, StoreSettings(now_ms=NOON_MS, patience_s=5))


def an_open(epoch: int = 1, boot: str = "b1") -> Command:
    return open_session(session="s1", epoch=epoch, boot=boot, ttl_ms=TTL_MS, grace_ms=0, name="w", info=b"{}")


def a_renewal(epoch: int = 1) -> Command:
    return renew_session(session="s1", epoch=epoch, ttl_ms=TTL_MS)


async def ask(store: Store, command: Command) -> tuple[str, Any]:
    word, *rest = cast("list[Any]", await store.calls.run(command))
    return word.decode(), rest


async def word_of(store: Store, command: Command) -> str:
    return (await ask(store, command))[0]


async def edit(store: Store, *words: str) -> None:
    """Change a key past every script."""
    async with Plain(store.url) as client:
        await client(*words)


# ── open ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


async def test_open_writes_the_row_and_the_deadline(store: Store, keyspace: Keyspace) -> None:
    assert await word_of(store, an_open()) == "opened"
    keys = await keyspace(store)
    assert keys[store.keys.sessions()] == [(b"s1", NOON_MS + TTL_MS)]
    assert keys[store.keys.session("s1")] == {
        b"boot": b"b1",
        b"name": b"w",
        b"epoch": b"1",
        b"opened_ms": str(NOON_MS).encode(),
        b"ttl_ms": str(TTL_MS).encode(),
        b"grace_ms": b"0",
        b"info": b"{}",
    }


async def test_open_again_with_the_same_boot_changes_nothing_and_prolongs_nothing(
    store: Store, keyspace: Keyspace
) -> None:
    first = await ask(store, an_open())
    before = await keyspace(store)
    store.calls.now_ms = NOON_MS + 5_000
    assert await ask(store, an_open()) == first
    assert await keyspace(store) == before


@pytest.mark.parametrize("epoch", [0, 2])
async def test_open_in_another_epoch_is_refused(store: Store, keyspace: Keyspace, epoch: int) -> None:
    before = await keyspace(store)
    assert await ask(store, an_open(epoch)) == ("epoch", [b"1"])
    assert await ask(store, an_open(epoch)) == ("epoch", [b"1"])
    assert await keyspace(store) == before


async def test_open_without_a_data_set_is_refused(store: Store, keyspace: Keyspace) -> None:
    await edit(store, "DEL", store.keys.meta())
    assert await ask(store, an_open()) == ("epoch", [b"0"])
    assert await keyspace(store) == {}


async def test_open_of_an_id_of_another_boot_is_refused(store: Store, keyspace: Keyspace) -> None:
    await ask(store, an_open(boot="b1"))
    before = await keyspace(store)
    assert await word_of(store, an_open(boot="b2")) == "taken"
    assert await keyspace(store) == before


async def test_open_of_a_dead_session_is_refused(store: Store, keyspace: Keyspace) -> None:
    await ask(store, an_open())
    await edit(store, "HSET", store.keys.session("s1"), "dead", "1")
    before = await keyspace(store)
    assert await word_of(store, an_open()) == "taken"
    assert await keyspace(store) == before


# ── renew ────────────────────────────────────────────────────────────────────────────────────────────────────────────


async def test_renew_moves_the_deadline_and_counts_what_is_held(store: Store, keyspace: Keyspace) -> None:
    await ask(store, an_open())
    await edit(store, "HSET", store.keys.held("s1"), "r1", "7", "r2", "8")
    store.calls.now_ms = NOON_MS + 5_000
    assert await ask(store, a_renewal()) == ("renewed", [2])
    once = await keyspace(store)
    assert once[store.keys.sessions()] == [(b"s1", NOON_MS + 5_000 + TTL_MS)]
    assert await ask(store, a_renewal()) == ("renewed", [2])
    assert await keyspace(store) == once


async def test_renew_never_shortens(store: Store, keyspace: Keyspace) -> None:
    await ask(store, an_open())
    before = await keyspace(store)
    store.calls.now_ms = NOON_MS - 60_000
    assert await word_of(store, a_renewal()) == "renewed"
    assert await keyspace(store) == before


async def refused_renewal(store: Store, keyspace: Keyspace, command: Command) -> str:
    before = await keyspace(store)
    word = await word_of(store, command)
    assert await word_of(store, command) == word
    assert await keyspace(store) == before
    return word


async def test_renew_at_the_deadline_is_lost(store: Store, keyspace: Keyspace) -> None:
    await ask(store, an_open())
    store.calls.now_ms = NOON_MS + TTL_MS
    assert await refused_renewal(store, keyspace, a_renewal()) == "lost"


async def test_renew_one_millisecond_before_the_deadline_is_renewed(store: Store) -> None:
    await ask(store, an_open())
    store.calls.now_ms = NOON_MS + TTL_MS - 1
    assert await word_of(store, a_renewal()) == "renewed"


async def test_renew_of_what_was_never_opened_is_lost(store: Store, keyspace: Keyspace) -> None:
    assert await refused_renewal(store, keyspace, a_renewal()) == "lost"


@pytest.mark.parametrize("part", ["row", "deadline", "dead"])
async def test_renew_of_half_a_session_is_lost(store: Store, keyspace: Keyspace, part: str) -> None:
    await ask(store, an_open())
    if part == "row":
        await edit(store, "DEL", store.keys.session("s1"))
    elif part == "deadline":
        await edit(store, "ZREM", store.keys.sessions(), "s1")
    else:
        await edit(store, "HSET", store.keys.session("s1"), "dead", "1")
    assert await refused_renewal(store, keyspace, a_renewal()) == "lost"


@pytest.mark.parametrize("epoch", [0, 2])
async def test_renew_in_another_epoch_is_refused(store: Store, keyspace: Keyspace, epoch: int) -> None:
    await ask(store, an_open())
    assert await refused_renewal(store, keyspace, a_renewal(epoch)) == "epoch"


async def test_renew_without_a_data_set_is_refused(store: Store, keyspace: Keyspace) -> None:
    await ask(store, an_open())
    await edit(store, "DEL", store.keys.meta())
    assert await refused_renewal(store, keyspace, a_renewal()) == "epoch"


# ── close ────────────────────────────────────────────────────────────────────────────────────────────────────────────


async def test_close_leaves_only_a_count_and_is_gone_the_second_time(store: Store, keyspace: Keyspace) -> None:
    before = await keyspace(store)
    await ask(store, an_open())
    assert await ask(store, close_session(session="s1")) == ("closed", [0])
    once = await keyspace(store)
    assert once == before | {store.keys.counters(): {b"sessions_closed": b"1"}}
    # The one word that differs when it is asked again: the row that could remember is what was deleted.
    assert await ask(store, close_session(session="s1")) == ("gone", [0])
    assert await keyspace(store) == once
    assert await word_of(store, a_renewal()) == "lost"


async def test_close_while_holding_changes_nothing(store: Store, keyspace: Keyspace) -> None:
    await ask(store, an_open())
    await edit(store, "HSET", store.keys.held("s1"), "r1", "7")
    before = await keyspace(store)
    assert await ask(store, close_session(session="s1")) == ("holding", [1])
    assert await ask(store, close_session(session="s1")) == ("holding", [1])
    assert await keyspace(store) == before


async def test_what_people_are_told_of_a_session_can_change_while_it_is_open(store: Store, keyspace: Keyspace) -> None:
    await word_of(store, an_open())
    before = await keyspace(store)
    for _ in range(2):
        assert await word_of(store, describe_session(session="s1", info='{"quiet": true}')) == "told"
        told = {**before[store.keys.session("s1")], b"info": b'{"quiet": true}'}
        assert await keyspace(store) == before | {store.keys.session("s1"): told}


@pytest.mark.parametrize("dead", [False, True])
async def test_nothing_is_told_of_a_session_that_has_ended(store: Store, keyspace: Keyspace, dead: bool) -> None:  # noqa: FBT001 - a case
    if dead:
        await word_of(store, an_open())
        await edit(store, "HSET", store.keys.session("s1"), "dead", "1")
    before = await keyspace(store)
    assert await word_of(store, describe_session(session="s1", info="{}")) == "gone"
    assert await keyspace(store) == before


async def test_close_of_a_dead_session_leaves_it_to_whoever_declared_it(store: Store, keyspace: Keyspace) -> None:
    await ask(store, an_open())
    await edit(store, "HSET", store.keys.session("s1"), "dead", "1")
    before = await keyspace(store)
    assert await word_of(store, close_session(session="s1")) == "gone"
    assert await keyspace(store) == before


# ── found ────────────────────────────────────────────────────────────────────────────────────────────────────────────


async def test_found_begins_an_empty_data_set_with_a_fence_of_microseconds(store: Store, keyspace: Keyspace) -> None:
    await edit(store, "DEL", store.keys.meta())
    assert await ask(store, found(run_id="a")) == ("founded", [b"1", b"1800000000000000", b"1"])
    once = await keyspace(store)
    assert once[store.keys.meta()] == {
        b"epoch": b"1",
        b"run_id": b"a",
        b"fence": b"1800000000000000",
        b"seq": b"0",
        b"schema": b"1",
    }
    # Asked again it answers with the same epoch and fence; only the word tells that it had been done.
    assert await ask(store, found(run_id="a")) == ("adopted", [b"1", b"1800000000000000", b"1"])
    assert await keyspace(store) == once


async def test_another_run_begins_an_epoch_and_the_fence_jumps(store: Store, keyspace: Keyspace) -> None:
    await edit(store, "HSET", store.keys.meta(), "run_id", "a", "seq", "41")
    store.calls.now_ms = NOON_MS + 1
    assert await ask(store, found(run_id="b")) == ("advanced", [b"2", b"1800000000001000", b"1"])
    once = await keyspace(store)
    assert once[store.keys.meta()][b"seq"] == b"41"
    assert await ask(store, found(run_id="b")) == ("adopted", [b"2", b"1800000000001000", b"1"])
    assert await keyspace(store) == once


@pytest.mark.parametrize("fence", ["1800000000000001", "9007199254740993", "10000000000000000000"])
async def test_the_fence_never_falls_however_many_digits_it_has(store: Store, fence: str) -> None:
    await edit(store, "HSET", store.keys.meta(), "run_id", "a", "fence", fence)
    assert await ask(store, found(run_id="b")) == ("advanced", [b"2", fence.encode(), b"1"])


async def test_a_server_that_does_not_name_its_run_is_adopted(store: Store, keyspace: Keyspace) -> None:
    before = await keyspace(store)
    assert await word_of(store, found(run_id="")) == "adopted"
    assert await keyspace(store) == before


@pytest.mark.parametrize("schema", ["2", ""])
async def test_another_schema_is_refused(store: Store, keyspace: Keyspace, schema: str) -> None:
    await edit(store, "HSET", store.keys.meta(), "schema", schema, "run_id", "a")
    before = await keyspace(store)
    for run_id in ("a", "b", ""):
        assert await word_of(store, found(run_id=run_id)) == "schema"
    assert await keyspace(store) == before


# ── a full server ────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("flavour", flavours())
async def test_a_full_server_renews_closes_and_advances_but_opens_nothing(
    start_server: StartServer, opened: OpenStore, flavour: Flavour
) -> None:
    store = await opened(start_server(flavour=flavour).url)
    assert await word_of(store, an_open()) == "opened"
    await edit(store, "CONFIG", "SET", "maxmemory", "1")
    with pytest.raises(ServerUnavailableError, match="OOM"):
        await store.calls.run(
            open_session(session="s2", epoch=1, boot="b", ttl_ms=1, grace_ms=0, name="", info=""), patience_s=0.2
        )
    assert await word_of(store, a_renewal()) == "renewed"
    assert await word_of(store, found(run_id="other")) == "advanced"
    assert await word_of(store, close_session(session="s1")) == "closed"
