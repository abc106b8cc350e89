"""An agent as a process of its own, with a ledger in process: one step of three calls, and a place to die.

JSON in the first argument: `url`, `namespace`, `book` (where effects are appended), `calls` (names of its calls), `at`
(where the last call does something: `asked` or `sent`) and `does`: `die` by SIGKILL, `wait` for the lock of `gate`, or
`hold` the interpreter for `seconds`. What the calls came to is written to standard output at the end.
"""

from __future__ import annotations

import ctypes
import json
import os
import signal
import sys
from collections.abc import Callable
from typing import Any

from cases.ledgers import open_ledger
from chaos.tools import leave_trace, pass_gate

from mycelium.actors.inprocess.decorators import ledger_sync
from mycelium.leases.errors import MyceliumError


class Agent:
    """What the process was told, and its calls."""

    def __init__(self, told: dict[str, Any]) -> None:
        self._told = told

    def run(self) -> list[str]:
        """Make the calls in order; what each came to."""
        with open_ledger(self._told["url"], self._told["namespace"]) as kept:
            charge = ledger_sync(ledger=kept, effect_class="non_idempotent_mutate")(self.charge)
            return [self._end_of(charge, name) for name in self._told["calls"]]

    def charge(self, order: str) -> str:
        """An effect, and what the agent was told to do after it."""
        leave_trace(self._told["book"], order)
        self._come_to("sent", order)
        return order

    def _end_of(self, charge: Callable[..., str], order: str) -> str:
        self._come_to("asked", order)
        try:
            return charge(order, request_id=f"charge:{order}")
        except MyceliumError as error:
            return type(error).__name__

    def _come_to(self, point: str, order: str) -> None:
        if (point, order) != (self._told.get("at"), self._told["calls"][-1]):
            return
        match self._told["does"]:
            case "die":
                os.kill(os.getpid(), signal.SIGKILL)
            case "wait":
                pass_gate(self._told["gate"])
            case "hold":
                # A call into C that does not let the interpreter go: nothing of this process renews meanwhile.
                ctypes.PyDLL(None).usleep(int(self._told["seconds"] * 1e6))
            case _:
                raise AssertionError


if __name__ == "__main__":
    sys.stdout.write(json.dumps(Agent(json.loads(sys.argv[1])).run()))
