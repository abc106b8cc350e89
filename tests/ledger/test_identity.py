"""What makes two calls the same: the rule of identity.py as a table, as a property, and as golden vectors."""

from __future__ import annotations

import enum
import json
import math
from collections.abc import Mapping
from pathlib import Path
from random import Random
from types import MappingProxyType
from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import HealthCheck, example, given, settings

from mycelium.leases.errors import BadArgumentsError, BadCallError, PayloadTooLargeError
from mycelium.ledger.identity import MAX_DEPTH, MAX_INTEGER_BITS, Scope, canonical, identify

Value = Any
"""Whatever the rule is asked about."""
VECTORS = json.loads((Path(__file__).parent / "canon_vectors.json").read_text(encoding="utf-8"))
QUICK = settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow], print_blob=True)


class Colour(str, enum.Enum):  # noqa: UP042 - the older kind, whose str() is its name
    RED = "red"


class Level(enum.IntEnum):
    HIGH = 3


# ── equal by the rule, and not ───────────────────────────────────────────────────────────────────────────────────────

SAME = [
    (1, 1.0),
    (0, -0.0),
    (10**16, 1e16),
    (2**53 + 2, float(2**53 + 2)),
    (int(1e300), 1e300),
    ("red", Colour.RED),
    ({"red": 1}, {Colour.RED: 1}),
    (3, Level.HIGH),
    ([1, 2], (1, 2)),
    ({"a": 1, "b": 2}, {"b": 2, "a": 1}),
    ({"a": 1}, MappingProxyType({"a": 1})),
    ("é", "\u00e9"),
]
DIFFERENT = [
    (1, True),
    (0, False),
    (1.0, True),
    (0, None),
    (False, None),
    ("", None),
    (1, "1"),
    ("true", True),
    ([], {}),
    ([1, 2], [2, 1]),
    ([[1], 2], [1, [2]]),
    (2**53, 2**53 + 1),
    (2**53 + 1, float(2**53)),
    (0.1, 0.1 + 2**-56),
    ("é", "e\u0301"),
    ("a", "A"),
    ("a", "a "),
    ({"a": None}, {}),
    ({"a": 1}, {"a": "1"}),
    ('"', "\\"),
]


@pytest.mark.parametrize("one, other", SAME)
def test_equal_by_the_rule(one: object, other: object) -> None:
    assert canonical(one) == canonical(other)


@pytest.mark.parametrize("one, other", DIFFERENT)
def test_not_equal_by_the_rule(one: object, other: object) -> None:
    assert canonical(one) != canonical(other)


REFUSED = {
    "not a number": math.nan,
    "infinite": math.inf,
    "infinite below": [-math.inf],
    "half a character": "\ud800",
    "half a character in a key": {"\udfff": 1},
    "a number as key": {1: 1},
    "nothing as key": {None: 1},
    "truth as key": {True: 1},
    "bytes": b"x",
    "a set": {1},
    "an object": object(),
    "a complex number": 1j,
    "an integer without end": 1 << MAX_INTEGER_BITS,
    "deep in a list": {"a": [{"b": math.nan}]},
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_has_no_canonical_form_is_refused(name: str) -> None:
    with pytest.raises(BadArgumentsError, match="Nothing was submitted"):
        canonical(REFUSED[name])


def test_a_refusal_says_where() -> None:
    with pytest.raises(BadArgumentsError, match=r"arguments\.a\[0\]\.b is not a finite number"):
        canonical({"a": [{"b": math.nan}]})


def _nested(depth: int) -> object:
    value: object = 1
    for _ in range(depth):
        value = [value]
    return value


def test_depth_and_size_have_limits() -> None:
    canonical(_nested(MAX_DEPTH))
    for depth in (MAX_DEPTH + 1, 100_000):
        with pytest.raises(BadArgumentsError, match="nested deeper"):
            canonical(_nested(depth))
    assert canonical("é" * 3, max_bytes=8) == b'"\xc3\xa9\xc3\xa9\xc3\xa9"'
    with pytest.raises(PayloadTooLargeError, match="take 8 bytes; the limit is 7"):
        canonical("é" * 3, max_bytes=7)
    assert canonical(2 ** (MAX_INTEGER_BITS - 1)) == str(2 ** (MAX_INTEGER_BITS - 1)).encode()


# ── as a property ────────────────────────────────────────────────────────────────────────────────────────────────────

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=6)
NUMBERS = st.one_of(
    st.integers(),
    st.floats(allow_nan=False, allow_infinity=False),
    st.integers(-(2**70), 2**70).map(float),
    st.sampled_from([0, -0.0, 1, 1.0, 2**53, 2**53 + 1, float(2**53), 10**16, 1e16]),
)
LEAVES = st.one_of(st.none(), st.booleans(), NUMBERS, TEXT)
VALUES = st.recursive(
    LEAVES,
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(TEXT, inner, max_size=4)),
    max_leaves=12,
)


def same(one: Value, other: Value) -> bool:
    """The rule in prose, said once more by other means: equal numbers are equal, and nothing else is a number."""
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(same, one, other))
    return bool(one == other)


@QUICK
@given(VALUES, VALUES)
@example(1, True)
@example([0.0], [-0.0])
def test_equal_by_the_rule_is_equal_in_bytes(one: Value, other: Value) -> None:
    assert (canonical(one) == canonical(other)) == same(one, other)


@QUICK
@given(NUMBERS, NUMBERS)
def test_numbers_are_equal_in_bytes_when_they_are_equal(one: float, other: float) -> None:
    assert (canonical(one) == canonical(other)) == (one == other)


@QUICK
@given(VALUES)
def test_what_is_read_back_has_the_same_form(value: Value) -> None:
    form = canonical(value)
    again = json.loads(form)
    assert canonical(again) == form
    assert same(again, value)


@QUICK
@given(st.dictionaries(TEXT, LEAVES, max_size=6), st.randoms())
def test_the_order_of_keys_takes_no_part(value: dict[str, Any], random: Random) -> None:
    items = list(value.items())
    random.shuffle(items)
    assert canonical(dict(items)) == canonical(value)


# ── golden vectors: these bytes are in people's ledgers ──────────────────────────────────────────────────────────────


@pytest.mark.parametrize("vector", VECTORS["canonical"], ids=lambda vector: vector["name"])
def test_a_canonical_form_never_changes(vector: dict[str, str]) -> None:
    assert canonical(json.loads(vector["json"])).decode() == vector["canonical"]


@pytest.mark.parametrize("vector", VECTORS["identity"], ids=lambda vector: vector["name"])
def test_an_effect_id_never_changes(vector: dict[str, Any]) -> None:
    scope = Scope(**vector["scope"]) if "scope" in vector else None
    identity = identify(
        vector["tool"],
        vector["effect_class"],
        vector["args"].encode(),
        request_id=vector.get("request_id"),
        scope=scope,
        namespace="n",
    )
    assert identity.effect_id == vector["effect_id"]
    assert identity.request_id == vector["request_id" if "request_id" in vector else "derived_request_id"]


# ── request ids and scopes ───────────────────────────────────────────────────────────────────────────────────────────


def test_a_request_id_is_kept_as_it_is() -> None:
    for request_id in ("charge-order:ORD-1", "é", "x" * 256, "a b"):
        assert identify("t", "read", b"{}", request_id=request_id, namespace="n").request_id == request_id


@pytest.mark.parametrize(
    "request_id", ["", "   ", "\t", "a\nb", "a\tb", "a\x00", "x" * 257, "é" * 129, "\ud800", 7, b"x", "a\u200bb"]
)
def test_a_request_id_that_cannot_be_one_is_refused(request_id: Value) -> None:
    with pytest.raises(BadCallError, match="Nothing was submitted"):
        identify("t", "read", b"{}", request_id=request_id, namespace="n")


@pytest.mark.parametrize("scope", [None, Scope(), Scope(step=1), Scope(run_id=""), Scope(run_id=" ")])
def test_without_a_request_id_a_run_is_needed(scope: Scope | None) -> None:
    with pytest.raises(BadCallError, match="neither a request id nor a run id"):
        identify("t", "read", b"{}", scope=scope, namespace="n")


def test_a_run_id_is_text() -> None:
    with pytest.raises(BadArgumentsError, match="lone surrogate"):
        identify("t", "read", b"{}", scope=Scope(run_id="\ud800"), namespace="n")


def test_no_choice_of_parts_looks_like_another() -> None:
    scopes = [
        Scope(run_id=run, step=step, ordinal=ordinal)
        for run in ("r", "r1", "1", 'r","1', "r\x1f1", "explicit", "derived")
        for step in (None, 0, 1, 11)
        for ordinal in (0, 1, 11)
    ]
    tools = [("t", "read"), ("tread", "x"), ("t", "x"), ("1", "t")]
    args = [b"{}", b'{"a":1}', b'["t"]']
    derived = {
        identify(*tool, arg, scope=scope, namespace="n").effect_id for scope in scopes for tool in tools for arg in args
    }
    explicit = {
        identify(*tool, arg, request_id=request_id, namespace="n").effect_id
        for request_id in ("r", "r1", "explicit", "derived", "1")
        for tool in tools
        for arg in args
    }
    assert len(derived) == len(scopes) * len(tools) * len(args)
    assert len(explicit) == 5 * len(tools) * len(args)
    assert not derived & explicit


def test_the_host_owns_an_explicit_id_whatever_the_scope() -> None:
    one = identify("t", "read", b"{}", request_id="r", scope=Scope(run_id="a", step=1), namespace="n")
    assert one == identify("t", "read", b"{}", request_id="r", scope=Scope(run_id="b", step=2), namespace="n")
    assert one == identify("t", "read", b"{}", request_id="r", namespace="n")
    # A derived id may be told again as an explicit one: it then names another effect, and the ledger refuses it.
    derived = identify("t", "read", b"{}", scope=Scope(run_id="a"), namespace="n")
    told = identify("t", "read", b"{}", request_id=derived.request_id, namespace="n")
    assert told.request_id == derived.request_id
    assert told.effect_id != derived.effect_id
