"""The tree that a worker tells: whose it is, how old it is, and that it never looks live when it is not."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from functools import partial

import pytest
from chaos.stage import until_async

from kit.actors import Crash, Diary, Say, child, running
from kit.clock import FakeClock
from mycelium.actors.runtime import Actor, ActorSystem, ChildSpec, supervise
from mycelium.actors.worker.messages import WhichSession
from mycelium.actors.worker.tree_teller import AFTER_FAILURE_S, EVERY_S, TreeTeller
from mycelium.leases.clock import BootClock
from mycelium.leases.session import Session, SessionSettings
from mycelium.leases.store import Store, open_store
from mycelium.ledger.trees import LATE, ActorLine, TellReply, WorkerTree, read_trees, tell_tree

LINE = ActorLine("/worker", "running", 0, 256, 0, None, 1.0, None)
TIMES = SessionSettings(ttl_s=60.0, renew_every_s=10.0)


@pytest.fixture
async def store(url: str, namespace: str) -> AsyncIterator[Store]:
    store = await open_store(url, namespace=namespace)
    yield store
    await store.aclose()


async def opened(store: Store, name: str = "w", info: bytes = b'{"hosts": 1}') -> Session:
    session = Session(store, TIMES, BootClock(), name=name, info=info)
    await session.open()
    return session


async def told(store: Store, session: Session) -> TellReply:
    return await tell_tree(store.calls, session.id, [LINE], every_s=5.0, patience_s=5.0)


async def shift(store: Store, session: Session, ms: int) -> None:
    """Let the last word be so much older."""
    await store.calls.read("HINCRBY", store.keys.tree(session.id), "told_ms", -ms)


async def only(store: Store) -> WorkerTree:
    (tree,) = await read_trees(store)
    return tree


async def test_what_a_worker_told_is_read_with_its_age(store: Store) -> None:
    session = await opened(store)
    assert await told(store, session) is TellReply.TOLD
    tree = await only(store)
    assert tree.session.session_id == session.id
    assert (tree.actors, tree.late, tree.lapsed) == ((LINE,), False, False)
    await shift(store, session, 4000)
    later = await only(store)
    assert later.told_s_ago is not None
    assert later.told_s_ago >= 4.0
    assert not later.late


@pytest.mark.parametrize("ms", [LATE * 5000 + 1, 100_000, -3_600_000], ids=["just too old", "old", "clock set back"])
async def test_an_old_word_is_called_late(store: Store, ms: int) -> None:
    session = await opened(store)
    await told(store, session)
    await shift(store, session, ms)
    assert (await only(store)).late


async def test_a_worker_whose_session_has_lapsed_is_late_however_fresh_its_word(store: Store) -> None:
    session = await opened(store)
    await told(store, session)
    await store.calls.read("ZADD", store.keys.sessions(), 1, session.id)
    tree = await only(store)
    assert (tree.lapsed, tree.late) == (True, True)


async def test_a_worker_that_told_nothing_is_listed_without_a_tree(store: Store) -> None:
    await opened(store)
    tree = await only(store)
    assert (tree.told_s_ago, tree.late, tree.actors) == (None, True, ())


async def test_a_program_that_calls_in_process_has_no_tree(store: Store) -> None:
    await opened(store, info=b"{}")
    assert await read_trees(store) == []


async def test_a_word_after_the_end_of_its_session_is_not_kept(store: Store) -> None:
    session = await opened(store)
    await session.close()
    assert await told(store, session) is TellReply.GONE
    assert await store.calls.read("EXISTS", store.keys.tree(session.id)) == 0


async def test_a_word_goes_by_itself(store: Store) -> None:
    session = await opened(store)
    await told(store, session)
    assert 0 < int(str(await store.calls.read("PTTL", store.keys.tree(session.id)))) <= 120_000


@pytest.mark.parametrize(
    "body",
    ["", "{", "1", '[{"path": "/worker"}]', json.dumps([{"path": 1}]), "[[]]"],
)
async def test_a_tree_of_a_version_that_is_not_understood_is_shown_as_none(store: Store, body: str) -> None:
    session = await opened(store)
    await told(store, session)
    await store.calls.read("HSET", store.keys.tree(session.id), "body", body)
    assert (await only(store)).actors == ()


class Keeper(Actor[WhichSession]):
    """In the place of the lease manager; busy for ever while it has no session."""

    def __init__(self, sessions: list[str]) -> None:
        self._sessions = sessions

    async def receive(self, message: WhichSession) -> str:
        del message
        if not self._sessions:
            await asyncio.Event().wait()
        return self._sessions[0]


async def states(store: Store) -> dict[str, ActorLine]:
    return {line.path.rpartition("/")[2]: line for line in (await only(store)).actors}


async def until_told(store: Store, session: Session, clock: FakeClock, seconds: float) -> None:
    """Move on, and wait for the word that is due by then."""
    key = store.keys.tree(session.id)
    await store.calls.read("DEL", key)
    await clock.advance(seconds)
    await until_async(lambda: store.calls.read("EXISTS", key))


@asynccontextmanager
async def telling(store: Store, sessions: list[str], clock: FakeClock) -> AsyncGenerator[ActorSystem]:
    """A tree with a teller, a keeper of sessions and one actor that crashes when told to."""
    keeper = ChildSpec("lease_manager", partial(Keeper, sessions), stop_within_s=0.0)
    control = supervise("control", [keeper, child(Diary(), "a")])
    root = supervise("worker", [ChildSpec("tree_teller", partial(TreeTeller, store)), control])
    async with running(root, clock) as system:
        yield system


async def test_a_worker_tells_at_its_start_then_now_and_then_and_soon_after_a_failure(store: Store) -> None:
    session, clock = await opened(store), FakeClock()
    async with telling(store, [session.id], clock) as system:
        await until_told(store, session, clock, AFTER_FAILURE_S)
        lines = await states(store)
        assert list(lines) == ["worker", "tree_teller", "control", "lease_manager", "a"]
        assert {line.state for line in lines.values()} == {"running"}
        await until_told(store, session, clock, EVERY_S * 1.3)
        for _ in range(3):
            system.find("/worker/control/a").tell(Crash())
        system.find("/worker/control/a").tell(Say("later"))
        await until_told(store, session, clock, AFTER_FAILURE_S + 0.2)
        line = (await states(store))["a"]
        assert (line.last_error, line.capacity) == ("Boom", 100)
        assert line.restarts
        assert line.failed_s_ago is not None
        assert line.failed_s_ago < 1.0


async def test_a_worker_whose_keeper_of_the_session_hangs_still_tells(store: Store) -> None:
    session, clock = await opened(store), FakeClock()
    sessions = [session.id]
    async with telling(store, sessions, clock) as system:
        await until_told(store, session, clock, AFTER_FAILURE_S)
        sessions.clear()
        await until_told(store, session, clock, EVERY_S * 1.3 + 1.0)
        assert (await states(store))["lease_manager"].state == "running"
        assert system.root.alive


async def test_a_worker_without_a_session_tells_nothing(store: Store) -> None:
    clock = FakeClock()
    async with telling(store, [""], clock) as system:
        await clock.advance(60.0)
        assert await store.calls.read("KEYS", f"{store.keys.tag}:tree:*") == []
        assert [line.restarts for line in system.tree().children] == [0, 0]
