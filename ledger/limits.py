"""Limits that the fleet shares: how many run at once for a key, and how much is spent on a key in a time.

A limit is declared with a tool and named by a template over its arguments, as `mailbox:{to}`. It is decided inside the
claim: a job that may not run yet is put aside under its key, and no worker looks at it again before the key has room.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass

from ..leases.errors import BadArgumentsError, SettingsError
from .canon import canonical, pick

MAX_KEY_BYTES = 128
MAX_LIMITS = 8
_HOLE = re.compile(r"\{([^{}]*)\}")
_CORRECT = "Correct the declaration of the limit."
_MOST = 1_000_000_000
MOST_S = 3650 * 86400.0
"""The longest time in which units come in: ten years, as for every instant."""


@dataclass(frozen=True, slots=True)
class Concurrency:
    """At most so many jobs of a key are held at once, in the whole fleet.

    Attributes:
        key: names what is limited, with arguments in braces: `customer:{customer}`, `repository:{target.repo}`.
        at_most: how many.

    Raises:
        SettingsError: there is no key, or `at_most` is not 1 or more.
    """

    key: str
    at_most: int

    def __post_init__(self) -> None:
        """Refuse what cannot hold."""
        _check_template(self.key)
        _check_count("at_most", self.at_most)

    @property
    def paths(self) -> list[str]:
        """The arguments that it names."""
        return _HOLE.findall(self.key)

    def filled(self, values: Mapping[str, object]) -> str:
        """As the row has it, for one call.

        Raises:
            BadArgumentsError: an argument that it names is not given.
        """
        return f"c\t{self.at_most}\t{_filled(self.key, values)}"


@dataclass(frozen=True, slots=True)
class Rate:
    """At most so many units of a key are spent in a time, in the whole fleet: a bucket that fills evenly.

    Attributes:
        key: names what is limited, as in `Concurrency`: `stripe:{account}`.
        units: how many units come in each `per_s`.
        per_s: seconds.
        cost: units of one attempt, or the path of the argument that says how many.
        burst: the most that can be saved up; None: `units`.

    Raises:
        SettingsError: a value is out of its range, or one attempt costs more than can ever be saved up.
    """

    key: str
    units: int
    per_s: float = 1.0
    cost: int | str = 1
    burst: int | None = None

    def __post_init__(self) -> None:
        """Refuse what cannot hold."""
        _check_template(self.key)
        _check_count("units", self.units)
        _check_count("burst", self.most)
        if not _is_number(self.per_s) or not 0 < self.per_s <= MOST_S:
            raise SettingsError(f"The limit {self.key!r} has per_s={self.per_s!r}.", next_step=_CORRECT)
        if not isinstance(self.cost, str) or not self.cost.strip():
            _check_count("cost", self.cost)
        if isinstance(self.cost, int) and self.cost > self.most:
            what = f"The limit {self.key!r} saves up {self.most} units, and one attempt costs {self.cost}."
            raise SettingsError(what, next_step=_CORRECT)

    @property
    def paths(self) -> list[str]:
        """The arguments that it names."""
        return [*_HOLE.findall(self.key), *([self.cost] if isinstance(self.cost, str) else [])]

    @property
    def most(self) -> int:
        """The most that can be saved up."""
        return self.units if self.burst is None else self.burst

    def filled(self, values: Mapping[str, object]) -> str:
        """As the row has it, for one call.

        Raises:
            BadArgumentsError: an argument that it names is not given, or the one that says the cost is no whole number,
                or more than can ever be saved up.
        """
        per_ms = max(1, round(self.per_s * 1000))
        return f"r\t{self.units}\t{per_ms}\t{self.most}\t{self._cost(values)}\t{_filled(self.key, values)}"

    def _cost(self, values: Mapping[str, object]) -> int:
        if isinstance(self.cost, int):
            return self.cost
        cost = pick(values, self.cost)
        if isinstance(cost, bool) or not isinstance(cost, int) or not 0 <= cost <= self.most:
            what = (
                f"The argument {self.cost!r} says what a call costs of {self.key!r}: a whole number up to {self.most}."
            )
            raise BadArgumentsError(what, next_step="Nothing was submitted. Correct the argument, or raise the burst.")
        return cost


Limit = Concurrency | Rate


def fill_limits(limits: tuple[Limit, ...], values: Mapping[str, object]) -> str:
    """Write the limits of one call as its row has them: one a line.

    Raises:
        BadArgumentsError: an argument that a limit names is missing or does not fit it.
    """
    return "\n".join(limit.filled(values) for limit in limits)


def _check_template(key: object) -> None:
    good = isinstance(key, str) and key.strip() and key.isprintable() and len(key.encode()) <= MAX_KEY_BYTES
    if (
        not good
        or any(not hole.strip() for hole in _HOLE.findall(str(key)))
        or set(_HOLE.sub("", str(key))) & set("{}")
    ):
        what = f"{key!r} does not name a limit."
        raise SettingsError(
            what, next_step=f"Use printable text of at most {MAX_KEY_BYTES} bytes, arguments in braces."
        )


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _check_count(name: str, count: object) -> None:
    if isinstance(count, bool) or not isinstance(count, int) or not 1 <= count <= _MOST:
        raise SettingsError(f"{name} of a limit is {count!r}.", next_step=f"Give {name} a whole number from 1.")


def _filled(template: str, values: Mapping[str, object]) -> str:
    def fill(hole: re.Match[str]) -> str:
        value = pick(values, hole[1])
        return value if isinstance(value, str) else canonical(value).decode()

    key = _HOLE.sub(fill, template)
    if key.isprintable() and len(key.encode()) <= MAX_KEY_BYTES:
        return key
    return _HOLE.sub("", template)[:32] + "#" + hashlib.sha256(key.encode()).hexdigest()
