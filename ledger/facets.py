"""Digests of a call's single arguments, by which an operator can strike jobs without the store reading any argument."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

from .canon import canonical

WIDTH = 12
_MOST = 40


def facet(parameter: str, value: object) -> str:
    """The digest of one argument.

    Raises:
        BadArgumentsError: the value has no canonical form.
    """
    return hashlib.sha256(parameter.encode() + b"\t" + canonical(value)).hexdigest()[:WIDTH]


def facets_of(values: Mapping[str, object]) -> str:
    """The digests of a call's arguments, one after another: of those that are one text, number or truth value."""
    single = {name: value for name, value in values.items() if isinstance(value, (str, int, float, bool))}
    return "".join(facet(name, single[name]) for name in sorted(single)[:_MOST])
