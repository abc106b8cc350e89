"""What a function declares to return, as a reader of stored results."""

from __future__ import annotations

import json
import typing
import warnings
from collections.abc import Callable
from typing import Annotated, Any, Optional, cast

import pydantic
from pydantic_core import PydanticCustomError

from ..hosts.results import encode_result

_UNLIMITED = 1 << 62  # it was within its limit when it was stored
_CONFIG = pydantic.ConfigDict(val_json_bytes="base64")  # as results are written


def reader_of(fn: Callable[..., object]) -> pydantic.TypeAdapter[Any] | None:
    """Make what reads a stored result back as the function declares it.

    It refuses what would not come back as it was stored: a field under another alias that has a default, for example.

    Returns:
        None: the function declares nothing, or nothing that can be read.
    """
    try:
        hint: Any = typing.get_type_hints(fn, include_extras=True).get("return", Any)
        if hint is Any or hint is object or hint is type(None):
            return None
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            # No class takes a configuration from outside; what may be one or none does, and hands it on to dataclasses.
            checked = Annotated[Optional[hint], pydantic.WrapValidator(_faithful)]  # noqa: UP045 - built from a value
            return pydantic.TypeAdapter(cast("Any", checked), config=_CONFIG)
    except Exception:  # noqa: BLE001 - whatever pydantic cannot make something of comes back as a JSON value
        return None


def _faithful(stored: object, read: pydantic.ValidatorFunctionWrapHandler) -> object:
    try:
        value: object = read(stored)
    except pydantic.ValidationError:
        raise
    except Exception as error:
        # A validator of the caller's own may raise anything.
        raise _unfit() from error
    body, fault = encode_result(value, _UNLIMITED)
    if fault or not _agree(json.loads(body), stored):
        raise _unfit()
    return value


def _unfit() -> PydanticCustomError:
    return PydanticCustomError("other_result", "it would come back as another value")


def _agree(back: object, stored: object) -> bool:
    """Whether nothing that both say differs: what a newer declaration adds, or leaves out, is its own affair."""
    kinds = {type(back), type(stored)}
    if kinds == {dict}:
        one, other = cast("dict[str, object]", back), cast("dict[str, object]", stored)
        return all(_agree(one[name], other[name]) for name in one.keys() & other.keys())
    if kinds == {list}:
        ones, others = cast("list[object]", back), cast("list[object]", stored)
        in_order = len(ones) == len(others) and all(_agree(*pair) for pair in zip(ones, others, strict=True))
        return in_order or _members(ones) == _members(others)
    return back == stored and (len(kinds) == 1 or kinds == {int, float})


def _members(values: list[object]) -> list[str]:
    # A set meets its members in any order.
    return sorted(json.dumps(value, sort_keys=True) for value in values)
