"""The fault proxy of the tests does what it says: what ran, ran, and exactly the named reply is missing."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest
from redis.asyncio import Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import ConnectionError as LostError

from kit.proxy import FaultProxy
from kit.resp import frame_end
from kit.servers import RealServer

StartProxy = Callable[[str], Awaitable[FaultProxy]]


@pytest.fixture
async def direct(url: str) -> AsyncIterator[Redis]:
    async with Redis.from_url(url) as client:
        yield client


@pytest.fixture
async def client(proxy: FaultProxy) -> AsyncIterator[Redis]:
    async with Redis.from_url(proxy.url, retry=Retry(NoBackoff(), 0), socket_timeout=None) as through:
        yield through


async def test_without_an_arm_everything_passes(client: Redis, namespace: str) -> None:
    body = b"x" * 300_000 + b"\r\n*3\r\n"
    await client.set(namespace, body)
    assert await client.get(namespace) == body
    async with client.pipeline(transaction=True) as pipe:
        pipe.hset(f"{namespace}:h", mapping={"a": "1", "b": "2"})
        pipe.hgetall(f"{namespace}:h")
        pipe.get("none")
        assert await pipe.execute() == [2, {b"a": b"1", b"b": b"2"}, None]


async def test_drop_close_runs_the_command_and_loses_its_reply(
    proxy: FaultProxy, client: Redis, direct: Redis, namespace: str
) -> None:
    arm = proxy.drop_close(b"INCR", nth=2)
    await client.incr(namespace)
    with pytest.raises(LostError):
        await client.incr(namespace)
    assert arm.fired.is_set()
    assert await direct.get(namespace) == b"2"
    assert await client.incr(namespace) == 3
    assert arm.seen == 3


async def test_in_a_pipeline_only_the_named_reply_and_those_after_it_are_lost(
    proxy: FaultProxy, namespace: str
) -> None:
    proxy.drop_close(b"second")
    reader, writer = await asyncio.open_connection("127.0.0.1", int(proxy.url.rpartition(":")[2]))
    writer.write(b"PING first\r\nPING second\r\nPING third\r\n")
    assert await reader.read() == b"$5\r\nfirst\r\n"
    writer.close()
    await writer.wait_closed()


async def test_drop_hang_runs_the_command_and_stays_silent(
    proxy: FaultProxy, client: Redis, direct: Redis, namespace: str
) -> None:
    arm = proxy.drop_hang(namespace.encode())
    waiting = asyncio.ensure_future(client.incr(namespace))
    await arm.fired.wait()
    assert await direct.get(namespace) == b"1"
    assert not waiting.done()
    proxy.cut()
    with pytest.raises(LostError):
        await waiting


async def test_a_held_reply_comes_when_it_is_released(
    proxy: FaultProxy, client: Redis, direct: Redis, namespace: str
) -> None:
    arm = proxy.hold(b"INCR")
    waiting = asyncio.ensure_future(client.incr(namespace))
    await arm.fired.wait()
    assert await direct.get(namespace) == b"1"
    assert not waiting.done()
    arm.released.set()
    assert await waiting == 1


async def test_a_delayed_reply_comes_by_itself(proxy: FaultProxy, client: Redis, namespace: str) -> None:
    proxy.delay(0.01, b"INCR")
    assert await client.incr(namespace) == 1


@pytest.mark.parametrize("fault", ["blackhole", "cut_before"])
async def test_a_command_that_never_arrives_does_not_run(
    proxy: FaultProxy, client: Redis, direct: Redis, namespace: str, fault: str
) -> None:
    arm = proxy.blackhole(b"INCR") if fault == "blackhole" else proxy.cut_before(b"INCR")
    waiting = asyncio.ensure_future(client.incr(namespace))
    await arm.fired.wait()
    assert await direct.get(namespace) is None
    proxy.cut()
    with pytest.raises(LostError):
        await waiting


async def test_refused_connections(proxy: FaultProxy, client: Redis) -> None:
    proxy.refuse(1)
    with pytest.raises(LostError):
        await client.ping()
    assert await client.ping()


async def test_shut_and_reopened_at_the_same_address(proxy: FaultProxy, client: Redis) -> None:
    assert await client.ping()
    proxy.shut()
    with pytest.raises(LostError):
        await client.ping()
    await proxy.reopen()
    assert await client.ping()


async def test_subscriptions_pass(client: Redis, direct: Redis, namespace: str) -> None:
    async with client.pubsub() as channel:
        await channel.subscribe(namespace, f"{namespace}:2")
        assert [(await anext(channel.listen()))["type"] for _ in range(2)] == ["subscribe", "subscribe"]
        await direct.publish(namespace, "hello")
        assert (await anext(channel.listen()))["data"] == b"hello"


async def test_a_server_behind_a_port(start_server: Callable[..., RealServer], start_proxy: StartProxy) -> None:
    through = await start_proxy(start_server(port=0).url)
    async with Redis.from_url(through.url) as client:
        assert await client.ping()


@pytest.mark.parametrize(
    "frame",
    [
        b"+OK\r\n",
        b"$-1\r\n",
        b"$0\r\n\r\n",
        b"*-1\r\n",
        b"*0\r\n",
        b"*2\r\n$4\r\na\r\nb\r\n:1\r\n",
        b"%1\r\n+k\r\n*1\r\n_\r\n",
        b"|1\r\n+k\r\n+v\r\n#t\r\n",
        b">2\r\n+a\r\n+b\r\n",
        b"PING\r\n",
    ],
)
def test_a_frame_ends_where_it_ends_and_not_before(frame: bytes) -> None:
    assert frame_end(frame + b"+more\r\n") == len(frame)
    assert [frame_end(frame[:cut]) for cut in range(len(frame))] == [None] * len(frame)
