"""What one finished call costs in the server's memory: row, history, result, arguments, events, all keys together."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import pytest

from kit.claims import claimed
from kit.ledger import MC, Ledger, ended
from kit.script_cases import AUTO, READ

CALLS = 2_000
KEPT = 20
"""Calls in one turn, as a busy worker has them."""


def queued(ledger: Ledger, tool: str) -> None:
    """Finish calls that were queued."""
    for at in range(0, CALLS, KEPT):
        ledger.submit(tool, *[f"charge:order:ORD-{number:06}" for number in range(at, at + KEPT)])
        granted = ledger.claim(KEPT, known=[tool])
        for one in granted if tool == AUTO else []:
            ledger.mark(one.id, one.fence)
        ledger.settle(*[ended(one.id, one.fence, "completed", boundary=MC, body=b'{"ok":true}') for one in granted])


def called(ledger: Ledger, tool: str) -> None:
    """Finish calls that ran where they were made."""
    for number in range(CALLS):
        request_id = f"charge:order:ORD-{number:06}"
        fence = claimed(ledger, tool, request_id, boundary=MC if tool == AUTO else "not_crossed").fence
        ledger.settle(ended(request_id, fence, "completed", boundary=MC, body=b'{"ok":true}'))


def called_with_a_dispatch(ledger: Ledger, tool: str) -> None:
    """Finish calls that can be named twice."""
    for number in range(CALLS):
        call = claimed(ledger, tool, None, boundary=MC, dispatch_id=f"toolu_{number:024}")
        ledger.settle(ended(call.id, call.fence, "completed", boundary=MC, body=b'{"ok":true}'))


def bytes_by_kind(ledger: Ledger) -> Counter[str]:
    """Bytes a call, by what is kept."""
    found: Counter[str] = Counter()
    for key in ledger.client.scan_iter(ledger.keys.tag + ":*", count=1000):
        kind = key.decode().removeprefix(ledger.keys.tag + ":").partition(":")[0]
        found[kind] += ledger.client.memory_usage(key, samples=0)
    return Counter({kind: round(size / CALLS) for kind, size in found.items()})


@pytest.mark.parametrize(
    "finish, tool, bound",
    [
        (queued, AUTO, 1_200),
        (queued, READ, 1_000),
        (called, AUTO, 1_000),
        (called, READ, 950),
        (called_with_a_dispatch, AUTO, 1_700),
    ],
)
def test_a_finished_call_costs_no_more_than_is_stated(
    ledger: Ledger, finish: Callable[[Ledger, str], None], tool: str, bound: int
) -> None:
    finish(ledger, tool)
    cost = bytes_by_kind(ledger)
    assert sum(cost.values()) <= bound, cost
