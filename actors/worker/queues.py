"""Which queues a worker takes from, and how it shares itself between them: `-Q mail:3@10,default`."""

from __future__ import annotations

import re
from dataclasses import dataclass

from ...leases.errors import SettingsError
from ...ledger.line import DEFAULT_QUEUE, checked_queue

MAX_WEIGHT = 1000
_SHARE = re.compile(r"([^:@]+)(?::(\d{1,9}))?(?:@(\d{1,9}))?")
_AS_IN = "Write NAME[:WEIGHT][@AT_MOST], with commas between: mail:3@10,default."


@dataclass(frozen=True, slots=True)
class QueueShare:
    """One queue of a worker.

    Attributes:
        name: the queue's.
        weight: of the turns in which several queues have jobs, this one is first in line in proportion to its weight.
        at_most: how many of this worker's slots its jobs may take at once; None: all of them.

    Raises:
        SettingsError: the name is none, or a number is out of its range.
    """

    name: str = DEFAULT_QUEUE
    weight: int = 1
    at_most: int | None = None

    def __post_init__(self) -> None:
        """Refuse what cannot work."""
        checked_queue(self.name)
        if not 1 <= self.weight <= MAX_WEIGHT:
            what = f"The queue {self.name!r} has the weight {self.weight}."
            raise SettingsError(what, next_step=f"Give it 1 to {MAX_WEIGHT}.")
        if self.at_most is not None and self.at_most < 1:
            what = f"The queue {self.name!r} may take {self.at_most} slots."
            raise SettingsError(what, next_step="Give it 1 or more, or leave the queue out.")

    def __str__(self) -> str:
        weight = f":{self.weight}" if self.weight != 1 else ""
        return f"{self.name}{weight}" + (f"@{self.at_most}" if self.at_most is not None else "")


DEFAULT_QUEUES = (QueueShare(),)


def parse_queues(text: str) -> tuple[QueueShare, ...]:
    """Read what an operator wrote.

    Raises:
        SettingsError: it is not written so, names a queue twice, or names none.
    """
    return checked_shares(tuple(_parse_share(part.strip()) for part in text.split(",")))


def _parse_share(text: str) -> QueueShare:
    found = _SHARE.fullmatch(text)
    if found is None:
        raise SettingsError(f"{text!r} names no queue.", next_step=_AS_IN)
    name, weight, at_most = found.groups()
    return QueueShare(name, 1 if weight is None else int(weight), None if at_most is None else int(at_most))


def checked_shares(shares: tuple[QueueShare, ...]) -> tuple[QueueShare, ...]:
    """Refuse shares that contradict each other.

    Raises:
        SettingsError: there are none, or two are of one queue.
    """
    names = [share.name for share in shares]
    if not names:
        raise SettingsError("The worker has no queue to take from.", next_step=_AS_IN)
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise SettingsError(f"The queue {twice[0]!r} is named twice.", next_step="Name each queue one time.")
    return shares
