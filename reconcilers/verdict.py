"""What a provider says about one call: a word with evidence, never a boolean."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import NoReturn


class VerdictWord(StrEnum):
    """The three things that a provider can say."""

    COMPLETED = "completed"
    """The effect is there: evidence shows it."""

    NOT_EXECUTED = "not_executed"
    """The effect is not there and the provider's stated lag has passed: it cannot still arrive."""

    UNKNOWN = "unknown"
    """The provider cannot say, or did not answer. Asked again later."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """One answer; make it with `completed`, `not_executed` or `unknown`.

    Attributes:
        word: what was said.
        result: what the tool would have returned (anything that JSON can hold); None unless completed.
        evidence: what was seen at the provider (anything that JSON can hold: an id, a record); None when unknown.
        reason: why nobody can say; empty unless unknown.
    """

    word: VerdictWord
    # What a provider says may be a secret of the caller's, and a repr ends up in logs.
    result: object = field(default=None, repr=False)
    evidence: object = field(default=None, repr=False)
    reason: str = field(default="", repr=False)

    @classmethod
    def completed(cls, result: object, evidence: object) -> Verdict:
        """The effect was seen at the provider.

        Raises:
            ValueError: the evidence is empty: "it is probably there" is `unknown`.
        """
        return cls(VerdictWord.COMPLETED, result=result, evidence=_not_empty(evidence))

    @classmethod
    def not_executed(cls, evidence: object) -> Verdict:
        """The effect does not exist at the provider and cannot still arrive.

        Raises:
            ValueError: the evidence is empty: an unanswered question is `unknown`.
        """
        return cls(VerdictWord.NOT_EXECUTED, evidence=_not_empty(evidence))

    @classmethod
    def unknown(cls, reason: str) -> Verdict:
        """Nobody can say yet."""
        return cls(VerdictWord.UNKNOWN, reason=reason)

    def __bool__(self) -> NoReturn:
        """Refuse: `if verdict:` would read "unknown" as "not done", which is how effects run twice.

        Raises:
            TypeError: always.
        """
        message = "a verdict has three values and no truth; compare verdict.word"
        raise TypeError(message)


def _not_empty(evidence: object) -> object:
    if evidence is None or evidence in ("", b"", [], {}, ()):
        message = "a definite verdict needs evidence; without it, answer Verdict.unknown(reason)"
        raise ValueError(message)
    return evidence
