"""What is said of a call: by itself, by the scope around it and by the hand-off; and what is refused."""

from __future__ import annotations

import enum
from typing import Any

import pytest

from mycelium.actors.arguments import Checked
from mycelium.actors.naming import Naming
from mycelium.actors.scopes import HANDOFF, SCOPE, execution_scope, handoff_scope
from mycelium.leases.errors import BadArgumentsError, BadCallError, MissingRequestIdentityError
from mycelium.ledger.about import About
from mycelium.ledger.binding import Binding
from mycelium.ledger.identity import Scope
from mycelium.ledger.states import EffectClass

READ = Binding(effect_class=EffectClass.READ)
KEYED = Binding(effect_class=EffectClass.KEYED_MUTATE, key_param="key")
Value = Any


class Node(enum.StrEnum):
    PAY = "pay"


class Text(str):
    __slots__ = ()


class Number(int):
    pass


def identity_of(naming: Naming) -> str:
    return naming.identity("t", READ, Checked({}, b"{}"), namespace="n").effect_id


# ── what a call says comes before what is said around it ─────────────────────────────────────────────────────────────


def test_an_ordinal_of_0_that_a_call_says_comes_before_the_scopes() -> None:
    with execution_scope(run_id="run", step=1, ordinal=1):
        assert Naming().scope().ordinal == 1
        assert Naming(ordinal=0).scope().ordinal == 0
        assert identity_of(Naming(ordinal=0)) != identity_of(Naming()) == identity_of(Naming(ordinal=1))


def test_an_ordinal_that_nobody_says_is_0() -> None:
    assert Naming(run_id="run").scope().ordinal == 0
    assert identity_of(Naming(run_id="run")) == identity_of(Naming(run_id="run", ordinal=0))


def test_a_step_of_0_that_a_call_says_comes_before_the_scopes() -> None:
    with execution_scope(run_id="run", step=3):
        assert (Naming().scope().step, Naming(step=0).scope().step) == (3, 0)


def test_a_scope_is_said_as_a_whole_or_part_by_part() -> None:
    whole = Scope(thread_id="t", run_id="r", node="n", step=2, ordinal=1)
    with execution_scope(whole):
        first = Naming().scope()
    with execution_scope(thread_id="t", run_id="r", node="n", step=2, ordinal=1):
        assert Naming().scope() == first == whole
    assert SCOPE.get() is None


# ── what is no scope is refused where it is made, and nothing stands in it ───────────────────────────────────────────

LONG = "x" * 1025
BAD_PARTS: list[dict[str, Value]] = [
    {"step": "3"},
    {"step": True},
    {"step": -1},
    {"step": 1.0},
    {"step": 1 << 53},
    {"ordinal": "0"},
    {"ordinal": None},
    {"ordinal": -1},
    {"run_id": 7},
    {"run_id": ""},
    {"run_id": " "},
    {"run_id": LONG},
    {"thread_id": b"t"},
    {"thread_id": "\ud800"},
    {"node": Node},
]


@pytest.mark.parametrize("part", BAD_PARTS, ids=repr)
def test_a_scope_with_a_part_that_is_none_is_refused(part: dict[str, Value]) -> None:
    (name,) = part
    with pytest.raises(BadCallError, match=name), execution_scope(Scope(**part)):
        pytest.fail("it stands")
    with pytest.raises(BadCallError, match=name), execution_scope(**part):
        pytest.fail("it stands")
    assert SCOPE.get() is None


@pytest.mark.parametrize("scope", ["run", {"run_id": "run"}, 3])
def test_what_is_no_scope_is_refused(scope: Value) -> None:
    with pytest.raises(BadCallError, match="not a Scope"), execution_scope(scope):
        pytest.fail("it stands")


def test_a_scope_that_is_said_in_two_ways_is_refused() -> None:
    with pytest.raises(BadCallError, match="both"), execution_scope(Scope(run_id="a"), step=1):
        pytest.fail("it stands")


def test_a_part_that_no_scope_has_is_refused() -> None:
    unknown: dict[str, Value] = {"run": "a"}
    with pytest.raises(BadCallError, match="thread_id, run_id, node, step, ordinal"), execution_scope(**unknown):
        pytest.fail("it stands")


@pytest.mark.parametrize("parent", [None, "", " ", 7, "\ud800", LONG])
def test_a_handoff_without_a_transition_is_refused(parent: Value) -> None:
    with pytest.raises(BadCallError, match="parent_request_id"), handoff_scope(parent):
        pytest.fail("it stands")
    assert HANDOFF.get() is None


@pytest.mark.parametrize("handoff", [7, " ", "\ud800", LONG])
def test_a_handoff_with_an_id_that_is_none_is_refused(handoff: Value) -> None:
    with pytest.raises(BadCallError, match="handoff_id"), handoff_scope("parent", handoff_id=handoff):
        pytest.fail("it stands")


@pytest.mark.parametrize("part", [part for part in BAD_PARTS if part != {"ordinal": None}], ids=repr)
def test_a_call_that_says_a_part_that_is_none_is_refused(part: dict[str, Value]) -> None:
    with pytest.raises(BadCallError, match=next(iter(part))):
        Naming(**part).check()


# ── what was taken can be read ───────────────────────────────────────────────────────────────────────────────────────


def test_text_and_numbers_of_a_kind_of_their_own_are_stored_as_text_and_numbers() -> None:
    naming = Naming(tool_call_id=Text("c"), dispatch_id=Text("d"), decision_id=Node.PAY)
    naming.check()
    with execution_scope(run_id=Text("run"), node=Node.PAY, step=Number(3)), handoff_scope(Text("parent")):
        about = naming.about(READ)
    wanted = About(
        run_id="run",
        node="pay",
        step=3,
        tool_call_id="c",
        dispatch_id="d",
        decision_id="pay",
        parent_request_id="parent",
        agent_id=READ.agent_id,
        policy_version=READ.policy_version,
    )
    assert About.read(about.body().decode()) == about == wanted


@pytest.mark.parametrize("stored", ["{", "[]", "null", '{"step":"3"}', '{"parent_request_id":null}', "\ud800"])
def test_what_cannot_be_read_of_a_row_says_nothing(stored: str) -> None:
    assert About.read(stored) == About()


# ── names and keys ───────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_call_that_nothing_names_is_told_how_to_name_it() -> None:
    with pytest.raises(MissingRequestIdentityError, match=r"execution_scope\(run_id=…, step=…\)"):
        identity_of(Naming())


def test_a_key_that_is_no_text_is_refused_and_no_error_holds_it() -> None:
    checked = Checked({"key": "secret-1\ud800"}, b"{}")
    with pytest.raises(BadArgumentsError, match="'key' has a lone surrogate") as caught:
        Naming(request_id="r").identity("t", KEYED, checked, namespace="n")
    assert (caught.value.__cause__, caught.value.__context__) == (None, None)
    assert "secret-1" not in str(caught.value)
