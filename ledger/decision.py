"""The one place where policy says whether a claimed call may be attempted: pure predicates, recorded verdicts."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import cast

import msgspec

from ..leases.errors import LedgerError, SettingsError
from .about import About
from .states import EffectClass

_REASON_CHARS = 200
_NAME_CHARS = 64


@dataclass(frozen=True, slots=True)
class DecisionIntent:
    """The call that is to be decided on.

    Attributes:
        tool: the tool's name.
        effect_class: what kind of effect it has.
        request_id: the transition.
        effect_id: its dedupe identity.
        arguments: validated arguments by name. They are for the predicate alone: none of it is recorded.
        about: where the call came from.
    """

    tool: str
    effect_class: EffectClass
    request_id: str
    effect_id: str
    arguments: Mapping[str, object]
    about: About

    def __repr__(self) -> str:
        # Arguments may be secrets of the caller's, and a repr ends up in logs.
        return f"<intent of {self.tool!r}>"


@dataclass(frozen=True, slots=True)
class DecisionSnapshot:
    """What is known at that moment.

    Attributes:
        now_ms: server milliseconds.
        attempt: which attempt it is, from 1.
        fence: digits: its fence.
    """

    now_ms: int
    attempt: int
    fence: str


@dataclass(frozen=True, slots=True)
class PredicateVerdict:
    """What one predicate says.

    Attributes:
        allowed: whether it lets the call pass.
        reason: why not; at most 200 characters are recorded.
    """

    allowed: bool
    reason: str = ""


Predicate = Callable[[DecisionIntent, DecisionSnapshot], PredicateVerdict]


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    """One predicate's verdict as it is recorded."""

    predicate: str
    allowed: bool
    reason: str = ""


class Decision(msgspec.Struct, frozen=True, kw_only=True):
    """What all predicates say together.

    Attributes:
        allowed: whether the call may be attempted: no verdict denies it.
        verdicts: one for each predicate, in the order of their registration.
        denied_reasons: the reasons of those that deny.
    """

    allowed: bool
    verdicts: tuple[Verdict, ...] = ()
    denied_reasons: tuple[str, ...] = ()

    def body(self) -> bytes:
        """As it is recorded."""
        return msgspec.json.encode(self)

    @classmethod
    def read(cls, told: object) -> Decision:
        """Take a decision that a host made by itself: a mapping of exactly these three.

        Raises:
            LedgerError: it has other keys, or contradicts itself.
        """
        next_step = "Nothing was recorded. Give allowed, verdicts and denied_reasons, and let them agree."
        if not isinstance(told, Mapping) or set(cast("Mapping[str, object]", told)) != set(cls.__struct_fields__):
            raise LedgerError(
                "A decision is allowed, verdicts and denied_reasons, and nothing else.", next_step=next_step
            )
        try:
            decision = msgspec.convert(dict(cast("Mapping[str, object]", told)), type=cls, strict=True)
        except msgspec.ValidationError as error:
            raise LedgerError(f"The decision cannot be read: {error}.", next_step=next_step) from None
        denied = bool(decision.denied_reasons) or not all(verdict.allowed for verdict in decision.verdicts)
        if decision.allowed is denied:
            raise LedgerError("The decision contradicts its own verdicts or reasons.", next_step=next_step)
        return decision


@dataclass(frozen=True, slots=True, eq=False)
class _Registered:
    """One registration: another one of the same predicate, under the same name, is not it."""

    predicate: Predicate


class Predicates:
    """Named predicates, in the order of their registration. Used from many threads.

    There is no lock, which a fork could leave locked for ever: each step is one operation of a dict, which is whole.
    """

    def __init__(self) -> None:
        self._named: dict[str, _Registered] = {}

    def __len__(self) -> int:
        return len(self._named)

    def add(self, name: str, predicate: Predicate) -> Callable[[], None]:
        """Register a predicate.

        Returns:
            Takes it back.

        Raises:
            SettingsError: the name is taken, or is none.
        """
        mine = _Registered(predicate)
        fits = name.isprintable() and 0 < len(name) <= _NAME_CHARS
        if not fits or self._named.setdefault(str.__str__(name), mine) is not mine:
            what = f"A predicate named {name[:_NAME_CHARS]!r}: the name is taken, empty, too long or unprintable."
            raise SettingsError(what, next_step="Give it another name.")
        return lambda: self._take_back(str.__str__(name), mine)

    def decide(self, intent: DecisionIntent, snapshot: DecisionSnapshot) -> Decision:
        """Ask every predicate. One that raises denies nothing and allows nothing: its exception goes to the caller."""
        verdicts: list[Verdict] = []
        for name, registered in self._named.copy().items():
            said = registered.predicate(intent, snapshot)
            if not isinstance(cast("object", said), PredicateVerdict):
                what = f"The predicate {name!r} answered with a {type(said).__name__}, which says nothing."
                raise SettingsError(what, next_step="Let it return a PredicateVerdict. The call was not dispatched.")
            verdicts.append(Verdict(predicate=name, allowed=said.allowed, reason=said.reason[:_REASON_CHARS]))
        denied = tuple(verdict.reason or verdict.predicate for verdict in verdicts if not verdict.allowed)
        return Decision(allowed=not denied, verdicts=tuple(verdicts), denied_reasons=denied)

    def _take_back(self, name: str, mine: _Registered) -> None:
        if self._named.get(name) is mine:
            self._named.pop(name, None)


PREDICATES = Predicates()
"""What every call in this process is asked."""


def register_decision_predicate(name: str, predicate: Predicate) -> Callable[[], None]:
    """Register a predicate that every in-process call has to pass before its body begins.

    It is called in the caller's thread, after the claim and before the mark; it must be quick and have no effect.

    Returns:
        Takes it back.

    Raises:
        SettingsError: the name is taken, or is none.
    """
    return PREDICATES.add(name, predicate)
