"""How a worker shares one claim between its queues: in a random order by weight, each with its share first."""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Mapping, Sequence

from ...ledger.turn import MOST, QueueItem
from .queues import QueueShare


class QueuesInTurn:
    """The queues of one worker, and how many attempts of each it has.

    A queue of twice the weight is first twice as often, and is given twice as many of the slots; what a queue does not
    need goes to the others. So no queue with a weight starves, whatever the others hold.
    """

    def __init__(self, shares: Sequence[QueueShare], rng: random.Random) -> None:
        self._shares = tuple(shares)
        self._weights = sum(share.weight for share in shares)
        self._rng = rng
        self._reserved: Counter[str] = Counter()
        """What turns in flight may bring of each queue."""

    @property
    def bounded(self) -> bool:
        """Whether it matters how many attempts of a queue are held."""
        return any(share.at_most is not None for share in self._shares)

    def open(self, held: Mapping[str, int]) -> frozenset[str]:
        """The queues that it may take more from, where it holds so many attempts of each."""
        return frozenset(share.name for share in self._shares if self._room(share, held))

    def items(self, slots: int, held: Mapping[str, int]) -> list[QueueItem]:
        """What the next turn asks for, in order.

        Args:
            slots: how many attempts may start.
            held: how many are held of each queue.
        """
        # The smallest of exponential draws: each queue is first with a chance in proportion to its weight.
        order = sorted(self._shares, key=lambda share: self._rng.expovariate(share.weight))
        return [
            QueueItem(share.name, min(room, math.ceil(slots * share.weight / self._weights)), min(room, slots))
            for share in order
            if (room := self._room(share, held))
        ]

    def reserve(self, items: Sequence[QueueItem]) -> None:
        """A turn is in flight that may bring so many."""
        self._reserved.update({item.name: item.most for item in items})

    def unreserve(self, items: Sequence[QueueItem]) -> None:
        """It is answered; what it brought is held from here on."""
        self._reserved.subtract({item.name: item.most for item in items})

    def _room(self, share: QueueShare, held: Mapping[str, int]) -> int:
        if share.at_most is None:
            return MOST
        return max(0, share.at_most - self._reserved[share.name] - held.get(share.name, 0))
