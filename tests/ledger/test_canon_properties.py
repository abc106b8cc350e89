"""The canonical form: the rule of canon.py as properties."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Mapping
from decimal import Decimal
from random import Random
from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import HealthCheck, example, given, settings

from mycelium.leases.errors import BadArgumentsError
from mycelium.ledger.canon import canonical, json_body

Value = Any
"""Whatever the rule is asked about."""
QUICK = settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow], print_blob=True)
UTC = dt.UTC

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=6)
KEYS = st.one_of(TEXT, TEXT.map("${}".format), st.sampled_from(["$decimal", "$set", "$$set", "$"]))
NUMBERS = st.one_of(
    st.integers(),
    st.floats(allow_nan=False, allow_infinity=False),
    st.integers(-(2**70), 2**70).map(float),
    st.sampled_from([0, -0.0, 1, 1.0, 2**53, 2**53 + 1, float(2**53), 10**16, 1e16]),
)
LEAVES = st.one_of(st.none(), st.booleans(), NUMBERS, TEXT)
VALUES = st.recursive(
    LEAVES,
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(KEYS, inner, max_size=4)),
    max_leaves=12,
)


def same(one: Value, other: Value) -> bool:
    """The rule for JSON, said once more by other means: equal numbers are equal, and nothing else is a number."""
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
@given(
    st.decimals(allow_nan=False, allow_infinity=False, min_value=-(10**20), max_value=10**20),
    st.integers(0, 6),
    st.decimals(allow_nan=False, allow_infinity=False, places=2, min_value=-2, max_value=2),
)
def test_decimals_are_equal_in_bytes_when_they_are_equal(one: Decimal, zeros: int, other: Decimal) -> None:
    sign, digits, exponent = one.as_tuple()
    assert isinstance(exponent, int)
    assert canonical(Decimal((sign, (*digits, *[0] * zeros), exponent - zeros))) == canonical(one)
    assert (canonical(one) == canonical(other)) == (one == other)
    assert Decimal(json.loads(canonical(one))["$decimal"]) == one


@QUICK
@given(st.datetimes(timezones=st.timezones()), st.timedeltas(dt.timedelta(hours=-23), dt.timedelta(hours=23)))
def test_an_instant_is_the_same_in_every_zone(value: dt.datetime, offset: dt.timedelta) -> None:
    try:
        elsewhere = value.astimezone(dt.timezone(offset))
        canonical(value.astimezone(UTC))
    except OverflowError:
        return
    assert canonical(elsewhere) == canonical(value)
    told = json.loads(canonical(value))["$instant"]
    assert dt.datetime.fromisoformat(told) == value.astimezone(UTC)


@QUICK
@given(VALUES)
def test_what_is_read_back_from_a_body_has_the_same_form(value: Value) -> None:
    again = json.loads(json_body(value))
    assert canonical(again) == canonical(value)
    assert same(again, value)


@QUICK
@given(st.dictionaries(KEYS, LEAVES, max_size=6), st.randoms())
def test_the_order_of_keys_takes_no_part(value: dict[str, Any], random: Random) -> None:
    items = list(value.items())
    random.shuffle(items)
    assert canonical(dict(items)) == canonical(value)


def test_a_body_has_the_callers_own_keys_and_nothing_but_json() -> None:
    assert json_body({"b": 1.0, "$a": {"$decimal": "1"}}) == b'{"$a":{"$decimal":"1"},"b":1}'
    with pytest.raises(BadArgumentsError, match="what JSON does not have"):
        json_body({"a": Decimal(1)})
