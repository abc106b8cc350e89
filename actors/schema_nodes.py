"""Looks through a core schema of pydantic: the names of its fields, and whether it chooses between records."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, cast

_NO_SCHEMA = {"default", "expected", "metadata", "serialization"}
"""What may hold anything of the author's own."""
_NAMES = ("name", "alias", "validation_alias")
_RECORDS = {"model", "dataclass", "call", "enum", "definition-ref"}
"""What has a class that its canonical form does not name; a reference may be to one."""


def field_names(schema: Mapping[str, Any]) -> set[str]:
    """The names and aliases of all fields in a schema, at any depth."""
    names: set[str] = set()
    for node in _nodes(schema):
        names.update(said for at in _NAMES if isinstance(said := node.get(at), str))
        if node.get("type") in {"model-fields", "typed-dict"}:
            names.update(node["fields"])
    return names


def chooses_records(schema: Mapping[str, Any]) -> bool:
    """Whether somewhere in a schema records of several classes fit, and nothing but their fields tells them apart."""
    return any(
        sum(any(part.get("type") in _RECORDS for part in _nodes(choice)) > 0 for choice in node["choices"]) > 1
        for node in _nodes(schema)
        if node.get("type") == "union"
    )


def _nodes(schema: object) -> Iterator[Mapping[str, Any]]:
    if isinstance(schema, Mapping):
        node = cast("Mapping[str, Any]", schema)
        yield node
        for at, held in node.items():
            if at not in _NO_SCHEMA:
                yield from _nodes(held)
    elif isinstance(schema, (list, tuple)):
        for held in cast("list[object]", schema):
            yield from _nodes(held)
