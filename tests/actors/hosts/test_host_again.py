"""What an error says of being run again travels with the end of the run."""

from __future__ import annotations

import pytest

from kit.hosting import hosting, run_of, soon
from mycelium.actors.hosts.again import MOST_S, again_of
from mycelium.actors.hosts.frames import Again, Outcome
from mycelium.actors.retry_after import retry_after_s
from mycelium.leases.errors import NotExecuted, Retry

SAID = [
    ("refused", "5", Outcome.NOT_EXECUTED, Again.LATER, 5.0),
    ("refused", "0", Outcome.NOT_EXECUTED, Again.LATER, 0.0),
    ("refused for good", "5", Outcome.NOT_EXECUTED, Again.CLASS, 0.0),
    ("snooze", "5", Outcome.NOT_EXECUTED, Again.SNOOZE, 5.0),
    ("retry", "5", Outcome.FAILED, Again.LATER, 5.0),
    ("bad address", "5", Outcome.FAILED, Again.NEVER, 0.0),
    ("plain", "5", Outcome.FAILED, Again.CLASS, 0.0),
    ("retry", "inf", Outcome.FAILED, Again.LATER, MOST_S),
    ("retry", "huge", Outcome.FAILED, Again.LATER, MOST_S),
    *[("snooze", wrong, Outcome.NOT_EXECUTED, Again.CLASS, 0.0) for wrong in ("nan", "-1", "text", "true")],
]


async def test_an_error_says_whether_and_when_it_may_run_again() -> None:
    async with hosting("kit.isolated_tools") as control:
        told = [await control.run("fail", how=how, after=after) for how, after, *_ in SAID]
    assert [(done.outcome, done.again, done.after_s) for done in told] == [tuple(said[2:]) for said in SAID]


async def test_a_wish_made_after_the_timeout_is_none() -> None:
    async with hosting("kit.isolated_tools") as control:
        control.host.run(run_of("wish_when_cancelled", timeout_s=0.1))
        done = await soon(control.dones.get())
    assert (done.outcome, done.again) == (Outcome.TIMEOUT, Again.CLASS)


def test_what_the_error_asks_for_stands_above_what_is_declared_of_its_kind() -> None:
    assert again_of(Retry("x", after_s=1), (Exception,), proved=False) == (Again.LATER, 1.0)
    assert again_of(ValueError(), (Exception,), proved=False) == (Again.NEVER, 0.0)


def test_what_another_call_proved_is_no_wish_of_this_one() -> None:
    assert again_of(NotExecuted("x", retry_after_s=3), (), proved=False) == (Again.CLASS, 0.0)


DATE = "Sun, 06 Nov 1994 08:49:37 GMT"


@pytest.mark.parametrize(
    "value, seconds",
    [
        ("120", 120.0),
        (" 0 ", 0.0),
        ("Sun, 06 Nov 1994 08:51:37 GMT", 120.0),
        ("Sunday, 06-Nov-94 08:51:37 GMT", 120.0),
        ("Sun Nov  6 08:51:37 1994", 120.0),
        ("Sun, 06 Nov 1994 08:49:00 GMT", 0.0),
        ("-1", None),
        ("1.5", None),
        ("soon", None),
        ("", None),
        (None, None),
        ("9" * 400, None),
    ],
)
def test_retry_after_is_read_in_each_of_its_forms(value: str | None, seconds: float | None) -> None:
    assert retry_after_s(value, date=DATE) == seconds


def test_without_a_date_of_the_provider_a_date_is_read_by_the_clock_here() -> None:
    assert retry_after_s(DATE) == 0.0
    assert (retry_after_s("Fri, 06 Nov 2999 08:49:37 GMT") or 0.0) > 0
