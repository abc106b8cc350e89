"""Broken designs: the product's own text with something replaced, or a store that forgets."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from types import ModuleType
from typing import Protocol

from kit.ledger import TTL_MS, Client, Ledger
from kit.ledger_world import World
from mycelium.leases.scripts import REGISTRY
from mycelium.reconcilers import resolve

WAITS_MS = 10 * TTL_MS
"""How long the second holder's session lasts: it outlives what the schedules wait for."""


class Mutant(Protocol):
    """One broken design."""

    def seed(self, world: World) -> None:
        """Break a world that has not begun."""
        ...


@dataclass(frozen=True, slots=True)
class Scripted:
    """In the text of a script, each `right` becomes its `wrong`."""

    script: str
    changes: tuple[tuple[str, str], ...]

    def seed(self, world: World) -> None:
        source = REGISTRY[f"mycelium.ledger/{self.script}"].source
        world.ledger.sources[self.script] = _changed(self.script, source, self.changes)


@dataclass(frozen=True, slots=True)
class Judged:
    """In the rules by which a provider's answer is judged, `right` becomes `wrong`."""

    right: str
    wrong: str

    def seed(self, world: World) -> None:
        text = _changed("resolve", inspect.getsource(resolve), ((self.right, self.wrong),))
        module = ModuleType(resolve.__name__)
        module.__package__ = resolve.__package__
        exec(compile(text, resolve.__name__, "exec"), module.__dict__)  # noqa: S102 - the product's own text
        world.conclude = module.conclude


@dataclass(frozen=True, slots=True)
class Forgetful:
    """The store loses a write that it acknowledged."""

    def seed(self, world: World) -> None:
        world.forgets = True


def script(name: str, right: str, wrong: str) -> Scripted:
    """A script with one change."""
    return Scripted(name, ((right, wrong),))


def _changed(name: str, text: str, changes: tuple[tuple[str, str], ...]) -> str:
    for right, wrong in changes:
        assert text.count(right) == 1, f"{name} has {text.count(right)} times {right!r}, and no longer once"
        text = text.replace(right, wrong)
    return text


@contextmanager
def worlds(client: Client, namespace: str) -> Generator[Callable[[Mutant | None], World]]:
    """Worlds on the real product, or with something broken; two holders have their sessions."""
    made: list[Ledger] = []

    def make(mutant: Mutant | None) -> World:
        ledger = Ledger(client, f"{namespace}.{len(made)}")
        made.append(ledger)
        world = World(ledger)
        if mutant:
            mutant.seed(world)
        ledger.found()
        ledger.open("s1")
        ledger.open("s2", ttl_ms=WAITS_MS)
        return world

    yield make
    for ledger in made:
        ledger.drop()


def forgetting(world: World, request_id: str, write: Callable[[], object]) -> None:
    """Write to a row; a store that forgets stands as before, its answer notwithstanding."""
    keys, ledger = world.ledger.keys, world.ledger
    places = (keys.row(request_id), keys.meta(), keys.states(), keys.counters(), keys.held("s1"))
    before = {place: ledger.client.dump(place) for place in places}
    write()
    if world.forgets:
        for place, dumped in before.items():
            ledger.client.delete(place)
            if dumped is not None:
                ledger.client.restore(place, 0, dumped, replace=True)


Design = tuple[Mutant, Callable[[World], None], str]
"""What is broken, the schedule that shows it, and the invariant that catches it."""


def caught(world_of: Callable[[Mutant | None], World], design: Design) -> None:
    """The real product stands the schedule, and the broken one is caught by the same checks."""
    mutant, schedule, fault = design
    right, broken = world_of(None), world_of(mutant)
    schedule(right)
    assert right.faults() == []
    schedule(broken)
    assert any(found.startswith(fault) for found in broken.faults()), broken.faults()
