"""The actor of a tool host, with a real process under it: what cannot be sent to it."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from functools import partial
from typing import cast

from kit.hosting import soon
from mycelium.actors.attempt import Attempt
from mycelium.actors.host import Host
from mycelium.actors.hosts.frames import FRAME_LIMIT_BYTES, Outcome
from mycelium.actors.messages import AskAdapter, HostReady, Ran, Start
from mycelium.actors.runtime import Actor, ActorSystem, ChildSpec, supervise
from mycelium.actors.settings import WorkerSettings
from mycelium.actors.settling import settlement_of
from mycelium.leases.session import Session
from mycelium.leases.store import Store, open_store
from mycelium.ledger.binding import Binding
from mycelium.ledger.states import Boundary, BoundaryMode, EffectClass, Settle
from mycelium.ledger.turn import Grant
from mycelium.ledger.verdict import Doubt
from mycelium.reconcilers.verdict import VerdictWord

HUGE = b'{"order":"' + b"x" * FRAME_LIMIT_BYTES + b'"}'


class Collector(Actor[object]):
    """In the place of an actor that the host talks to."""

    def __init__(self, heard: asyncio.Queue[object]) -> None:
        self._heard = heard

    async def receive(self, message: object) -> object:
        self._heard.put_nowait(message)
        return None


class Trusted:
    """In the place of a session."""

    trusted_until_s = float("inf")

    def trusted(self) -> bool:
        return True


def attempt_with(args: bytes, fence: str) -> Attempt:
    grant = Grant("r", fence, 1, "look_up", EffectClass.READ, BoundaryMode.NONE, "e", 0, "", args)
    binding = Binding(effect_class=EffectClass.READ, boundary_mode=BoundaryMode.NONE)
    return Attempt(grant, binding, cast("Session", Trusted()), host="host-1")


def tree(store: Store, turns: asyncio.Queue[object]) -> ChildSpec:
    """One host with one slot, where its names are those of a worker's tree."""
    settings = WorkerSettings(app="mycelium.examples.airline.tools", url=store.url, hosts=1, slots=1)
    rest: asyncio.Queue[object] = asyncio.Queue()
    control = supervise(
        "control",
        [
            ChildSpec("turns", partial(Collector, turns)),
            ChildSpec("host-1", partial(Host, store, settings, random.Random(7)), start_within_s=60.0),
        ],
    )
    return supervise("worker", [ChildSpec("reconciler", partial(Collector, rest)), control])


@asynccontextmanager
async def hosted(url: str, namespace: str) -> AsyncGenerator[tuple[ActorSystem, asyncio.Queue[object]], None]:
    """A started host, and what it tells the turns."""
    turns: asyncio.Queue[object] = asyncio.Queue()
    store = await open_store(url, namespace=namespace)
    try:
        async with ActorSystem(tree(store, turns)) as system:
            assert isinstance(await soon(turns.get()), HostReady)
            yield system, turns
    finally:
        await store.aclose()


async def test_arguments_above_the_frame_limit_fail_and_the_slot_is_free_again(url: str, namespace: str) -> None:
    async with hosted(url, namespace) as (system, turns):
        host = system.find("/worker/control/host-1")
        huge, small = attempt_with(HUGE, "1"), attempt_with(b'{"order":"o"}', "2")
        host.tell(Start(huge))
        host.tell(Start(small))
        told, next_one = await soon(turns.get()), await soon(turns.get())
    assert isinstance(told, Ran)
    assert told.attempt is huge
    assert (told.done.outcome, told.done.boundary) == (Outcome.NOT_EXECUTED, Boundary.NOT_CROSSED)
    settlement = settlement_of(huge, told.done, random.Random(7))
    assert (settlement.verb, settlement.error) == (Settle.FAILED, "PayloadTooLarge")
    assert isinstance(next_one, Ran)
    assert next_one.attempt is small


async def test_a_question_above_the_frame_limit_stays_unknown(url: str, namespace: str) -> None:
    async with hosted(url, namespace) as (system, turns):
        doubt = Doubt("r", "1", "look_up", EffectClass.READ, "e", 1, "", 1000, True, 0, 1000, "", HUGE)
        question = AskAdapter(doubt, 5.0)
        system.find("/worker/control/host-1").tell(question)
        verdict = await soon(question.answer)
        assert turns.empty()  # the host has not gone
    assert verdict.word is VerdictWord.UNKNOWN
