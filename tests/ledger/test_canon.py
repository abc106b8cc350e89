"""The canonical form: what is equal by the rule of canon.py, what is not, and what is refused."""

from __future__ import annotations

import base64
import dataclasses
import datetime as dt
import enum
import functools
import math
import uuid
import zoneinfo
from collections import Counter, OrderedDict, UserDict, deque
from collections.abc import Mapping
from decimal import Decimal
from fractions import Fraction
from pathlib import Path, PurePosixPath, PureWindowsPath
from types import MappingProxyType, SimpleNamespace
from typing import Any, NamedTuple

import pydantic
import pytest

from mycelium.leases.errors import BadArgumentsError, PayloadTooLargeError
from mycelium.ledger.canon import MAX_DEPTH, MAX_INTEGER_BITS, canonical, encode

Value = Any
"""Whatever the rule is asked about."""
UTC = dt.UTC
BERLIN = zoneinfo.ZoneInfo("Europe/Berlin")
PLUS_2 = dt.timezone(dt.timedelta(hours=2))


class Colour(str, enum.Enum):  # noqa: UP042 - the older kind, whose str() is its name
    RED = "red"


class Level(enum.IntEnum):
    HIGH = 3


class Plain(enum.Enum):
    RED = "red"
    CRIMSON = "red"  # noqa: PIE796 - another name for it
    PAIR = (1, "red")


class Other(enum.Enum):
    ROT = "red"


class Flags(enum.Flag):
    A = 1
    B = 2


class Moment(dt.datetime):
    """As other libraries make theirs."""


class Day(dt.date, enum.Enum):
    FIRST = 2024, 5, 1


class Pair(NamedTuple):
    left: int
    right: int


@dataclasses.dataclass
class Seat:
    row: int
    note: object = None


@dataclasses.dataclass(slots=True)
class SlottedSeat(Seat):
    pass


class Line(pydantic.BaseModel):
    row: int = pydantic.Field(alias="rowNumber")
    note: Any = None


class Loose(pydantic.BaseModel, extra="allow"):
    row: int


class Rows(pydantic.RootModel[list[int]]):
    pass


class Text(str):
    """Text whose own methods say something else than it holds."""

    __slots__ = ()

    def __str__(self) -> str:
        return "another"

    def __hash__(self) -> int:
        return 7

    def __eq__(self, other: object) -> bool:
        return False

    def encode(self, encoding: str = "", errors: str = "") -> bytes:
        return b"another"


# ── equal by the rule, and not ───────────────────────────────────────────────────────────────────────────────────────

SAME = [
    (1, 1.0),
    (0, -0.0),
    (10**16, 1e16),
    (2**53 + 2, float(2**53 + 2)),
    (int(1e300), 1e300),
    ("red", Colour.RED),
    ("red", Text("red")),
    ({"red": 1}, {Colour.RED: 1}),
    (3, Level.HIGH),
    ([1, 2], (1, 2)),
    ([1, 2], Pair(1, 2)),
    ({"a": 1, "b": 2}, {"b": 2, "a": 1}),
    ({"a": 1}, MappingProxyType({"a": 1})),
    ({"a": 1}, OrderedDict(a=1)),
    ({"a": 1}, UserDict(a=1)),
    ({"a": 1}, Counter("a")),
    ("é", "\u00e9"),
    (Decimal("1.0"), Decimal("1.00")),
    (Decimal(10), Decimal("1E+1")),
    (Decimal("-0"), Decimal("0E+7")),
    (Decimal("0.00150"), Decimal("15E-4")),
    (dt.datetime(2024, 5, 1, 10, tzinfo=UTC), dt.datetime(2024, 5, 1, 12, tzinfo=PLUS_2)),
    (dt.datetime(2024, 5, 1, 10, tzinfo=UTC), dt.datetime(2024, 5, 1, 12, tzinfo=BERLIN)),
    (
        dt.datetime(2024, 10, 27, 2, 30, tzinfo=BERLIN, fold=1),
        dt.datetime(2024, 10, 27, 1, 30, tzinfo=UTC),
    ),
    (dt.datetime(2024, 5, 1), dt.datetime(2024, 5, 1, fold=1)),  # noqa: DTZ001 - naive as given
    (dt.time(0, 30, tzinfo=PLUS_2), dt.time(22, 30, tzinfo=UTC)),
    (Moment(2024, 5, 1, 10, tzinfo=UTC), dt.datetime(2024, 5, 1, 12, tzinfo=PLUS_2)),
    (dt.timedelta(days=1), dt.timedelta(hours=24)),
    (b"x", bytearray(b"x")),
    (b"x", memoryview(b"x")),
    ({1, 2}, frozenset({2, 1})),
    ({Text("a"), "a"}, {"a"}),
    ({(1, 2), (3,)}, {(3,), (1, 2)}),
    (Plain.RED, Plain.CRIMSON),
    (Plain.RED, Other.ROT),
    (uuid.UUID(int=1), uuid.UUID("00000000-0000-0000-0000-000000000001")),
    (PurePosixPath("a/b"), Path("a//b/.")),
    (Seat(3, b"x"), {"note": b"x", "row": 3}),
    (Seat(3), SlottedSeat(3)),
    (Seat(3), Line(rowNumber=3)),
    (Loose.model_validate({"row": 3, "$x": 1}), {"row": 3, "$x": 1}),
    (Rows([1]), [1]),
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
    (Decimal("1.5"), "1.5"),
    (Decimal("1.5"), 1.5),
    (Decimal(1), 1),
    (Decimal("1.5"), Decimal("1.50000000000000000000000000000000000001")),
    (dt.datetime(2024, 5, 1), dt.datetime(2024, 5, 1, tzinfo=UTC)),  # noqa: DTZ001 - naive as given
    (dt.datetime(2024, 5, 1), dt.date(2024, 5, 1)),  # noqa: DTZ001 - naive as given
    (dt.datetime(2024, 5, 1, tzinfo=UTC), "2024-05-01T00:00:00.000000Z"),
    (dt.datetime(2024, 5, 1, tzinfo=UTC), dt.datetime(2024, 5, 1, microsecond=1, tzinfo=UTC)),
    (dt.datetime(2024, 10, 27, 2, 30, tzinfo=BERLIN), dt.datetime(2024, 10, 27, 2, 30, tzinfo=BERLIN, fold=1)),
    (dt.time(10), dt.time(10, tzinfo=UTC)),
    (dt.date(2024, 5, 1), "2024-05-01"),
    (dt.timedelta(seconds=1), 1_000_000),
    (dt.timedelta(seconds=1), dt.timedelta(seconds=-1)),
    (b"x", "x"),
    (b"x", base64.b64encode(b"x").decode()),
    ({1, 2}, [1, 2]),
    (set[int](), []),
    (set[int](), {}),
    ({"a"}, {"b"}),
    ({1}, {Decimal(1)}),
    (uuid.UUID(int=1), str(uuid.UUID(int=1))),
    (PurePosixPath("a"), "a"),
    (PurePosixPath("a"), PureWindowsPath("a")),
    (Plain.RED, "red"),
    (Plain.PAIR, [1, "red"]),
    (Day.FIRST, dt.date(2024, 5, 1)),
    (Flags.A, 1),
    (Flags.A | Flags.B, Flags.B),
    (Seat(3), Seat(4)),
    (Seat(3), {"row": 3}),
    (Line(rowNumber=3), {"rowNumber": 3, "note": None}),
    ({"$decimal": "1.5"}, Decimal("1.5")),
    ({"$set": [1]}, {1}),
    ({"$$decimal": "1.5"}, {"$decimal": "1.5"}),
    ({"$": 1}, {"$$": 1}),
]


@pytest.mark.parametrize("one, other", SAME)
def test_equal_by_the_rule(one: object, other: object) -> None:
    assert canonical(one) == canonical(other)
    assert canonical([{"x": one}]) == canonical([{"x": other}])


@pytest.mark.parametrize("one, other", DIFFERENT)
def test_not_equal_by_the_rule(one: object, other: object) -> None:
    assert canonical(one) != canonical(other)
    assert canonical([{"x": one}]) != canonical([{"x": other}])


def _nothing() -> None: ...


class Raises:
    def __iter__(self) -> None:
        raise KeyError("secret-1")

    def __repr__(self) -> str:
        raise RuntimeError("secret-1")

    @property  # type: ignore[misc]
    def __class__(self) -> type:  # pyright: ignore[reportIncompatibleMethodOverride]
        raise RuntimeError("secret-1")


class Endless(Mapping[str, int]):
    def __iter__(self) -> Value:
        return iter(str, None)

    def __getitem__(self, key: str) -> int:
        return 1

    def __len__(self) -> int:
        return 0


class Growing(Endless):
    def __iter__(self) -> Value:
        return (str(at) for at in iter(functools.partial(next, iter(range(10**12))), -1))


class Nowhere(dt.tzinfo):
    def utcoffset(self, _: dt.datetime | None, /) -> None:
        return None

    def dst(self, _: dt.datetime | None, /) -> None:
        return None

    def tzname(self, _: dt.datetime | None, /) -> str:
        return "nowhere"


def _cycle(kind: type) -> Value:
    held: Value = kind()
    held.update(x=held) if kind is dict else held.append(held)
    return held


def _same_text_twice() -> Value:
    return {"a": 1, Text("a"): 2}


REFUSED = {
    "not a number": math.nan,
    "infinite": math.inf,
    "infinite below": [-math.inf],
    "half a character": "\ud800",
    "half a character in a key": {"\udfff": 1},
    "a number as key": {1: 1},
    "nothing as key": {None: 1},
    "truth as key": {True: 1},
    "keys of several kinds": {"a": 1, 2: 1},
    "one text twice as key": _same_text_twice(),
    "an object": object(),
    "an object that lies and raises": Raises(),
    "a complex number": 1j,
    "a fraction": Fraction(1, 2),
    "an integer without end": 1 << MAX_INTEGER_BITS,
    "deep in a list": {"a": [{"b": math.nan}]},
    "a function": _nothing,
    "a generator": (x for x in "ab"),
    "a range": range(3),
    "a deque": deque([1]),
    "a class": Seat,
    "a class of enumeration": Plain,
    "a module": math,
    "a namespace": SimpleNamespace(a=1),
    "an exception": ValueError("x"),
    "a partial": functools.partial(print),
    "no decimal": Decimal("NaN"),
    "no decimal, loudly": Decimal("sNaN"),
    "no decimal end": Decimal("-Infinity"),
    "a decimal too large": Decimal("1E+1000"),
    "a decimal too small": Decimal("1E-1001"),
    "a decimal without bound": Decimal("1E+999999"),
    "before the first year": dt.datetime(1, 1, 1, tzinfo=PLUS_2),
    "a zone without offset": dt.datetime(2024, 5, 1, tzinfo=Nowhere()),
    "a time whose offset depends on a date": dt.time(10, tzinfo=BERLIN),
    "a list in itself": _cycle(list),
    "an object in itself": _cycle(dict),
    "a mapping without end": Endless(),
    "bytes of something else": memoryview(b"abcd").cast("i"),
    "no name": PurePosixPath("\udcff"),
    "an enumeration of objects": enum.Enum("Odd", {"A": object()}).A,  # type: ignore[attr-defined]
    "a model that lacks a field": Line.model_construct(),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_has_no_canonical_form_is_refused_without_its_value(name: str) -> None:
    for value in (REFUSED[name], [REFUSED[name]], {"x": (1, REFUSED[name])}):
        with pytest.raises(BadArgumentsError, match="Nothing was submitted") as caught:
            canonical(value)
        assert "secret-1" not in str(caught.value)
        str(caught.value).encode()


def test_a_refusal_says_where() -> None:
    values: list[Value] = [{"a": [{"b": math.nan}]}, {"a": (UserDict(b=math.nan),)}]
    for value in values:
        with pytest.raises(BadArgumentsError, match=r"arguments\.a\[0\]\.b is not a finite number"):
            canonical(value)
    with pytest.raises(
        BadArgumentsError, match=r"arguments\.seat\.note\[\?\] is a complex, which has no canonical form"
    ):
        canonical({"seat": Seat(1, {1j})})


def test_a_refusal_does_not_tell_keys_that_are_no_names() -> None:
    with pytest.raises(BadArgumentsError, match=r"arguments\.\?\.a is not a finite number"):
        canonical({"4111 1111": {"a": math.nan}})


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


def test_a_small_value_that_is_endless_in_bytes_is_too_large() -> None:
    lists: Value = ["x"]
    objects: Value = {"x": 1}
    for _ in range(MAX_DEPTH // 2 - 2):
        lists = [lists] * 10
        objects = {"a": (objects, objects), "b": objects}
    for value in (lists, objects, ["x" * 10_000] * 1_000, Growing()):
        with pytest.raises(PayloadTooLargeError, match="more than 1,048,576 bytes"):
            canonical(value)


@pytest.mark.parametrize("one, _", SAME)
def test_a_limit_refuses_nothing_that_fits(one: object, _: object) -> None:
    form = canonical(one)
    assert canonical(one, max_bytes=len(form)) == form
    with pytest.raises(PayloadTooLargeError):
        canonical(one, max_bytes=len(form) - 1)


def test_a_form_knows_whether_it_is_its_own_json() -> None:
    assert encode({"a": [1, "x", None, (True,)]}).is_json
    assert not encode({"a": [Decimal(1)]}).is_json
    assert not encode({"a": [{"$": 1}]}).is_json
    assert not encode([Seat(1)]).is_json
    assert not encode([Pair(1, 2)]).is_json
    assert encode([Seat(1, Pair(1, 2)), Plain.RED]).kinds == (Seat, Pair, Plain)
