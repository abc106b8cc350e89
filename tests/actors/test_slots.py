"""Slots are counted by host, and shared and solo ones apart."""

from __future__ import annotations

import random

from mycelium.actors.hosts.frames import ToolFacts
from mycelium.actors.terms import Isolation
from mycelium.actors.worker.slots import Slots
from mycelium.ledger.binding import Binding
from mycelium.ledger.states import EffectClass

READ = Binding(effect_class=EffectClass.READ)
TOOLS = {"look": ToolFacts(READ), "apart": ToolFacts(READ, isolation=Isolation.PROCESS)}


def slots_of_two() -> Slots:
    slots = Slots(random.Random(7))
    slots.add("host-1", 2, TOOLS)
    slots.add("solo-1", 1, TOOLS, solo=True)
    return slots


def test_the_two_kinds_are_taken_and_counted_apart() -> None:
    slots = slots_of_two()
    assert (slots.room(), slots.room(solo=True), slots.hosts) == (2, 1, 2)
    assert slots.take(solo=True) == "solo-1"
    assert slots.take(solo=True) is None
    assert [slots.take(), slots.take(), slots.take()] == ["host-1", "host-1", None]
    slots.give_back("solo-1")
    assert (slots.room(), slots.room(solo=True)) == (0, 1)


def test_tools_are_known_with_the_kind_of_place_that_they_take() -> None:
    known = slots_of_two().tools_in_turn()
    assert {name: tool.alone for name, tool in known.items()} == {"look": False, "apart": True}


def test_a_busy_host_gives_no_slot_until_it_answers_and_loses_none_meanwhile() -> None:
    slots = slots_of_two()
    assert slots.take() == "host-1"
    slots.close("host-1")
    assert (slots.room(), slots.take(), slots.busy) == (0, None, 1)
    slots.give_back("host-1")
    slots.open("host-1")
    assert (slots.room(), slots.busy) == (2, 0)


def test_a_host_that_has_gone_takes_its_slots_and_its_silence_with_it() -> None:
    slots = slots_of_two()
    slots.close("host-1")
    slots.remove("host-1")
    slots.give_back("host-1")
    slots.close("host-1")
    assert (slots.room(), slots.hosts, slots.busy) == (0, 1, 0)
    slots.add("host-1", 1, TOOLS)
    assert slots.room() == 1
