"""Decision predicates: registered and taken back one by one, from any thread, and over a fork."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Generator

import pytest

from mycelium.leases.errors import SettingsError
from mycelium.ledger.about import About
from mycelium.ledger.decision import DecisionIntent, DecisionSnapshot, Predicates, PredicateVerdict
from mycelium.ledger.states import EffectClass

INTENT = DecisionIntent("charge", EffectClass.READ, "r", "e", {}, About())
NOW = DecisionSnapshot(1, 1, "1")


def allows(_intent: DecisionIntent, _now: DecisionSnapshot) -> PredicateVerdict:
    return PredicateVerdict(allowed=True)


def denies(_intent: DecisionIntent, _now: DecisionSnapshot) -> PredicateVerdict:
    return PredicateVerdict(allowed=False, reason="no")


def asked(predicates: Predicates) -> list[str]:
    return [verdict.predicate for verdict in predicates.decide(INTENT, NOW).verdicts]


def test_predicates_are_asked_in_the_order_of_their_registration() -> None:
    predicates = Predicates()
    for name in ("b", "a", "c"):
        predicates.add(name, allows)
    assert asked(predicates) == ["b", "a", "c"]


@pytest.mark.parametrize("name", ["taken", "", "x" * 65, "a\nb"])
def test_a_name_that_is_taken_or_none_is_refused_and_changes_nothing(name: str) -> None:
    predicates = Predicates()
    predicates.add("taken", denies)
    with pytest.raises(SettingsError):
        predicates.add(name, allows)
    assert (asked(predicates), predicates.decide(INTENT, NOW).allowed) == (["taken"], False)


def test_taking_back_twice_does_not_take_back_what_was_registered_anew() -> None:
    predicates = Predicates()
    take_back = predicates.add("limit", denies)
    take_back()
    predicates.add("limit", denies)
    take_back()
    assert not predicates.decide(INTENT, NOW).allowed


def test_a_predicate_may_register_and_take_back_others() -> None:
    predicates = Predicates()

    def adds(_intent: DecisionIntent, _now: DecisionSnapshot) -> PredicateVerdict:
        predicates.add("another", denies)
        return PredicateVerdict(allowed=True)

    predicates.add("adds", adds)
    assert asked(predicates) == ["adds"]
    assert len(predicates) == 2


@pytest.fixture
def switching() -> Generator[None, None, None]:
    """Threads that take turns as often as they can."""
    before_s = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before_s)


@pytest.mark.usefixtures("switching")
def test_no_registration_of_many_threads_is_lost_and_one_of_each_name_wins() -> None:
    predicates, start, refused = Predicates(), threading.Barrier(8), list[str]()

    def register(own: int) -> None:
        start.wait()
        for number in range(200):
            predicates.add(f"{own}-{number}", allows)
            try:
                predicates.add(f"shared-{number}", allows)
            except SettingsError:
                refused.append(f"shared-{number}")

    threads = [threading.Thread(target=register, args=(own,)) for own in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (len(predicates), len(refused)) == (9 * 200, 7 * 200)


class ForksWhileItIsRegistered(str):  # noqa: SLOT000 - it carries what it asks and learns
    """A name that forks in the middle of a registration; the child asks all predicates, and leaves by the answer."""

    predicates: Predicates
    left_by: int

    def isprintable(self) -> bool:
        if (child := os.fork()) == 0:
            signal.alarm(10)  # one that hangs ends by it
            os._exit(0 if asked(self.predicates) == ["limit"] else 1)
        self.left_by = os.waitpid(child, 0)[1]
        return True


def test_a_child_that_was_forked_in_the_middle_of_a_registration_asks_what_was_registered() -> None:
    predicates = Predicates()
    predicates.add("limit", denies)
    name = ForksWhileItIsRegistered("later")
    name.predicates = predicates
    predicates.add(name, allows)
    assert name.left_by == 0
    assert asked(predicates) == ["limit", "later"]
