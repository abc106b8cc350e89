"""When runs are past their time, as the control process counts it."""

from __future__ import annotations

import math

from kit.hosting import run_of
from mycelium.actors.hosts.due import Due


def test_a_run_is_overdue_after_its_timeout_and_the_grace() -> None:
    due = Due()
    due.add(run_of("t", 1, timeout_s=10.0), 100.0, grace_s=5.0)
    assert due.overdue(114.9) == ()
    assert due.overdue(115.0) == (1,)
    assert due.next_s() == 115.0
    due.end(1, 116.0)
    assert (due.overdue(999.0), due.next_s(), len(due)) == ((), math.inf, 0)


def test_each_report_moves_the_idle_end_and_never_the_last_one() -> None:
    due = Due()
    due.add(run_of("t", 1, timeout_s=10.0, idle_timeout_s=3.0), 100.0, grace_s=0.0)
    assert due.next_s() == 103.0
    due.hear(1, 102.0)
    assert due.overdue(104.0) == ()
    due.hear(1, 109.0)
    assert (due.next_s(), due.overdue(110.0)) == (110.0, (1,))


def test_in_the_line_the_time_of_each_begins_with_its_turn() -> None:
    due = Due()
    for slot in (1, 2, 3):
        due.add(run_of("t", slot, timeout_s=10.0, idle_timeout_s=5.0), 100.0, grace_s=0.0, in_line=True)
    due.add(run_of("t", 4, timeout_s=50.0), 100.0, grace_s=0.0)
    due.hear(2, 101.0)
    assert due.overdue(140.0) == (1,)
    due.end(2, 140.0)  # cancelled while it waited
    due.end(1, 141.0)
    assert due.next_s() == 146.0
    assert due.overdue(146.0) == (3,)


def test_a_slot_stands_for_the_run_that_it_has_now() -> None:
    due = Due()
    due.add(run_of("t", 1, fence="7"), 0.0, grace_s=0.0)
    assert due.stands(1, "7")
    assert not due.stands(1, "6")
    assert not due.stands(2, "7")
    due.end(1, 0.0)
    due.add(run_of("t", 1, fence=""), 0.0, grace_s=0.0)
    assert not due.stands(1, "")
