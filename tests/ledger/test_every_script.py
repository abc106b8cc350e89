"""Every script: each reply word, refusals that write nothing, and the same answer when the reply was lost."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from kit.every_script import CASES, Case
from kit.ledger import NOON_MS, Client, Dump, Ledger, Reply, script_names, steady
from kit.ledger_checks import faults
from kit.proxy import FaultProxy
from mycelium.leases.scripts import REGISTRY
from mycelium.leases.store import StoreSettings, open_store

CASE = pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.id}-{case.make.__name__.partition('__')[2]}")
WORDS = {name: REGISTRY[name].header.replies for name in script_names()}


def words_of(case: Case, reply: Reply) -> tuple[str, ...]:
    """The reply words in a reply, without what stands between them."""
    known = WORDS[case.script]
    if case.script.endswith("/turn"):
        return (reply[0], *reply[6 : 6 + int(reply[4])])
    if case.script.endswith("/submit"):
        return (reply[0], *reply[1::3])
    if case.script.endswith(("/mark", "/progress")):
        return tuple(reply)
    return tuple(word for word in reply[:1] if word in known)


def test_every_script_has_a_case_for_each_of_its_words() -> None:
    tested: dict[str, set[str]] = {name: set() for name in script_names()}
    for case in CASES:
        tested[case.script].update(case.words)
    assert tested == {name: set(words) for name, words in WORDS.items()}


@CASE
def test_the_answer_and_what_a_second_sending_does(ledger: Ledger, case: Case) -> None:
    command = case.make(ledger)
    before = ledger.dump()
    first = ledger.run(command)
    once = ledger.dump()
    assert words_of(case, first) == case.words
    if case.refusal:
        assert steady(once, notes=False) == steady(before, notes=False)
    second = ledger.run(command)
    assert words_of(case, second) == (case.second or case.words)
    if case.second is None:
        assert second == first
    if case.words != ("more",):
        assert steady(ledger.dump()) == steady(once)


StartProxy = Callable[[str], Awaitable[FaultProxy]]


async def _through_a_lost_reply(ledger: Ledger, case: Case, proxy: FaultProxy, *, hang: bool) -> tuple[Reply, Dump]:
    """The case through a channel whose first reply is lost after the script ran."""
    store = await open_store(
        proxy.url,
        namespace=ledger.keys.namespace,
        settings=StoreSettings(now_ms=NOON_MS, call_timeout_s=0.15 if hang else 5.0, patience_s=20),
    )
    try:
        ledger.open()
        command = case.make(ledger)
        store.calls.now_ms = ledger.now_ms
        ledger.client.script_load(command.script.source)
        marker = command.script.sha.encode()
        arm = proxy.drop_hang(marker) if hang else proxy.drop_close(marker)
        reply = await store.calls.run(command)
        await asyncio.wait_for(arm.fired.wait(), 5)
        assert arm.seen == 2
        return reply, ledger.dump()
    finally:
        await store.aclose()


async def _checked(client: Client, namespace: str, case: Case, proxy: FaultProxy, *, hang: bool) -> None:
    direct = Ledger(client, namespace)
    direct.found()
    direct.open()
    command = case.make(direct)
    direct.run(command)
    if case.words == ("more",):
        direct.run(command)
    expected = direct.dump()
    lossy = Ledger(client, f"{namespace}.lossy")
    reply, dump = await _through_a_lost_reply(lossy, case, proxy, hang=hang)
    decoded = [part.decode() if isinstance(part, bytes) else part for part in reply]
    assert words_of(case, decoded) == (case.second or case.words)
    if case.words == ("more",):
        # Which row comes first in a page is chance.
        assert dump.keys() == expected.keys()
        assert dump["states"] == expected["states"]
    else:
        assert steady(dump) == steady(expected)
    if case.script.startswith("mycelium.ledger") and not case.refusal:
        assert faults(dump) == []
    direct.drop()
    lossy.drop()


@CASE
async def test_a_reply_that_is_lost_with_its_connection(
    client: Client, namespace: str, proxy: FaultProxy, case: Case
) -> None:
    await _checked(client, namespace, case, proxy, hang=False)


FIRST = {case.script: case for case in reversed(CASES)}


@pytest.mark.parametrize("case", FIRST.values(), ids=lambda case: case.id)
async def test_a_reply_that_never_comes(client: Client, namespace: str, proxy: FaultProxy, case: Case) -> None:
    await _checked(client, namespace, case, proxy, hang=True)
