"""Stops stray keys and keys that stay for ever: each is named in leases/keys.py, ended ones have a TTL (S7)."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

import pytest
from redis.asyncio import Redis

from kit.holder import Holder, holder
from mycelium.leases import keys
from mycelium.leases.keys import Keyspace
from mycelium.leases.store import open_store
from mycelium.ledger.binding import Binding
from mycelium.ledger.canon import canonical
from mycelium.ledger.identity import identify
from mycelium.ledger.states import EffectClass, Settle
from mycelium.ledger.submit import Intent, submit
from mycelium.ledger.verdict import Said, due, record_if_unknown

ROOT = Path(__file__).parents[2]
NAMES = {name for name, _ in inspect.getmembers(Keyspace, inspect.isfunction) if not name.startswith("_")}
CHANNELS = {"settled", "bell"}
"""Published to, never stored."""


def strays(found: dict[str, int], tag: str, *, open_ids: frozenset[str]) -> list[str]:
    """Say which keys should not be as they are.

    Args:
        found: key to its TTL in milliseconds, -1 for none.
        tag: the prefix of all.
        open_ids: transitions and sessions that have not ended.
    """
    wrong: list[str] = []
    for key, ttl_ms in found.items():
        _, _, rest = key.partition(tag + ":")
        name, _, subject = rest.partition(":")
        allowed = name in keys.PERMANENT or (name in keys.OPEN_ONLY and subject in open_ids)
        if name not in NAMES or (ttl_ms < 0 and not allowed):
            wrong.append(key)
    return wrong


def test_the_three_lists_of_lifetimes_name_every_key_once() -> None:
    listed = [*keys.PERMANENT, *keys.OPEN_ONLY, *keys.ENDED]
    assert sorted(listed) == sorted(NAMES - CHANNELS - {"tag"})


def test_lua_and_python_build_the_same_keys() -> None:
    lua = (ROOT / "leases" / "lua" / "lib" / "keys.lua").read_text()
    built = dict(re.findall(r"local function (\w+)_key\((?:\w*)\) return tag \.\. '([^']+)'", lua))
    assert set(built) == NAMES
    space = Keyspace("n")
    for name, suffix in built.items():
        method = getattr(space, name)
        wanted = method("X") if inspect.signature(method).parameters else method()
        assert wanted == space.tag + suffix + ("X" if suffix.endswith(":") else "")


def test_a_stray_key_is_seen() -> None:
    found = {"{n}:row:a": -1, "{n}:row:b": -1, "{n}:result:a": -1, "{n}:meta": -1, "{n}:lock": 5, "{n}:session:s": 9}
    assert strays(found, "{n}", open_ids=frozenset({"a"})) == ["{n}:row:b", "{n}:result:a", "{n}:lock"]


@pytest.mark.parametrize("verb", [Settle.COMPLETED, Settle.FAILED, Settle.UNKNOWN, Settle.RELEASED, Settle.DIED])
async def test_what_has_ended_goes_and_what_is_open_stays(url: str, namespace: str, verb: Settle) -> None:
    async with holder(url, namespace, ["t"]) as worker:
        await _submit(worker)
        for grant in await worker.claim():
            await worker.settle(grant, verb, body=b"1")
        still_open = {"read", "write"} if verb in {Settle.RELEASED, Settle.DIED} else {"write"}
        if verb in {Settle.COMPLETED, Settle.FAILED}:
            still_open = set()
        elif verb is Settle.UNKNOWN:
            still_open = {"read", "write"}
        open_ids = frozenset({*still_open, worker.session.id})
        assert strays(await _keys(url, namespace), worker.store.keys.tag, open_ids=open_ids) == []


@pytest.mark.parametrize("said", [Said.COMPLETED, Said.NOT_EXECUTED])
async def test_what_a_verdict_ends_goes_too(url: str, namespace: str, said: Said) -> None:
    async with holder(url, namespace, ["t"]) as worker:
        await _submit(worker)
        for _ in range(Binding().max_attempts):
            for grant in await worker.claim():
                await worker.settle(grant, Settle.UNKNOWN, body=b"1")
            for doubt in await due(worker.store.calls, ["t"], page=10, put_off_s=0.0):
                await record_if_unknown(worker.store.calls, doubt, said, by="test", body=b"2")
        open_ids = frozenset({worker.session.id})
        assert strays(await _keys(url, namespace), worker.store.keys.tag, open_ids=open_ids) == []


async def test_a_session_that_is_closed_leaves_nothing(url: str, namespace: str) -> None:
    store = await open_store(url, namespace=namespace)
    async with holder(url, namespace, []) as worker:
        await worker.session.close()
        assert strays(await _keys(url, namespace), store.keys.tag, open_ids=frozenset()) == []
    await store.aclose()


async def _submit(worker: Holder) -> None:
    for name, effect_class in (("read", EffectClass.READ), ("write", EffectClass.NON_IDEMPOTENT_MUTATE)):
        identity = identify("t", effect_class, canonical({"x": name}), request_id=name, namespace="n")
        await submit(
            worker.store.calls, [Intent(identity=identity, tool="t", binding=Binding(effect_class=effect_class))]
        )


async def _keys(url: str, namespace: str) -> dict[str, int]:
    async with Redis.from_url(url) as client:
        return {key.decode(): await client.pttl(key) async for key in client.scan_iter(f"{{{namespace}}}*")}
