"""Facts 64–69 of the study of the first seed: a store that is away, damaged or forgetful."""

from __future__ import annotations

import logging

import pytest
from seed.stage import HASTY, Body, BrokenError, Stage, bound, charge

from kit.fixtures import StartServer
from kit.ledger import Client
from mycelium import ServerError, ServerUnfitError, State, side_effect
from mycelium.actors import effect

PAYMENT = bound("payment")


def test_fact_64_no_body_runs_where_the_store_cannot_be_asked_and_the_cause_is_kept(stage: Stage) -> None:
    body = Body()
    away = stage.another(url="redis://127.0.0.1:1", store=HASTY)
    with pytest.raises(ServerError) as error:
        charge(away, body, effect_class="payment")(1, request_id="r1")
    assert body.runs == 0
    assert isinstance(error.value.__cause__ or error.value.__context__, Exception)


def test_fact_65_a_store_that_is_away_never_hides_what_the_tool_raised(
    stage: Stage, start_server: StartServer, caplog: pytest.LogCaptureFixture
) -> None:
    server = start_server()

    def breaks(amount: int) -> None:
        server.stop()
        raise BrokenError("its own")

    kept = stage.another(url=server.url, store=HASTY)
    with caplog.at_level(logging.ERROR), pytest.raises(BrokenError, match="its own"):
        charge(kept, breaks, effect_class="payment")(1, request_id="r1")
    assert "'r1' failed could not be recorded" in caplog.text


def test_fact_66_a_data_set_of_another_schema_is_refused(stage: Stage, client: Client) -> None:
    """Differs: the data set has one version, not each row."""
    stage.claimed(stage.noon, "r1", PAYMENT)
    client.hset(stage.key("r1").rpartition(":row:")[0] + ":meta", "schema", "3")
    with pytest.raises(ServerUnfitError, match="schema"):
        stage.claimed(stage.another(), "r1", PAYMENT)


def test_fact_67_outside_of_any_call_a_mark_warns_and_does_nothing() -> None:
    effect._warn_outside.cache_clear()
    with pytest.warns(RuntimeWarning, match="record nothing"), side_effect():
        pass


@pytest.mark.parametrize("lost, kept", [("boundary", None), ("class", None), ("mode", None), ("boundary", "far")])
def test_fact_68_a_completed_row_that_lost_a_field_is_repaired_and_returned(
    stage: Stage, client: Client, lost: str, kept: str | None
) -> None:
    body = Body()
    tool = charge(stage.noon, body, effect_class="payment")
    tool(1, request_id="r1")
    if kept:
        client.hset(stage.key("r1"), lost, kept)
    else:
        client.hdel(stage.key("r1"), lost)
    assert tool(1, request_id="r1") == "done"
    assert (body.runs, stage.row("r1").state) == (1, State.COMPLETED)


def test_fact_69_an_open_row_has_no_expiry_so_none_evaporates(stage: Stage, client: Client) -> None:
    """Differs: theirs expires open rows and restores them from a second copy; see also E11 in tests/ledger."""
    stage.attempting(stage.noon, "r1", PAYMENT)
    assert client.pttl(stage.key("r1")) == -1
    entry = stage.attempting(stage.noon, "r2", PAYMENT)
    stage.noon.fail(entry, BrokenError(), failed_after_effect=True)
    assert client.pttl(stage.key("r2")) == -1
    stage.noon.complete(stage.attempting(stage.noon, "r3", PAYMENT), 1)
    assert client.pttl(stage.key("r3")) > 0
