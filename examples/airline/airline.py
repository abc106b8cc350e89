"""The airline itself: answers as the recording says, does writes, fails by rule, and can be asked what it did.

It does what many providers do: it takes an idempotency key and does not de-duplicate by it, and its look-up lags.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass

from ...leases.errors import BadArgumentsError
from ...ledger.canon import canonical
from .calls import RecordedCall
from .effects import EffectsFile
from .faults import Fault, FaultRule
from .lookup import STATED_LAG_S

OK, NOT_FOUND, REFUSED, BROKEN = 200, 404, 422, 500


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """How long the airline takes; seconds.

    Attributes:
        lag_s: what it did is invisible in a look-up for so long.
        read_s: longest time of a read.
        write_s: longest time from a write's effect to its answer.
        slow_s: longest time of the fault `SLOW`.
    """

    lag_s: float = STATED_LAG_S
    read_s: float = 0.02
    write_s: float = 0.25
    slow_s: float = 1.5


@dataclass(frozen=True, slots=True)
class Reply:
    """What goes back to the customer.

    Attributes:
        status: the HTTP status; 0: the connection is closed without an answer.
        body: the JSON object.
    """

    status: int
    body: dict[str, object]

    @classmethod
    def text(cls, status: int, text: str) -> Reply:
        """An answer in words."""
        return cls(status, {"text": text})


HANG_UP = Reply(0, {})


class Airline:
    """One airline with its memory.

    Args:
        calls: the recording that it answers from.
        effects: where it writes what it does.
        rule: which writes fail, and how.
        pace: how long things take.
        now_s: its clock, in seconds.
        pause: how it waits.
    """

    def __init__(  # noqa: PLR0913 - clock and waiting are given in tests only
        self,
        calls: Iterable[RecordedCall],
        effects: EffectsFile,
        *,
        rule: FaultRule,
        pace: Pace,
        now_s: Callable[[], float] = time.monotonic,
        pause: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._calls = {call.key: call for call in calls}
        self._effects = effects
        self._rule = rule
        self._pace = pace
        self._now_s = now_s
        self._pause = pause
        self._asked: Counter[str] = Counter()
        self._working: Counter[str] = Counter()
        self._writers: Counter[str] = Counter()
        self._done: dict[str, list[tuple[float, dict[str, object]]]] = {}
        self._faults: Counter[Fault] = Counter()

    async def call(self, tool: str, arguments: object, key: str, client: str) -> Reply:
        """Do one call.

        Args:
            tool: the tool's name.
            arguments: JSON values.
            key: the idempotency key.
            client: who asks, for the statistics.
        """
        recorded = self._calls.get(key)
        if recorded is None or not _is_the_same(recorded, tool, arguments):
            return Reply.text(REFUSED, "Error: no such call was recorded")
        self._asked[key] += 1
        if not recorded.is_write:
            await self._pause(self._pace.read_s * self._rule.draw(key, "pace"))
            return Reply.text(OK, recorded.result)
        first = self._asked[key] == 1
        self._working[key] += 1
        self._writers[client] += 1
        try:
            return await self._write(recorded, self._rule.fault_of(key) if first else Fault.NONE)
        finally:
            self._working[key] -= 1
            self._writers[client] -= 1

    async def _write(self, call: RecordedCall, fault: Fault) -> Reply:
        self._faults[fault] += 1
        if fault is Fault.ERROR_BEFORE:
            await self._take_time(call, fault)
            return Reply.text(BROKEN, "internal error")
        if not call.is_refused:
            # On record before the answer begins: whatever is lost from here on, the effect is there to be counted.
            self._do(call)
        await self._take_time(call, fault)
        if fault is Fault.ERROR_AFTER:
            return Reply.text(BROKEN, "internal error")
        if fault is Fault.HANG_UP:
            return HANG_UP
        return Reply.text(REFUSED if call.is_refused else OK, call.result)

    async def _take_time(self, call: RecordedCall, fault: Fault) -> None:
        longest_s = self._pace.slow_s if fault is Fault.SLOW else self._pace.write_s
        await self._pause(longest_s * (1 + self._rule.draw(call.key, "pace")) / 2)

    def _do(self, call: RecordedCall) -> None:
        done = self._done.setdefault(call.key, [])
        effect: dict[str, object] = {"key": call.key, "tool": call.tool, "at": time.time(), "n": len(done) + 1}
        self._effects.append(effect)
        done.append((self._now_s(), effect))

    def look_up(self, key: str) -> Reply:
        """Tell what was done under a key, as far as it is visible yet."""
        visible_s = self._now_s() - self._pace.lag_s
        matches = [effect for at_s, effect in self._done.get(key, []) if at_s <= visible_s]
        body: dict[str, object] = {"matches": matches, "in_progress": self._working[key] > 0}
        if matches:
            body["text"] = self._calls[key].result
        return Reply(OK, body)

    def stats(self) -> Reply:
        """Tell what is going on: calls asked, effects done, faults made, writes in flight by who asked for them."""
        in_flight = {client: number for client, number in self._writers.items() if number}
        faults = {fault.value: number for fault, number in self._faults.items()}
        effects = sum(len(done) for done in self._done.values())
        return Reply(
            OK, {"calls": self._asked.total(), "effects": effects, "faults": faults, "writes_in_flight": in_flight}
        )


def _is_the_same(recorded: RecordedCall, tool: str, arguments: object) -> bool:
    try:
        return recorded.tool == tool and canonical(arguments) == recorded.canonical
    except BadArgumentsError:
        return False
