"""What makes two calls the same: request ids, scopes, dispatches and tickets, and golden vectors of them."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from mycelium.leases.errors import BadCallError, MissingRequestIdentityError
from mycelium.ledger.canon import CANON_VERSION
from mycelium.ledger.identity import Identity, Scope, identify, request_id_from

Value = Any
"""Whatever the rule is asked about."""
VECTORS = json.loads((Path(__file__).parent / "canon_vectors.json").read_text(encoding="utf-8"))
RUN = Scope(run_id="run-7", step=3)


def named(args: bytes = b"{}", *, tool: str = "charge", effect_class: str = "keyed_mutate", **more: Value) -> Identity:
    return identify(tool, effect_class, args, namespace=more.pop("namespace", "n"), **more)


# ── golden vectors: these digests are in people's ledgers, and at their providers ────────────────────────────────────


def sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


@pytest.mark.parametrize("vector", VECTORS["identity"], ids=lambda vector: vector["name"])
def test_an_identity_never_changes(vector: dict[str, Any]) -> None:
    call = dict(vector["call"])
    scope = Scope(**call.pop("scope")) if "scope" in call else None
    destination = call.pop("destination", "").encode()
    identity = identify(**{**call, "args": call["args"].encode()}, scope=scope, destination=destination)
    assert identity.effect_id == vector["effect_id"] == sha256(vector["effect_preimage"])
    assert identity.request_id == vector["request_id"]
    assert identity.ticket == vector["ticket"]
    assert identity.share == vector["share"]
    for name in ("request", "ticket", "share"):
        if f"{name}_preimage" in vector:
            assert sha256(vector[f"{name}_preimage"]) == vector["request_id" if name == "request" else name]


def test_the_vectors_are_of_this_version() -> None:
    assert VECTORS["version"] == CANON_VERSION
    assert all(f'/v{CANON_VERSION}"' in vector["effect_preimage"] for vector in VECTORS["identity"])


# ── an explicit request id ───────────────────────────────────────────────────────────────────────────────────────────


def test_a_request_id_is_kept_as_it_is() -> None:
    for request_id in ("charge-order:ORD-1", "é", "x" * 256, "a b"):
        assert named(request_id=request_id).request_id == request_id


@pytest.mark.parametrize(
    "request_id", ["", "   ", "\t", "a\nb", "a\tb", "a\x00", "x" * 257, "é" * 129, "\ud800", 7, b"x", "a\u200bb"]
)
def test_a_request_id_that_cannot_be_one_is_refused(request_id: Value) -> None:
    with pytest.raises(BadCallError, match="Nothing was submitted"):
        named(request_id=request_id)


def test_the_host_owns_an_explicit_id_whatever_the_scope() -> None:
    one = named(request_id="r", scope=RUN)
    assert one == named(request_id="r", scope=Scope(run_id="b", thread_id="c", node="d", step=2, ordinal=1))
    assert one == named(request_id="r")
    assert one.ticket == ""
    # A derived id may be told again as an explicit one: it then names another effect, and the ledger refuses it.
    derived = named(scope=RUN)
    told = named(request_id=derived.request_id)
    assert told.request_id == derived.request_id
    assert told.effect_id != derived.effect_id


def test_two_explicit_ids_are_two_effects_that_share_a_row_if_they_name_one_dispatch() -> None:
    one = named(request_id="one", dispatch_id="call_1", scope=RUN)
    two = named(request_id="two", dispatch_id="call_1", scope=RUN)
    assert one.effect_id != two.effect_id
    assert one.share == two.share == named(dispatch_id="call_1", scope=RUN).share
    assert (one.request_id, two.request_id, one.ticket) == ("one", "two", "")
    assert named(request_id="one").share == ""


def test_an_explicit_id_means_the_same_whatever_dispatch_it_comes_with() -> None:
    alone = named(request_id="one").effect_id
    for dispatch_id, scope in (("call_1", RUN), ("call_2", RUN), ("call_1", Scope(run_id="run-8"))):
        assert named(request_id="one", dispatch_id=dispatch_id, scope=scope).effect_id == alone


def test_a_dispatch_is_known_only_in_its_scope() -> None:
    one = named(request_id="one", dispatch_id="call_1", scope=RUN)
    for scope in (None, Scope(run_id="run-8", step=3), Scope(thread_id="run-7", step=3)):
        assert named(request_id="one", dispatch_id="call_1", scope=scope).share != one.share
    assert named(b'{"a":1}', request_id="one", dispatch_id="call_1", scope=RUN).share != one.share


def test_a_dispatch_id_is_no_request_id() -> None:
    assert named(request_id="x").effect_id != named(dispatch_id="x").effect_id


def test_a_request_id_can_come_from_an_argument() -> None:
    assert request_id_from("charge", "order", " ORD-1 ") == "charge:order:ORD-1"


@pytest.mark.parametrize("value", [None, "", " \t", 7, b"ORD-1", ["ORD-1"]])
def test_an_argument_that_names_nothing_is_refused(value: object) -> None:
    with pytest.raises(MissingRequestIdentityError, match="'order' of 'charge' names the effect"):
        request_id_from("charge", "order", value)


# ── a derived one ────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("scope", [None, Scope(), Scope(step=1), Scope(node="pay", ordinal=3)])
def test_without_any_id_a_call_is_refused(scope: Scope | None) -> None:
    with pytest.raises(MissingRequestIdentityError, match="could not be told from a new call"):
        named(scope=scope)


@pytest.mark.parametrize("given", [{"run_id": ""}, {"run_id": " "}, {"run_id": "r", "thread_id": ""}, {"node": "\t"}])
def test_a_blank_id_is_not_taken_for_none(given: Value) -> None:
    with pytest.raises(MissingRequestIdentityError, match="is blank"):
        named(scope=Scope(**given))


def test_a_blank_dispatch_id_is_not_taken_for_none() -> None:
    cases: list[dict[str, Value]] = [{}, {"request_id": "r"}]
    for more in cases:
        with pytest.raises(MissingRequestIdentityError, match="dispatch id is blank"):
            named(dispatch_id=" ", scope=RUN, **more)


@pytest.mark.parametrize("value", ["\ud800", 7, b"x"])
def test_ids_are_text(value: Value) -> None:
    for name in ("run_id", "thread_id", "node"):
        ids: dict[str, Value] = {"run_id": "r", name: value}
        with pytest.raises(BadCallError, match="Nothing was submitted"):
            named(scope=Scope(**ids))
    with pytest.raises(BadCallError, match="Nothing was submitted"):
        named(dispatch_id=value)


def test_a_thread_a_run_or_a_dispatch_is_enough() -> None:
    ids = [named(scope=Scope(thread_id="x")), named(scope=Scope(run_id="x")), named(dispatch_id="x")]
    assert len({one.request_id for one in ids}) == len({one.effect_id for one in ids}) == 3


def test_a_replay_after_the_tool_was_declared_anew_meets_its_row_and_is_another_effect() -> None:
    one = named(scope=RUN)
    changes: list[dict[str, Value]] = [
        {"effect_class": "read"},
        {"agent_id": "a"},
        {"policy_version": "2"},
        {"destination": b'"x"'},
        {"namespace": "m"},
    ]
    for change in changes:
        again = named(scope=RUN, **change)
        assert again.request_id == one.request_id
        assert again.effect_id != one.effect_id
    changes = [{"tool": "refund"}, {"args": b'{"a":1}'}, {"dispatch_id": "d"}]
    for change in changes:
        call: dict[str, Value] = {"scope": RUN, **change}
        assert named(**call).request_id != one.request_id


# ── tickets ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_ticket_names_the_dispatch_whatever_its_arguments() -> None:
    one = named(dispatch_id="call_1", scope=RUN)
    other = named(b'{"a":1}', dispatch_id="call_1", scope=RUN)
    assert one.ticket == other.ticket != ""
    assert one.request_id != other.request_id
    # The place inside of a run is not asked: a model's call id is unique in its run.
    assert (
        named(dispatch_id="call_1", scope=Scope(run_id="run-7", thread_id="t", node="n", step=9)).ticket == one.ticket
    )
    changes: list[dict[str, Value]] = [
        {"tool": "refund"},
        {"scope": Scope(run_id="run-8")},
        {"dispatch_id": "call_2"},
    ]
    for change in changes:
        call: dict[str, Value] = {"dispatch_id": "call_1", "scope": RUN, **change}
        assert named(**call).ticket != one.ticket


def test_a_thread_stands_for_a_run_that_is_not_named() -> None:
    one = named(dispatch_id="call_1", scope=Scope(thread_id="t"))
    assert one.ticket == named(b'{"a":1}', dispatch_id="call_1", scope=Scope(thread_id="t", node="n")).ticket
    assert one.ticket != named(dispatch_id="call_1").ticket


def test_without_a_dispatch_id_or_with_a_request_id_there_is_no_ticket() -> None:
    assert named(scope=RUN).ticket == ""
    assert named(request_id="r", dispatch_id="call_1", scope=RUN).ticket == ""


# ── the preimage ─────────────────────────────────────────────────────────────────────────────────────────────────────


def test_no_choice_of_parts_looks_like_another() -> None:
    words = (None, "1", 'r","1', "explicit")
    scopes = [
        Scope(run_id=run, thread_id=thread, node=node, step=step, ordinal=ordinal)
        for run in words
        for thread in words
        for node in (None, "1")
        for step in (None, 1, 11)
        for ordinal in (0, 1)
    ]
    tools = [("t", "read"), ("tread", "x"), ("t", "x"), ("1", "t")]
    more: list[dict[str, Value]] = [
        {"args": args, **who}
        for args in (b"{}", b'["t"]')
        for who in ({}, {"agent_id": "1"}, {"policy_version": "1"}, {"destination": b"1"}, {"namespace": "1"})
    ]
    effects = [
        named(tool=tool, effect_class=effect_class, scope=scope, dispatch_id=dispatch, **rest).effect_id
        for tool, effect_class in tools
        for rest in more
        for scope in scopes
        for dispatch in (None, "1")
        if dispatch or scope.run_id or scope.thread_id
    ]
    effects += [
        named(tool=tool, effect_class=effect_class, request_id=request_id, **rest).effect_id
        for tool, effect_class in tools
        for rest in more
        for request_id in ("r", "1", "explicit", "derived")
    ]
    assert len(set(effects)) == len(effects)
