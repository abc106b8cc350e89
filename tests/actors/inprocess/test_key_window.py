"""A provider's key protects inside its window: whoever comes later sends nothing, and what is in doubt is shown."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import timedelta

import pytest

from kit.ledger import NOON_MS
from mycelium import (
    ActionLedger,
    BadCallError,
    Binding,
    EffectClass,
    LedgerHardBlockError,
    LedgerSettings,
    Retention,
    State,
    StoreSettings,
    ledger_sync,
)

KEYED = Binding(effect_class=EffectClass.KEYED_MUTATE, key_param="key", key_window_s=100.0, timeout_s=10.0)
At = Callable[[float], ActionLedger]


class GatewayError(Exception):
    """The provider hung up."""


@pytest.fixture
def at(url: str, namespace: str) -> Iterator[At]:
    """A ledger of its own process, so many seconds after noon."""
    made: list[ActionLedger] = []

    def ledger_at(second: float) -> ActionLedger:
        settings = LedgerSettings(store=StoreSettings(now_ms=NOON_MS + round(second * 1000)))
        made.append(ActionLedger(url, namespace=namespace, settings=settings))
        return made[-1]

    yield ledger_at
    for ledger in made:
        ledger.close()


def call(ledger: ActionLedger, sent: list[str], *, fails: bool) -> None:
    @ledger_sync(binding=KEYED, ledger=ledger, name="charge")
    def charge(order: str, key: str) -> str:
        sent.append(key)
        if fails:
            raise GatewayError(order)
        return order

    charge("A", request_id="r1")


def test_inside_the_window_the_same_key_is_sent_again(at: At) -> None:
    sent: list[str] = []
    with pytest.raises(GatewayError):
        call(at(0), sent, fails=True)
    call(at(80), sent, fails=False)
    assert len(sent) == 2
    assert len(set(sent)) == 1


def test_what_the_timeout_may_carry_past_the_window_is_not_sent(at: At) -> None:
    sent: list[str] = []
    with pytest.raises(GatewayError):
        call(at(0), sent, fails=True)
    with pytest.raises(LedgerHardBlockError) as refused:
        call(at(91), sent, fails=False)
    assert (refused.value.why, len(sent)) == ("key_over", 1)


def test_a_row_that_was_lost_on_its_way_to_a_second_sending_becomes_unknown_again(at: At) -> None:
    sent: list[str] = []
    with pytest.raises(GatewayError):
        call(at(0), sent, fails=True)
    # Claimed for a second sending by a process that dies before it decides.
    died = at(50)

    @ledger_sync(binding=KEYED, ledger=died, name="charge")
    def charge(order: str, key: str) -> str:
        raise AssertionError

    prepared = charge.ledgered.prepare(("A",), {"request_id": "r1"})
    died.engine.begin(replace(prepared, by_hand=True))
    late = at(1000)
    with pytest.raises(LedgerHardBlockError) as refused:
        call(late, sent, fails=False)
    assert (refused.value.why, len(sent)) == ("key_over", 1)
    record = late.record("r1")
    assert (record.state, record.error) == (State.UNKNOWN, "KeyWindowOver")


def test_a_row_that_would_be_forgotten_inside_the_window_is_refused_before_anything_runs(
    url: str, namespace: str
) -> None:
    sent: list[str] = []
    settings = LedgerSettings(retention=Retention(row=timedelta(seconds=99)))
    ledger = ActionLedger(url, namespace=namespace, settings=settings)
    with ledger, pytest.raises(BadCallError, match="key window"):
        call(ledger, sent, fails=False)
    assert sent == []
