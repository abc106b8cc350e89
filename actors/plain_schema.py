"""Tells which parameters need no second look: what they accept is read back from JSON as it was.

A validator, a serializer, a union or a typed value may give something else when it reads its own output again. What is
made only of the kinds below cannot: whatever pydantic accepted for them, it accepts again and leaves as it is.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

_CONSTRAINTS = {"gt", "ge", "lt", "le", "multiple_of", "min_length", "max_length", "pattern", "regex_engine"}
_SAID_ANYWHERE = {"type", "metadata", "ref", "strict"}
_LEAVES: dict[str, set[str]] = {
    "any": set(),
    "none": set(),
    "bool": set(),
    "int": _CONSTRAINTS,
    "float": _CONSTRAINTS | {"allow_inf_nan"},
    "str": _CONSTRAINTS | {"strip_whitespace", "coerce_numbers_to_str"},
}
_HOLDERS: dict[str, tuple[set[str], set[str]]] = {
    # what else may be said, and where the schemas of what is held are
    "list": (_CONSTRAINTS | {"fail_fast"}, {"items_schema"}),
    "dict": (_CONSTRAINTS | {"fail_fast"}, {"keys_schema", "values_schema"}),
    "nullable": (set(), {"schema"}),
    "default": ({"default", "validate_default", "copy_default", "default_factory_takes_data"}, {"schema"}),
    "model-field": ({"validation_alias", "serialization_alias"}, {"schema"}),
}
_PLAIN_WORDS = {str, int, bool, type(None)}


def is_plain(schema: Mapping[str, Any]) -> bool:
    """Whether all fields of a model's core schema are plain.

    Args:
        schema: the core schema of a pydantic model, as pydantic makes it.
    """
    if schema["type"] != "model" or "serialization" in schema or schema["schema"]["type"] != "model-fields":
        return False
    return all(_plain(field) for field in schema["schema"]["fields"].values())


def _plain(schema: Mapping[str, Any], *, free: bool = False) -> bool:
    kind, said = schema["type"], set(schema) - _SAID_ANYWHERE
    if kind == "union":
        # Of choices that differ in type alone, a value of one is never taken for another's.
        return said == {"choices"} and all(_is_choice(choice) for choice in schema["choices"])
    if kind == "literal":
        words = {type(word) for word in cast("list[object]", schema["expected"])}
        return said == {"expected"} and words <= ({str} if free else _PLAIN_WORDS)
    more, held = _HOLDERS.get(kind, (_LEAVES.get(kind), set[str]()))
    if more is None:
        return False
    return said <= (held if free else more | held) and all(_plain(schema[name], free=free) for name in held & said)


def _is_choice(schema: object) -> bool:
    return isinstance(schema, dict) and _plain(cast("dict[str, Any]", schema), free=True)
