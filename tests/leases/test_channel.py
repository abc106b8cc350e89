"""The channel: gathers, repeats what may be repeated, says truly what is known, and never shifts a reply."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from typing import Any, Protocol, cast

import pytest
from redis.asyncio import Redis
from redis.exceptions import ConnectionError as LibraryConnectionError
from redis.exceptions import TimeoutError as LibraryTimeoutError

from kit.fixtures import StartServer
from kit.plain import Plain
from kit.proxy import FaultProxy
from mycelium.leases.address import make_pool
from mycelium.leases.channel import Channel
from mycelium.leases.connection import Wire, pack
from mycelium.leases.errors import ReplyLostError, ScriptError, ServerError, ServerUnavailableError, ServerUnfitError
from mycelium.leases.keys import Keyspace
from mycelium.leases.scripts import Script, assemble, read_header

StartProxy = Callable[[str], Awaitable[FaultProxy]]

COUNT = """\
-- Counts an operation once, and answers with its name however often it is asked.
-- ARGV  operation
-- REPLY counted
local ops = tag .. ':ops'
redis.call('HINCRBY', tag .. ':runs', operation, 1)
if redis.call('HSETNX', ops, operation, '1') == 1 then redis.call('INCR', tag .. ':count') end
return {'counted', operation}
"""
FAIL = """\
-- Fails.
-- ARGV
-- REPLY never
return redis.call('GET')
"""


def script_of(name: str, text: str) -> Script[...]:
    header = read_header(text)
    script: Script[...] = Script("tests", name, header, assemble(header, text))
    return script


count = script_of("count", COUNT)
fail = script_of("fail", FAIL)


class Open(Protocol):
    def __call__(self, url: str, *, call_timeout_s: float = 2.0, lanes: int = 2) -> Channel: ...


@pytest.fixture
async def channel_to(namespace: str) -> AsyncIterator[Open]:
    async with AsyncExitStack() as stack:

        def open_channel(url: str, *, call_timeout_s: float = 2.0, lanes: int = 2) -> Channel:
            pool = make_pool(url, client_name=namespace, call_timeout_s=call_timeout_s, connect_timeout_s=1)
            client = Redis(connection_pool=pool)
            stack.push_async_callback(client.aclose)
            stack.push_async_callback(pool.disconnect)
            channel = Channel(client, Keyspace(namespace), name="test", call_timeout_s=call_timeout_s, lanes=lanes)
            stack.push_async_callback(channel.aclose)
            return channel

        yield open_channel


async def counted(direct: Plain, namespace: str) -> int:
    return await direct.number("GET", f"{{{namespace}}}:count")


async def runs(direct: Plain, namespace: str, operation: str) -> int:
    return await direct.number("HGET", f"{{{namespace}}}:runs", operation)


async def dials(client: Plain) -> int:
    """Connections that the server has accepted so far."""
    info = cast("dict[str, int]", await client("INFO", "stats"))
    return info["total_connections_received"]


# ── gathering ────────────────────────────────────────────────────────────────────────────────────────────────────────


async def test_what_is_queued_together_goes_out_together(channel_to: Open, url: str) -> None:
    channel = channel_to(url)
    names = [f"op-{n}" for n in range(100)]
    replies = await asyncio.gather(*(channel.run(count(operation=name)) for name in names))
    assert list(replies) == [[b"counted", name.encode()] for name in names]
    # Two lanes at most were woken; the second round is the repeat after NOSCRIPT.
    assert channel.pipelines <= 4


async def test_a_batch_has_a_bound(channel_to: Open, url: str) -> None:
    channel = channel_to(url, lanes=1)
    await asyncio.gather(*(channel.read("ECHO", str(n)) for n in range(1000)))
    assert channel.pipelines == 4


async def test_reads_and_scripts_share_a_batch(channel_to: Open, url: str) -> None:
    channel = channel_to(url, lanes=1)
    await channel.run(count(operation="warm"))
    before = channel.pipelines
    replies = await asyncio.gather(channel.read("ECHO", b"\xff"), channel.run(count(operation="a")))
    assert list(replies) == [b"\xff", [b"counted", b"a"]]
    assert channel.pipelines == before + 1


async def test_an_argument_that_cannot_be_sent_hurts_its_caller_alone(channel_to: Open, url: str) -> None:
    channel = channel_to(url)
    bad = channel.read("ECHO", cast("Any", None))
    good, error = await asyncio.gather(channel.read("ECHO", "x"), bad, return_exceptions=True)
    assert good == b"x"
    assert isinstance(error, TypeError)


# ── NOSCRIPT ─────────────────────────────────────────────────────────────────────────────────────────────────────────


async def test_an_unknown_script_is_loaded_and_only_its_calls_are_repeated(
    channel_to: Open, start_server: StartServer
) -> None:
    channel = channel_to(start_server().url, lanes=1)
    replies = await asyncio.gather(
        channel.read("INCR", "reads"), *(channel.run(count(operation=str(n))) for n in range(3))
    )
    assert replies[0] == 1
    assert channel.retries == 3
    assert await channel.read("GET", "reads") == b"1"


async def test_scripts_run_while_their_cache_is_flushed_again_and_again(
    channel_to: Open, start_server: StartServer, namespace: str
) -> None:
    server = start_server()
    channel = channel_to(server.url)
    async with Plain(server.url) as client:
        done = asyncio.Event()

        async def flush() -> None:
            while not done.is_set():
                await client("SCRIPT", "FLUSH")

        flushing = asyncio.create_task(flush())
        try:
            async with asyncio.timeout(60):
                for turn in range(20):
                    await asyncio.gather(*(channel.run(count(operation=f"{turn}-{n}")) for n in range(50)))
        finally:
            done.set()
            await flushing
        assert await counted(client, namespace) == 1000
    assert channel.retries > 0


# ── lost replies ─────────────────────────────────────────────────────────────────────────────────────────────────────


async def test_a_lost_reply_is_asked_again_with_the_same_operation(
    channel_to: Open, proxy: FaultProxy, direct: Plain, namespace: str
) -> None:
    channel = channel_to(proxy.url)
    await channel.run(count(operation="warm"))
    lost = proxy.drop_close(b"once")
    assert await channel.run(count(operation="once")) == [b"counted", b"once"]
    assert lost.fired.is_set()
    assert await runs(direct, namespace, "once") == 2
    assert await counted(direct, namespace) == 2


async def test_replies_that_came_before_the_break_are_not_asked_again(
    channel_to: Open, proxy: FaultProxy, direct: Plain, namespace: str
) -> None:
    channel = channel_to(proxy.url, lanes=1)
    await channel.run(count(operation="warm"))
    proxy.drop_close(b"op-5")
    await asyncio.gather(*(channel.run(count(operation=f"op-{n}")) for n in range(10)))
    assert [await runs(direct, namespace, f"op-{n}") for n in range(10)] == [1] * 5 + [2] * 5


@pytest.mark.parametrize("fault", ["drop_close", "drop_hang"])
async def test_the_library_itself_sends_nothing_twice(
    proxy: FaultProxy, direct: Plain, namespace: str, fault: str
) -> None:
    pool = make_pool(proxy.url, client_name=namespace, call_timeout_s=0.3, connect_timeout_s=1)
    async with Redis(connection_pool=pool) as client:
        lost = getattr(proxy, fault)(b"by-client")
        with pytest.raises((LibraryConnectionError, LibraryTimeoutError)):
            await client.incr(f"{namespace}:by-client")
        assert lost.fired.is_set()
        wire = Wire(client, call_timeout_s=0.3)
        await wire.open()
        getattr(proxy, fault)(b"by-wire")
        replies = await wire.exchange([pack(("INCR", f"{namespace}:by-wire"))])
        assert isinstance(replies[0], BaseException)
        await wire.aclose()
    await pool.disconnect()
    assert await direct("GET", f"{namespace}:by-client") == b"1"
    assert await direct("GET", f"{namespace}:by-wire") == b"1"


async def test_patience_is_a_deadline_also_for_a_call_on_the_way(channel_to: Open, proxy: FaultProxy) -> None:
    channel = channel_to(proxy.url, call_timeout_s=60)
    await channel.run(count(operation="warm"))
    held = proxy.hold(b"slow")
    with pytest.raises(ReplyLostError) as caught:
        await channel.run(count(operation="slow"), patience_s=0.05)
    assert "patience" in caught.value.what
    held.released.set()


async def test_a_call_that_never_left_is_said_not_to_have_run(channel_to: Open, proxy: FaultProxy) -> None:
    channel = channel_to(proxy.url)
    proxy.shut()
    with pytest.raises(ServerUnavailableError, match="did not run"):
        await channel.run(count(operation="x"), patience_s=0.1)
    assert channel.sent == 0


async def test_a_call_waits_for_a_server_that_comes_back(channel_to: Open, proxy: FaultProxy) -> None:
    channel = channel_to(proxy.url)
    await channel.run(count(operation="warm"))
    proxy.shut()
    waiting = asyncio.create_task(channel.run(count(operation="patient"), patience_s=None))
    with pytest.raises(ServerError):
        await channel.run(count(operation="impatient"), patience_s=0.1)
    assert not waiting.done()
    await proxy.reopen()
    async with asyncio.timeout(5):
        assert await waiting == [b"counted", b"patient"]


async def test_an_operation_counts_once_however_often_its_connection_is_killed(
    channel_to: Open, start_server: StartServer, namespace: str
) -> None:
    server = start_server()
    channel = channel_to(server.url)
    async with Plain(server.url) as client:
        done = asyncio.Event()

        async def kill() -> None:
            while not done.is_set():
                await client("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
                for _ in range(20):  # leaves time for a connection and a batch
                    await client("PING")

        killing = asyncio.create_task(kill())
        try:
            async with asyncio.timeout(90):
                for turn in range(20):
                    await asyncio.gather(*(channel.run(count(operation=f"{turn}-{n}")) for n in range(50)))
        finally:
            done.set()
            await killing
        assert await counted(client, namespace) == 1000
    assert channel.retries > 0


# ── cancelled callers ────────────────────────────────────────────────────────────────────────────────────────────────


async def test_cancelled_callers_shift_no_reply(channel_to: Open, proxy: FaultProxy, url: str) -> None:
    channel = channel_to(proxy.url)
    wrong: list[tuple[int, object]] = []
    cancelled = 0

    async def call(n: int) -> None:
        reply = await channel.run(count(operation=f"op-{n}"))
        if reply != [b"counted", f"op-{n}".encode()]:
            wrong.append((n, reply))

    for turn in range(100):
        delayed = proxy.delay(0.002, b"EVALSHA", nth=50)
        tasks = [asyncio.create_task(call(turn * 100 + n)) for n in range(100)]
        async with asyncio.timeout(10):
            await delayed.fired.wait()
        for task in tasks[::3]:
            cancelled += task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for task in tasks:
            assert task.cancelled() or task.exception() is None
    assert not wrong
    assert cancelled > 1000


async def test_who_is_cancelled_in_the_queue_is_never_sent(channel_to: Open, proxy: FaultProxy) -> None:
    channel = channel_to(proxy.url, lanes=1)
    held = proxy.hold(b"first")
    first = asyncio.create_task(channel.read("ECHO", "first"))
    async with asyncio.timeout(5):
        await held.fired.wait()
    second = asyncio.create_task(channel.read("ECHO", "second"))
    third = asyncio.create_task(channel.read("ECHO", "third"))
    await asyncio.sleep(0)
    second.cancel()
    held.released.set()
    assert await first == b"first"
    assert await third == b"third"
    assert channel.sent == 2


# ── errors ───────────────────────────────────────────────────────────────────────────────────────────────────────────


async def test_a_script_that_fails_is_not_repeated(channel_to: Open, url: str) -> None:
    channel = channel_to(url)
    with pytest.raises(ScriptError, match="fail failed in the server"):
        await channel.run(fail())
    assert channel.retries == 1  # the one for NOSCRIPT


async def test_a_server_that_wants_a_password_is_refused_at_once(channel_to: Open, start_server: StartServer) -> None:
    server = start_server()
    channel = channel_to(server.url)
    async with Plain(server.url) as client:
        await client("CONFIG", "SET", "requirepass", "s3cret")
    with pytest.raises(ServerUnfitError) as caught:
        await channel.run(count(operation="x"))
    assert "s3cret" not in str(caught.value)


async def test_a_full_server_is_asked_again_until_there_is_room(channel_to: Open, start_server: StartServer) -> None:
    server = start_server()
    channel = channel_to(server.url)
    async with Plain(server.url) as client:
        await channel.run(count(operation="warm"))
        await client("CONFIG", "SET", "maxmemory", "1")
        waiting = asyncio.create_task(channel.run(count(operation="patient"), patience_s=None))
        with pytest.raises(ServerUnavailableError, match="OOM"):
            await channel.run(count(operation="impatient"), patience_s=0.1)
        await client("CONFIG", "SET", "maxmemory", "0")
        async with asyncio.timeout(5):
            assert await waiting == [b"counted", b"patient"]


async def test_a_replica_is_left_for_another_connection(channel_to: Open, start_server: StartServer) -> None:
    server = start_server()
    channel = channel_to(server.url, lanes=1)
    async with Plain(server.url) as client:
        await channel.run(count(operation="warm"))
        before = await dials(client)
        await client("REPLICAOF", "127.0.0.1", "1")
        with pytest.raises(ServerUnavailableError, match="READONLY"):
            await channel.run(count(operation="impatient"), patience_s=0.1)
        await client("REPLICAOF", "NO", "ONE")
        await channel.run(count(operation="impatient"))
        assert await dials(client) > before


# ── the end ──────────────────────────────────────────────────────────────────────────────────────────────────────────


async def test_closing_answers_everybody(channel_to: Open, proxy: FaultProxy) -> None:
    channel = channel_to(proxy.url, lanes=1)
    held = proxy.hold(b"first")
    first = asyncio.create_task(channel.read("ECHO", "first"))
    async with asyncio.timeout(5):
        await held.fired.wait()
    second = asyncio.create_task(channel.read("ECHO", "second"))
    await asyncio.sleep(0)
    closing = asyncio.create_task(channel.aclose())
    with pytest.raises(ServerUnavailableError, match="closed"):
        await second
    held.released.set()
    await closing
    assert await first == b"first"
    with pytest.raises(ServerUnavailableError, match="closed"):
        await channel.read("ECHO", "third")


async def test_closing_with_the_server_away_says_what_is_known(channel_to: Open, proxy: FaultProxy) -> None:
    channel = channel_to(proxy.url, lanes=1)
    await channel.run(count(operation="warm"))
    lost = proxy.drop_close(b"perhaps")
    perhaps = asyncio.create_task(channel.run(count(operation="perhaps"), patience_s=None))
    async with asyncio.timeout(5):
        await lost.fired.wait()
    proxy.shut()
    await channel.aclose()
    with pytest.raises(ServerError):
        await perhaps


async def test_a_lane_that_swallows_a_cancel_is_ended_all_the_same(url: str, namespace: str) -> None:
    # What a time-out that ends in the moment of the cancel does to a lane, done on purpose.
    entered = asyncio.Event()
    swallowed: list[Wire] = []

    async def greet(wire: Wire) -> None:
        entered.set()
        try:
            await asyncio.get_running_loop().create_future()
        except asyncio.CancelledError:
            if wire in swallowed:
                raise
            swallowed.append(wire)

    client = Redis(connection_pool=make_pool(url, client_name="test", call_timeout_s=1.0, connect_timeout_s=1.0))
    channel = Channel(client, Keyspace(namespace), name="test", call_timeout_s=1.0, patience_s=None, greet=greet)
    waiting = asyncio.create_task(channel.read("PING"))
    await entered.wait()
    async with asyncio.timeout(10):
        await channel.aclose()
    assert swallowed
    with pytest.raises(ServerUnavailableError):
        await waiting
    await client.aclose()
    await client.connection_pool.disconnect()
