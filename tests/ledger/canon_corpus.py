"""Nested mixes of every kind of value, the odd ones too.

`values(seed, number)` makes them. Run as a program it prints a digest for each value, for comparing processes.
"""

from __future__ import annotations

import dataclasses
import datetime as dt
import enum
import hashlib
import json
import math
import sys
import uuid
from collections import Counter, OrderedDict, UserDict, defaultdict, deque
from collections.abc import Callable, Iterator, Mapping
from decimal import Decimal
from fractions import Fraction
from pathlib import Path, PurePosixPath, PureWindowsPath
from random import Random
from types import MappingProxyType
from typing import Any, NamedTuple

import pydantic

from mycelium.leases.errors import BadArgumentsError, PayloadTooLargeError
from mycelium.ledger.canon import canonical

Value = Any
"""Whatever the rule is asked about."""
UTC = dt.UTC
TEXTS = ["", "a", "b", "é", "e\u0301", "1", "$", "$decimal", "$$decimal", "😀", "\uffff", "\x00", "a b", "null", "AA=="]
NAMES = ["a", "b", "row", "$decimal", "$set", "$", "$$", "é", ""]
INTEGERS = [0, 1, -1, 2, 10, 2**53, 2**53 + 1, 10**16, -(2**63), 2**4096 - 1]
FLOATS = [0.0, -0.0, 1.0, 0.1, -2.5, 1e16, 5e-324, float(2**53), 1e300]
DECIMALS = ["0", "-0.0", "1", "1.0", "1E+1", "10", "0.1", "-2.50", "1E-1000", "9" * 40]
ZONES = [None, UTC, dt.timezone(dt.timedelta(hours=2)), dt.timezone(-dt.timedelta(hours=9, minutes=30, seconds=1))]


class Colour(str, enum.Enum):  # noqa: UP042 - the older kind, whose str() is its name
    A = "a"
    E = "é"


class Level(enum.IntEnum):
    ONE = 1
    TEN = 10


class Ratio(float, enum.Enum):
    TENTH = 0.1


class Plain(enum.Enum):
    A = "a"
    ONE = 1
    PAIR = (1, "a")


class Flags(enum.Flag):
    A = 1
    B = 2


class Pair(NamedTuple):
    a: Any
    b: Any


@dataclasses.dataclass(eq=False)
class Seat:
    a: Any
    row: Any = None


@dataclasses.dataclass(frozen=True, slots=True)
class Frozen:
    a: Any


class Model(pydantic.BaseModel, extra="allow"):
    a: Any = pydantic.Field(alias="b")


class Root(pydantic.RootModel[Any]):
    pass


class Text(str):
    """Text whose own methods say something else than it holds."""

    __slots__ = ()

    def __str__(self) -> str:
        return "evil"

    def __repr__(self) -> str:
        raise RuntimeError

    def __hash__(self) -> int:
        return 7

    def __eq__(self, other: object) -> bool:
        return False

    def __lt__(self, other: object) -> bool:
        raise RuntimeError

    def startswith(self, *_: Value) -> bool:
        raise RuntimeError


class Number(int):
    def __int__(self) -> int:
        return 5

    def __index__(self) -> int:
        return 5

    def __repr__(self) -> str:
        return "evil"

    def bit_length(self) -> int:
        return 1


class Items(list[Any]):
    def __iter__(self) -> Iterator[Any]:
        raise RuntimeError

    def __len__(self) -> int:
        return 0


class Fields(dict[str, Any]):
    def items(self) -> Value:
        raise RuntimeError

    def __iter__(self) -> Iterator[str]:
        return iter(())


class Evil:
    def __getattribute__(self, name: str) -> object:
        raise RuntimeError

    def __repr__(self) -> str:
        raise RuntimeError

    def __eq__(self, other: object) -> bool:
        raise RuntimeError

    __hash__ = object.__hash__


class EvilMapping(Mapping[str, Any]):
    def __getitem__(self, key: str) -> object:
        raise MemoryError

    def __iter__(self) -> Iterator[str]:
        return iter(["a"])

    def __len__(self) -> int:
        return 1


class EvilZone(dt.tzinfo):
    def utcoffset(self, _: dt.datetime | None, /) -> dt.timedelta:
        raise ZeroDivisionError

    def dst(self, _: dt.datetime | None, /) -> dt.timedelta:
        raise ZeroDivisionError

    def tzname(self, _: dt.datetime | None, /) -> str:
        raise ZeroDivisionError


class LyingMeta(type):
    def __getattr__(cls, name: str) -> object:
        raise RuntimeError

    def __instancecheck__(cls, instance: object) -> bool:
        raise RuntimeError


class Lying(metaclass=LyingMeta):
    pass


REFUSED_LEAVES: list[Value] = [
    math.nan,
    math.inf,
    Decimal("NaN"),
    Decimal("sNaN"),
    Decimal("-Infinity"),
    Decimal("1E+1000"),
    Decimal("1E-1001"),
    2**4096,
    -(2**5000),
    Number(2**4096),
    "\ud800",
    Text("a\udfff"),
    PurePosixPath("\udc80"),
    1j,
    Fraction(1, 2),
    range(2),
    deque(),
    object(),
    Evil(),
    EvilMapping(),
    Lying(),
    Lying,
    Seat,
    Plain,
    len,
    iter(()),
    (at for at in range(0)),
    json,
    ValueError(),
    memoryview(b"abcd").cast("i"),
    dt.datetime(1, 1, 1, tzinfo=ZONES[2]),
    dt.datetime(2024, 1, 1, tzinfo=EvilZone()),
    dt.time(1, tzinfo=EvilZone()),
    Model.model_construct(),
]


def values(seed: int, number: int) -> Iterator[Value]:
    """Make values, many of which are equal by the rule to one before."""
    make = _Maker(Random(seed))
    for _ in range(number):
        yield make.value(make.random.choice([0, 1, 2, 2, 3]))


class _Maker:
    def __init__(self, random: Random) -> None:
        self.random = random

    def value(self, depth: int) -> Value:
        if depth == 0 or self.random.random() < 0.3:
            return self.leaf()
        kinds = [self.row, self.row, self.mapping, self.mapping, self.group, self.record, self.enumeration]
        if self.random.random() < 0.01:
            kinds = [self.cycle, self.deep, self.odd_keys]
        return self.random.choice(kinds)(depth - 1)

    def leaf(self) -> Value:
        pick: Value = self.random.choice
        if self.random.random() < 0.02:
            return pick(REFUSED_LEAVES)
        return pick(
            [
                lambda: pick([None, True, False]),
                lambda: pick([str, Text])(pick(TEXTS)),
                lambda: pick([int, Number])(pick(INTEGERS)),
                lambda: pick(FLOATS),
                lambda: Decimal(pick(DECIMALS)),
                lambda: pick([bytes, bytearray, memoryview])(pick([b"", b"a", b"\x00"])),
                self.moment,
                lambda: dt.date(2024, 5, pick([1, 2])),
                lambda: dt.timedelta(seconds=pick([0, 1, -1, 0.1]), days=pick([0, 1, 999999998])),
                lambda: dt.time(pick([0, 10, 12]), microsecond=pick([0, 1]), tzinfo=pick(ZONES)),
                lambda: uuid.UUID(int=pick([0, 1])),
                lambda: pick([Path, PurePosixPath, PureWindowsPath])(pick(["a", "a/b", "é", "1"])),
                lambda: pick([*Colour, *Level, *Ratio, *Plain, *Flags, Flags.A | Flags.B]),
            ]
        )()

    def moment(self) -> dt.datetime:
        zone = self.random.choice(ZONES)
        moment = dt.datetime(2024, 5, 1, self.random.choice([0, 10]), fold=self.random.choice([0, 1]), tzinfo=UTC)
        return moment.replace(tzinfo=None) if zone is None else moment.astimezone(zone)

    def row(self, depth: int) -> Value:
        members = [self.value(depth) for _ in range(self.random.randrange(4))]
        kind: Value = self.random.choice([list, tuple, Items, _pair])
        return kind(members)

    def mapping(self, depth: int) -> Value:
        names = self.random.sample(NAMES, self.random.randrange(4))
        made = {self.random.choice([str, Text])(name): self.value(depth) for name in names}
        kind: Value = self.random.choice([dict, OrderedDict, Fields, UserDict, MappingProxyType, _with_default])
        return Counter(a=1) if self.random.random() < 0.02 else kind(made)

    def group(self, depth: int) -> Value:
        members = [self.value(depth) for _ in range(self.random.randrange(4))]
        hashable = [member for member in members if _is_hashable(member)]
        return self.random.choice([set, frozenset])(hashable)

    def record(self, depth: int) -> Value:
        one, other = self.value(depth), self.value(depth)
        makers: list[Callable[[], Value]] = [
            lambda: Seat(one, other),
            lambda: Frozen(one),
            lambda: Model.model_construct(a=one, row=other),
            lambda: Model.model_validate({"b": one, "$set": other}),
            lambda: Root.model_construct(one),
        ]
        return self.random.choice(makers)()

    def enumeration(self, depth: int) -> Value:
        member: Value = enum.Enum("Made", {"MEMBER": 1}).MEMBER  # type: ignore[attr-defined]
        member._value_ = self.value(depth)
        return member

    def cycle(self, depth: int) -> Value:
        held: Value = self.random.choice([[], {}, Seat(1), UserDict()])
        match held:
            case list():
                held.append(held)
            case Seat():
                held.row = held
            case _:
                held["a"] = held
        return held

    def deep(self, depth: int) -> Value:
        value: Value = 1
        for _ in range(self.random.choice([60, 70, 3000])):
            value = [value]
        return value

    def odd_keys(self, depth: int) -> Value:
        odd = self.random.choice([1, None, True, 1.5, b"a", (), Plain.A, "\ud800", dt.date(2024, 5, 1)])
        return {"a": self.value(depth), odd: 1}


def _pair(members: list[Value]) -> Value:
    return Pair(*members) if len(members) == 2 else members


def _with_default(fields: dict[str, Value]) -> Value:
    return defaultdict(int, fields)


def _is_hashable(value: Value) -> bool:
    try:
        hash(value)
    except Exception:  # noqa: BLE001 - an evil one raises anything
        return False
    return type(value) is not memoryview


def form(value: Value) -> bytes | None:
    """The canonical form, or `None` if it is refused. Whatever else is raised goes on."""
    try:
        return canonical(value)
    except (BadArgumentsError, PayloadTooLargeError):
        return None


if __name__ == "__main__":
    for made in values(int(sys.argv[1]), int(sys.argv[2])):
        sys.stdout.write(hashlib.sha256(form(made) or b"refused").hexdigest() + "\n")
