"""An operator cancels a call that a program runs itself: it is asked, it ends as it ends, and it never runs again."""

from __future__ import annotations

import pytest

from kit.inprocess import CLASSES, Boom, Runs, World, tool
from mycelium import CancelReply, LedgerHardBlockError
from mycelium.actors.effect import side_effect
from mycelium.ledger.cancel import cancel
from mycelium.ledger.requeue import requeue


def cancel_from_outside(here: World, request_id: str) -> CancelReply:
    return here.on_store(lambda store: cancel(store, request_id, by="ops", reason="wrong order")).word


@pytest.mark.parametrize("effect_class", CLASSES)
def test_a_body_that_is_at_it_ends_as_it_ends(here: World, effect_class: str) -> None:
    def body(order: str) -> str:
        assert cancel_from_outside(here, "r1") is CancelReply.ASKED
        # It stays asked until its end: there is nobody who could stop a body in its program.
        assert here.state("r1") == "attempting"
        return order

    act = tool(here.ledger(), body, effect_class)
    assert act("A", request_id="r1") == "A"
    here.idle()
    assert here.state("r1") == "completed"
    assert act("A", request_id="r1") == "A"
    assert cancel_from_outside(here, "r1") is CancelReply.ENDED


@pytest.mark.parametrize("effect_class", CLASSES)
def test_what_failed_before_its_effect_is_not_tried_again(here: World, effect_class: str) -> None:
    runs = Runs()

    def body(order: str) -> str:
        runs.note()
        cancel_from_outside(here, "r1")
        raise Boom(order)

    act = tool(here.ledger(), body, effect_class, explicit=True)
    with pytest.raises(Boom):
        act("A", request_id="r1")
    here.idle()
    assert here.state("r1") in {"failed", "cancelled"}
    with pytest.raises(LedgerHardBlockError) as blocked:
        act("A", request_id="r1")
    assert runs.count == 1
    if effect_class in {"read", "idempotent_mutate", "keyed_mutate"}:
        assert blocked.value.why == "cancelled"


@pytest.mark.parametrize("effect_class", CLASSES[1:])
def test_what_may_have_had_its_effect_is_found_out_and_not_tried_again(here: World, effect_class: str) -> None:
    runs = Runs()

    def body(order: str) -> str:
        with side_effect():
            runs.note()
            cancel_from_outside(here, "r1")
            raise Boom(order)

    act = tool(here.ledger(), body, effect_class)
    with pytest.raises(Boom):
        act("A", request_id="r1")
    here.idle()
    assert here.state("r1") == "unknown"
    with pytest.raises(LedgerHardBlockError):
        act("A", request_id="r1")
    assert runs.count == 1
    assert cancel_from_outside(here, "r1") is CancelReply.UNKNOWN


def test_a_call_that_is_requeued_after_its_cancel_is_let_run_by_who_asked_for_that(here: World) -> None:
    runs = Runs()

    def body(order: str) -> str:
        if runs.note() == 1:
            cancel_from_outside(here, "r1")
            raise Boom(order)
        return order

    act = tool(here.ledger(), body, "idempotent_mutate", explicit=True)
    with pytest.raises(Boom):
        act("A", request_id="r1")
    here.idle()
    assert here.on_store(lambda store: requeue(store, "r1", by="ops", reason="it was right")) == "r1"
    # Ready, as a job: its caller may come first.
    assert act("A", request_id="r1") == "A"
