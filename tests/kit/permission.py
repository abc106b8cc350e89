"""What no grant may do: run what is paused, struck, cancelled or past its time, or spend more than there is."""

from __future__ import annotations

from dataclasses import dataclass, field

from kit.ledger import Granted
from kit.queue_checks import line_of
from mycelium.ledger.facets import WIDTH


@dataclass(frozen=True, slots=True)
class Charge:
    """What one attempt spent.

    Attributes:
        fence: the attempt's.
        at_ms: when, by the latest that the server's clock has shown.
        cost_ms: how long it takes to fill up again.
        most_ms: how much of that can be saved up.
    """

    fence: str
    at_ms: int
    cost_ms: float
    most_ms: float


@dataclass(slots=True)
class Permission:
    """What operators ordered, and what was spent.

    Attributes:
        paused: `queue:name` and `tool:name`.
        struck: `tool:facet`.
        cancelled: rows that are never to be granted again.
    """

    paused: set[str] = field(default_factory=set[str])
    struck: set[str] = field(default_factory=set[str])
    cancelled: set[str] = field(default_factory=set[str])
    charges: dict[str, list[Charge]] = field(default_factory=dict[str, list[Charge]])
    latest_ms: int = 0

    def breaches(self, granted: Granted, row: dict[str, str], now_ms: int) -> list[str]:
        """What a grant of a turn did that it must not; what it spends is noted."""
        queue = line_of(row).partition(":")[0]
        facets = row.get("facets", "")
        found = {
            "was paused": bool({f"queue:{queue}", f"tool:{row['tool']}"} & self.paused),
            "was struck": any(
                f"{row['tool']}:{facets[at : at + WIDTH]}" in self.struck for at in range(0, len(facets), WIDTH)
            ),
            "was past its deadline": int(row.get("deadline", now_ms + 1)) <= now_ms,
            "had to have started": granted.attempt == 1 and int(row.get("start_by", now_ms + 1)) <= now_ms,
        }
        self._charge(granted.fence, row, now_ms)
        told = [f"Q2 {granted.id} was granted, and {fault}" for fault, is_so in found.items() if is_so]
        return [*told, *self.after_cancel(granted.id), *self._overspent()]

    def after_cancel(self, request_id: str) -> list[str]:
        """Granted though it was cancelled."""
        return [f"E4 {request_id} was granted, and was cancelled"] if request_id in self.cancelled else []

    def give_back(self, fence: str) -> None:
        """Nothing of this attempt was begun."""
        for key, charges in self.charges.items():
            self.charges[key] = [charge for charge in charges if charge.fence != fence]

    def _charge(self, fence: str, row: dict[str, str], now_ms: int) -> None:
        self.latest_ms = max(self.latest_ms, now_ms)
        for limit in [line.split("\t") for line in row.get("limits", "").split("\n")]:
            if limit[0] == "r":
                each_ms = int(limit[2]) / int(limit[1])
                charge = Charge(fence, self.latest_ms, int(limit[4]) * each_ms, int(limit[3]) * each_ms)
                self.charges.setdefault(limit[5], []).append(charge)

    def _overspent(self) -> list[str]:
        """Whether more was spent in some time than could be saved up and came in it."""
        found: list[str] = []
        for key, charges in self.charges.items():
            for at, first in enumerate(charges):
                spent_ms = sum(charge.cost_ms for charge in charges[at:])
                if spent_ms > first.most_ms + charges[-1].at_ms - first.at_ms + 1:
                    found.append(f"Q8 of {key} more was spent than there is: {charges[at:]}")
        return found
