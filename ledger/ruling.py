"""What a gate answers: the gate, and the rule that decided, in words for people."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Self

from .states import Gate


class Why(StrEnum):
    """Why a gate is what it is: the rule that decided, a sentence for people, and what they can do.

    Attributes:
        what: the sentence.
        next_step: what to do next.
    """

    what: str
    next_step: str

    def __new__(cls, word: str, what: str, next_step: str) -> Self:
        """Make a member that carries its sentences."""
        member = str.__new__(cls, word)
        member._value_ = word
        member.what = member.__doc__ = what
        member.next_step = next_step
        return member

    INCOMPLETE = (
        "incomplete",
        "The row lacks a field that can be filled in.",
        "Repair the row, and judge it again.",
    )
    COMPLETED = (
        "completed",
        "It is completed: its effect was seen.",
        "Use the stored result; for a second effect submit a new request id.",
    )
    NOT_YET = (
        "not_yet",
        "It is due later.",
        "Wait for it, or cancel it.",
    )
    APPROVAL = (
        "approval",
        "It waits for a person's approval.",
        "Wait for it, or have it approved or declined.",
    )
    CANCELLED = (
        "cancelled",
        "It was cancelled, and does not run any more.",
        "If it is wanted after all, queue it again, or submit a new request id.",
    )
    DEAD = (
        "dead",
        "Its attempts or deaths are used up; no effect exists.",
        "Find out why it cannot end, then queue it again or submit a new request id.",
    )
    HELD = (
        "held",
        "Another attempt has it, and its session is alive.",
        "Wait for its result.",
    )
    GRACE = (
        "grace",
        "The session of its last attempt lapsed, and there is no evidence yet that the attempt can send nothing more.",
        "Wait until the grace is over, or declare its worker dead.",
    )
    QUEUED = (
        "queued",
        "It waits to be claimed, and nothing of it was sent.",
        "Nothing is to be done.",
    )
    READ = (
        "read",
        "It is a read, which has no effect: it runs again.",
        "Nothing is to be done.",
    )
    READ_UNKNOWN = (
        "read_unknown",
        "It is a read whose last attempt ended nobody knows how.",
        "Run it again: a read has no effect.",
    )
    NOTHING_SENT = (
        "nothing_sent",
        "Its last attempt was lost before its mark, and nothing was sent: a mark that comes late is refused.",
        "Nothing is to be done.",
    )
    REPEATABLE = (
        "repeatable",
        "It may have had its effect, and is declared so that running it again changes nothing.",
        "Nothing is to be done.",
    )
    SAME_KEY = (
        "same_key",
        "It may have had its effect; it is sent with the same key, which the provider still knows.",
        "Nothing is to be done.",
    )
    FAILED_BEFORE = (
        "failed_before",
        "Its last attempt failed, and no effect exists: its declaration lets it run again.",
        "Nothing is to be done.",
    )
    MANUAL = (
        "manual",
        "It is recorded as failed without an effect, and its class is not retried by itself.",
        "Make sure that there is no effect, mend the cause, and give the call a new request id.",
    )
    NEVER = (
        "never",
        "It failed without an effect, and its declaration forbids a retry.",
        "Submit a new request id, if it is to be tried once more.",
    )
    KEY_MISSING = (
        "key_missing",
        "Its first attempt and this one do not both have a provider key, so that nobody could de-duplicate them.",
        "Ask the provider what happened, then release it; or call again with the key of the first attempt.",
    )
    KEY_DIFFERENT = (
        "key_different",
        "This call has another provider key than its first attempt: the provider would take it for another effect.",
        "Call again with the key of the first attempt, or ask the provider what happened and release it.",
    )
    KEY_OVER = (
        "key_over",
        "The provider may have forgotten the key of its first attempt.",
        "Ask the provider what happened, then release it.",
    )
    KEY_UNTRACKED = (
        "key_untracked",
        "It may have had its effect, and nobody can say whether the provider still knows its key.",
        "Ask the provider what happened, then release it; declare key_window_s if the provider states one.",
    )
    NOT_RESENT = (
        "not_resent",
        "It may have had its effect, and its declaration does not let it be sent again by key.",
        "Ask the provider what happened, then release it.",
    )
    BLIND = (
        "blind",
        "It may have had its effect, and there is nothing that could be asked about it.",
        "Find out by other means what happened, then release it.",
    )
    MAY_HAVE_HAPPENED = (
        "may_have_happened",
        "It may have had its effect, and running it again may be a second one.",
        "Ask the provider what happened, or let the reconciler do so, then release it.",
    )
    WORN_OUT = (
        "worn_out",
        "Too many hosts or sessions ended under it.",
        "Find out why they end, then release it.",
    )


@dataclass(frozen=True, slots=True)
class Ruling:
    """A gate, and the rule that decided.

    Attributes:
        gate: what the dispatch gets.
        why: the rule.
    """

    gate: Gate
    why: Why
