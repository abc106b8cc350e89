"""Taking one argument by a dotted path."""

from __future__ import annotations

import dataclasses

import pydantic
import pytest

from mycelium.leases.errors import BadArgumentsError
from mycelium.ledger.canon import pick


@dataclasses.dataclass
class Seat:
    row: int
    note: object = None


@dataclasses.dataclass(slots=True)
class SlottedSeat(Seat):
    pass


class Line(pydantic.BaseModel, populate_by_name=True):
    row: int = pydantic.Field(validation_alias="rowNumber")


class Raises:
    @property
    def __dataclass_fields__(self) -> dict[str, object]:
        raise RuntimeError("secret-1")


def test_a_dotted_path_goes_through_parameters_keys_and_fields() -> None:
    values = {"to": {"email": "a@b", "seat": Seat(3, Line(row=4))}, "flat": 0}
    assert pick(values, "to.email") == "a@b"
    assert pick(values, "to.seat.note.row") == 4
    assert pick(values, "flat") == 0
    assert pick({"seat": SlottedSeat(3)}, "seat.row") == 3


@pytest.mark.parametrize(
    "path", ["", "none", "to.none", "to.email.x", "to..email", "to.seat.__class__", "to.list.0", "to.endless.x", "to."]
)
def test_what_is_not_at_a_path_is_refused(path: str) -> None:
    values = {"to": {"email": "secret-1", "seat": Seat(3), "list": [1], "endless": Raises()}, "none": None}
    with pytest.raises(BadArgumentsError, match="nothing at") as caught:
        pick(values, path)
    assert "secret-1" not in str(caught.value)
