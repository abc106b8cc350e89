"""A session as its holder sees it: how long it trusts itself, what is a loss and what is not."""

from __future__ import annotations

import asyncio
from typing import Protocol

import pytest

from kit.fixtures import StartServer
from kit.plain import Plain
from kit.proxy import FaultProxy
from mycelium.leases.errors import SessionLostError, SettingsError
from mycelium.leases.session import CloseReply, Session, SessionSettings, Standing
from mycelium.leases.store import Store, StoreSettings

SETTINGS = SessionSettings(ttl_s=15, renew_every_s=3, call_timeout_s=0.5, margin_s=2)
NOON_MS = 1_800_000_000_000


class OpenStore(Protocol):
    async def __call__(self, url: str, settings: StoreSettings | None = None) -> Store: ...


class Turned(Protocol):
    instant_s: float

    def now_s(self) -> float: ...


@pytest.fixture
async def store(opened: OpenStore, proxy: FaultProxy) -> Store:
    return await opened(proxy.url, StoreSettings(now_ms=NOON_MS, renew_timeout_s=0.5))


@pytest.fixture
async def session(store: Store, clock: Turned) -> Session:
    session = Session(store, SETTINGS, clock, name="w")
    await session.open()
    return session


# ── settings ─────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("name", ["ttl_s", "renew_every_s", "call_timeout_s", "margin_s"])
@pytest.mark.parametrize("value", [0, -1, float("nan")])
def test_times_are_positive(name: str, value: float) -> None:
    with pytest.raises(SettingsError, match=name):
        SessionSettings(**{name: value})


def test_three_whole_tries_fit_into_a_ttl() -> None:
    SessionSettings(ttl_s=12, renew_every_s=3, call_timeout_s=1, margin_s=2)
    with pytest.raises(SettingsError, match="12"):
        SessionSettings(ttl_s=11.9, renew_every_s=3, call_timeout_s=1, margin_s=2)


# ── trust ────────────────────────────────────────────────────────────────────────────────────────────────────────────


async def test_a_session_is_not_trusted_before_it_is_open(store: Store, clock: Turned) -> None:
    session = Session(store, SETTINGS, clock)
    assert not session.trusted()
    assert session.remaining_trust_s() == 0
    assert (await session.renew_once()).standing is Standing.LOST
    assert not session.lost.is_set()


async def test_trust_counts_from_before_the_renewal_was_sent(
    session: Session, clock: Turned, proxy: FaultProxy
) -> None:
    assert session.trusted_until_s == 1000 + 15 - 2
    clock.instant_s = 1003
    held = proxy.hold(b"EVALSHA")
    renewing = asyncio.create_task(session.renew_once())
    await held.fired.wait()
    clock.instant_s = 1003.4
    held.released.set()
    renewal = await renewing
    assert renewal.standing is Standing.RENEWED
    assert renewal.gap_s == 3
    assert session.trusted_until_s == 1003 + 15 - 2


async def test_trust_ends_at_the_holders_own_deadline_and_a_renewal_restores_it(
    session: Session, clock: Turned
) -> None:
    clock.instant_s = 1012.999
    assert session.trusted()
    clock.instant_s = 1013
    assert not session.trusted()
    assert not session.lost.is_set()
    renewal = await session.renew_once()
    assert (renewal.standing, renewal.gap_s) == (Standing.RENEWED, 13)
    assert session.remaining_trust_s() == 13


async def test_a_server_that_is_away_is_not_a_loss(session: Session, clock: Turned, proxy: FaultProxy) -> None:
    proxy.shut()
    clock.instant_s = 1003
    renewal = await session.renew_once()
    assert renewal.standing is Standing.UNREACHABLE
    assert renewal.why
    assert session.trusted()
    assert session.trusted_until_s == 1013
    await proxy.reopen()
    assert (await session.renew_once()).standing is Standing.RENEWED


async def test_a_lost_reply_of_a_renewal_prolongs_the_session_but_not_the_trust(
    session: Session, clock: Turned, proxy: FaultProxy, store: Store
) -> None:
    clock.instant_s = 1003
    proxy.drop_hang(b"EVALSHA")
    assert (await session.renew_once()).standing is Standing.UNREACHABLE
    assert session.trusted_until_s == 1013
    store.renewals.now_ms = NOON_MS + 5_000
    assert (await session.renew_once()).standing is Standing.RENEWED


async def test_a_lost_reply_of_the_opening_opens_one_session(
    store: Store, clock: Turned, proxy: FaultProxy, direct: Plain
) -> None:
    await Session(store, SETTINGS, clock).open()
    proxy.drop_close(b"EVALSHA")
    session = Session(store, SETTINGS, clock)
    await session.open()
    assert session.trusted()
    assert await direct("ZCARD", store.keys.sessions()) == 2


async def test_the_word_of_the_server_is_a_loss_for_ever(session: Session, store: Store) -> None:
    store.renewals.now_ms = NOON_MS + 15_000
    assert (await session.renew_once()).standing is Standing.LOST
    assert session.lost.is_set()
    assert not session.trusted()
    store.renewals.now_ms = NOON_MS
    sent = store.renewals.sent
    assert (await session.renew_once()).standing is Standing.LOST
    assert store.renewals.sent == sent


async def test_what_is_held_is_told(session: Session, store: Store, direct: Plain) -> None:
    await direct("HSET", store.keys.held(session.id), "r1", "7")
    assert (await session.renew_once()).held == 1


# ── close ────────────────────────────────────────────────────────────────────────────────────────────────────────────


async def test_closing_ends_trust_at_once_and_waits_for_what_is_held(
    session: Session, store: Store, direct: Plain
) -> None:
    await direct("HSET", store.keys.held(session.id), "r1", "7")
    assert await session.close() is CloseReply.HOLDING
    assert not session.trusted()
    assert (await session.renew_once()).standing is Standing.RENEWED
    await direct("HDEL", store.keys.held(session.id), "r1")
    assert await session.close() is CloseReply.CLOSED
    assert await session.close() is CloseReply.GONE
    assert (await session.renew_once()).standing is Standing.LOST


async def test_a_session_is_opened_once(session: Session) -> None:
    with pytest.raises(SessionLostError):
        await session.open()


# ── epochs ───────────────────────────────────────────────────────────────────────────────────────────────────────────


async def test_a_new_epoch_ends_the_session_and_another_opens_in_it(
    session: Session, store: Store, clock: Turned, direct: Plain
) -> None:
    await direct("HSET", store.keys.meta(), "epoch", "2")
    renewal = await session.renew_once()
    assert renewal.standing is Standing.LOST
    assert "epoch" in renewal.why
    another = Session(store, SETTINGS, clock)
    await another.open()
    assert (another.epoch, store.epoch) == (2, 2)
    assert another.trusted()


async def test_a_data_set_that_was_emptied_is_founded_again(
    start_server: StartServer, opened: OpenStore, clock: Turned
) -> None:
    store = await opened(start_server().url)
    session = Session(store, SETTINGS, clock)
    await session.open()
    async with Plain(store.url) as client:
        fence = await client.number("HGET", store.keys.meta(), "fence")
        await client("FLUSHALL")
        assert (await session.renew_once()).standing is Standing.LOST
        await Session(store, SETTINGS, clock).open()
        assert await client.number("HGET", store.keys.meta(), "fence") > fence


async def test_a_renewal_needs_no_room_on_the_job_channel(
    session: Session, store: Store, proxy: FaultProxy, clock: Turned
) -> None:
    """Job traffic that hangs holds up no renewal: it has a connection of its own."""
    stuck = [proxy.hold(b"stuck", nth=1), proxy.hold(b"stuck", nth=2)]
    calls = [asyncio.create_task(store.calls.read("ECHO", "stuck")) for _ in range(2)]
    async with asyncio.timeout(5):
        await stuck[0].fired.wait()
    clock.instant_s = 1003
    assert (await session.renew_once()).standing is Standing.RENEWED
    for arm in stuck:
        arm.released.set()
    await asyncio.gather(*calls)
