"""When a schedule is due, over whole years and both changes of the clock."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from itertools import pairwise
from zoneinfo import ZoneInfo

import pytest

from mycelium.actors.schedules.recurrence import Rule, cron_rule, due_times, due_within, every_rule, last_within
from mycelium.leases.errors import SettingsError

NEW_YORK, LORD_HOWE, BERLIN, HAVANA = "America/New_York", "Australia/Lord_Howe", "Europe/Berlin", "America/Havana"
ZONES = (NEW_YORK, LORD_HOWE, BERLIN, HAVANA, "UTC", "Africa/Casablanca")
YEAR = 2026
DAY, MINUTE, QUARTER = timedelta(days=1), timedelta(minutes=1), timedelta(minutes=15)


def year_of(zone: str) -> tuple[datetime, datetime]:
    """The first instant of a local year, and that of the next."""
    begin, end = (datetime(year, 1, 1, tzinfo=ZoneInfo(zone)).astimezone(UTC) for year in (YEAR, YEAR + 1))
    return begin, end


def in_the_year(rule: Rule, zone: str) -> list[datetime]:
    begin, end = year_of(zone)
    return due_within(rule, begin - MINUTE, end - MINUTE, 1_000_000)


def local(due: datetime, zone: str) -> str:
    return due.astimezone(ZoneInfo(zone)).strftime("%m-%d %H:%M %z")


def quarters_of(zone: str) -> Iterator[tuple[datetime, datetime]]:
    """Each quarter of an hour of the year, and what the clock shows."""
    instant, end = year_of(zone)
    where = ZoneInfo(zone)
    while instant < end:
        yield instant, instant.astimezone(where).replace(tzinfo=None)
        instant += QUARTER


@pytest.mark.parametrize("zone", ZONES)
@pytest.mark.parametrize(
    "expression", ["0 3 * * *", "0 0 * * *", "15 1 * * *", "45 1 * * *", "0 2 * * *", "30 2 * * *", "0 */24 * * *"]
)
def test_a_daily_rule_is_due_once_each_local_day(expression: str, zone: str) -> None:
    dues = in_the_year(cron_rule(expression, zone), zone)
    days = Counter(due.astimezone(ZoneInfo(zone)).date() for due in dues)
    assert days == Counter(date(YEAR, 1, 1) + n * DAY for n in range(365))


@pytest.mark.parametrize("zone", ZONES)
@pytest.mark.parametrize("expression, minutes", [("0 * * * *", {0}), ("*/15 * * * *", {0, 15, 30, 45})])
def test_a_rule_for_every_hour_is_due_whenever_the_clock_shows_its_minutes(
    expression: str, minutes: set[int], zone: str
) -> None:
    expected = [instant for instant, shown in quarters_of(zone) if shown.minute in minutes]
    assert in_the_year(cron_rule(expression, zone), zone) == expected


@pytest.mark.parametrize("zone", ZONES)
@pytest.mark.parametrize("expression, hours", [("*/15 1-3 * * *", {1, 2, 3}), ("*/15 */2 * * *", set(range(0, 24, 2)))])
def test_a_rule_that_names_hours_counts_each_reading_once(expression: str, hours: set[int], zone: str) -> None:
    first: dict[datetime, datetime] = {}
    for instant, shown in quarters_of(zone):
        first.setdefault(shown, instant)
    wanted = set()
    reading = datetime(YEAR, 1, 1)  # noqa: DTZ001 - what a clock shows
    while reading.year == YEAR:
        if reading.hour in hours:
            # One that is skipped counts when the clock comes past it: at the first reading that is shown after it.
            shown = next(reading + n * QUARTER for n in range(96) if reading + n * QUARTER in first)
            wanted.add(first[shown])
        reading += QUARTER
    assert in_the_year(cron_rule(expression, zone), zone) == sorted(wanted)


@pytest.mark.parametrize(
    "expression, zone, after, shown",
    [
        ("30 2 * * *", NEW_YORK, "2026-03-07", ["03-07 02:30 -0500", "03-08 03:00 -0400", "03-09 02:30 -0400"]),
        ("0,30 2 * * *", NEW_YORK, "2026-03-08", ["03-08 03:00 -0400", "03-09 02:00 -0400", "03-09 02:30 -0400"]),
        ("30 1 * * *", NEW_YORK, "2026-11-01", ["11-01 01:30 -0400", "11-02 01:30 -0500"]),
        ("30 1-2 1 11 *", NEW_YORK, "2026-11-01", ["11-01 01:30 -0400", "11-01 02:30 -0500", "11-01 01:30 -0400"]),
        ("15 2 * * *", LORD_HOWE, "2026-10-04", ["10-04 02:30 +1100", "10-05 02:15 +1100"]),
        ("45 1 * * *", LORD_HOWE, "2026-04-05", ["04-05 01:45 +1100", "04-06 01:45 +1030"]),
        ("0 0 * * *", HAVANA, "2026-03-08", ["03-08 01:00 -0400", "03-09 00:00 -0400"]),
        ("0 * * * *", LORD_HOWE, "2026-10-04 00:30", ["10-04 01:00 +1030", "10-04 03:00 +1100"]),
        (
            "*/30 * * * *",
            LORD_HOWE,
            "2026-04-05 01:20",
            ["04-05 01:30 +1100", "04-05 01:30 +1030", "04-05 02:00 +1030"],
        ),
    ],
)
def test_where_the_clock_is_changed(expression: str, zone: str, after: str, shown: list[str]) -> None:
    start = datetime.fromisoformat(after).replace(tzinfo=ZoneInfo(zone)).astimezone(UTC) - MINUTE
    dues = due_times(cron_rule(expression, zone), start)
    assert [local(due, zone) for due, _ in zip(dues, shown, strict=False)] == shown


@pytest.mark.parametrize("zone", ZONES)
@pytest.mark.parametrize("expression", ["*/15 * * * *", "*/15 1-3 * * *", "30 2 * * SUN", "0 0 L * *", "7 */5 * * *"])
def test_due_times_do_not_depend_on_where_the_search_begins(expression: str, zone: str) -> None:
    rule = cron_rule(expression, zone)
    dues = in_the_year(rule, zone)
    assert all(one < other for one, other in pairwise(dues))
    for start in (*spread_over_the_year(zone), *around_the_changes(zone)):
        at = bisect_right(dues, start)
        assert at == len(dues) or rule.after(start) == dues[at]


def spread_over_the_year(zone: str) -> Iterator[datetime]:
    begin, _ = year_of(zone)
    for n in range(0, 365 * 24 * 60, 1013):
        yield begin + n * MINUTE + timedelta(seconds=n % 60, milliseconds=n % 1000)


def around_the_changes(zone: str) -> Iterator[datetime]:
    for (one, shown), (other, shown_then) in pairwise(quarters_of(zone)):
        if shown_then - shown != other - one:
            for n in range(-150, 150, 5):
                yield other + n * MINUTE


@pytest.mark.parametrize("every", [timedelta(seconds=1), timedelta(minutes=7), timedelta(days=7)])
def test_an_interval_is_counted_from_1970_for_everybody(every: timedelta) -> None:
    rule = every_rule(every)
    start = datetime(2026, 5, 4, 3, 2, 1, 500, tzinfo=UTC)
    dues = due_within(rule, start, start + 3 * every, 10)
    assert len(dues) == 3
    assert all(one + every == other for one, other in pairwise(dues))
    assert all((due - datetime(1970, 1, 1, tzinfo=UTC)) % every == timedelta() for due in dues)
    assert rule.after(dues[0]) == dues[1]


@pytest.mark.parametrize("rule", [cron_rule("* 3 * * *", NEW_YORK), every_rule(timedelta(minutes=7))])
def test_the_last_due_time_is_the_last_of_all_of_them(rule: Rule) -> None:
    begin = datetime(2026, 3, 7, 1, 2, 3, tzinfo=UTC)
    for hours in (1, 5, 13, 30, 75):
        end = begin + timedelta(hours=hours)
        dues = due_within(rule, begin, end, 100_000)
        assert last_within(rule, begin, end) == (dues[-1] if dues else None)
        if dues:
            assert last_within(rule, dues[-1], end) is None
            assert last_within(rule, begin, dues[-1]) == dues[-1]


@pytest.mark.parametrize(
    "expression, zone, said",
    [
        ("0 3 * *", "UTC", "4 fields"),
        ("0 0 3 * * *", "UTC", "6 fields"),
        ("", "UTC", "0 fields"),
        ("60 3 * * *", "UTC", "bad minute"),
        ("0 3 * * MOON", "UTC", "bad day-of-week"),
        ("0 3 31 2 *", "UTC", "bad day-of-month"),
        ("0 3 */20 * 1L", "UTC", "never due"),
        ("0 3 * * *", "Europe/Atlantis", "no time zone"),
        ("0 3 * * *", "../../etc/passwd", "no time zone"),
        ("0 3 * * *", "Europe", "no time zone"),
        ("0 3 * * *", "", "no time zone"),
    ],
)
def test_a_rule_that_is_none_is_refused(expression: str, zone: str, said: str) -> None:
    with pytest.raises(SettingsError, match=said):
        cron_rule(expression, zone)


@pytest.mark.parametrize("every", [timedelta(), timedelta(seconds=-1), timedelta(milliseconds=1500)])
def test_an_interval_that_is_none_is_refused(every: timedelta) -> None:
    with pytest.raises(SettingsError, match="no interval"):
        every_rule(every)
