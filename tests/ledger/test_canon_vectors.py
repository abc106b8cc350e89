"""The canonical form: golden vectors, which another language can use. These bytes are in people's ledgers."""

from __future__ import annotations

import dataclasses
import datetime as dt
import enum
import json
import uuid
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Any

import pytest

from mycelium.leases.errors import BadArgumentsError
from mycelium.ledger.canon import canonical

Value = Any
"""Whatever the rule is asked about."""
VECTORS = json.loads((Path(__file__).parent / "canon_vectors.json").read_text(encoding="utf-8"))

READERS: dict[str, Callable[[Value], Value]] = {
    "json": json.loads,
    "decimal": Decimal,
    "datetime": dt.datetime.fromisoformat,
    "time": dt.time.fromisoformat,
    "date": dt.date.fromisoformat,
    "duration in microseconds": lambda text: dt.timedelta(microseconds=int(text)),
    "bytes in hex": bytes.fromhex,
    "uuid": uuid.UUID,
    "path": PurePosixPath,
    "windows path": PureWindowsPath,
    "set": lambda members: frozenset(map(read, members)),
    "list": lambda members: list(map(read, members)),
    "object": lambda fields: {name: read(field) for name, field in fields.items()},
    "record": lambda fields: dataclasses.make_dataclass("Any", fields)(**{n: read(f) for n, f in fields.items()}),
    "enumeration": lambda value: enum.Enum("Any", {"MEMBER": read(value)}).MEMBER,  # type: ignore[attr-defined]
}


def read(vector: dict[str, Value]) -> Value:
    """The value that a vector describes by its kind and text."""
    return READERS[vector["kind"]](vector["value"])


@pytest.mark.parametrize("vector", VECTORS["canonical"], ids=lambda vector: vector["name"])
def test_a_canonical_form_never_changes(vector: dict[str, Any]) -> None:
    assert canonical(read(vector)).decode() == vector["canonical"]


@pytest.mark.parametrize("vector", VECTORS["refused"], ids=lambda vector: vector["name"])
def test_what_is_refused_stays_refused(vector: dict[str, Any]) -> None:
    with pytest.raises(BadArgumentsError):
        canonical(read(vector))


def test_every_kind_has_a_vector() -> None:
    assert {vector["kind"] for vector in VECTORS["canonical"]} == set(READERS)
