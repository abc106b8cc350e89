"""When a schedule is due: a cron rule on the clock of a time zone, or an interval. Instants are in UTC, whole seconds.

Which readings of a clock a cron rule means is the cron library's to say, on a plain calendar without zones. What
happens where a clock is changed is said here, so that it depends on the rule alone and not on where a search began:

- A rule that names hours follows the clock. Each reading that it names counts once: one that is skipped is due at the
  change, together with all others that are skipped then; one that comes twice is due the first time.
- A rule for every hour of the day follows time. Each instant at which the clock shows a reading that it names is due:
  one that is skipped is not, and one that comes twice is due twice.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, tzinfo
from functools import lru_cache
from itertools import islice
from zoneinfo import ZoneInfo

import msgspec
from cronsim import CronSim, CronSimError

from ...leases.errors import SettingsError

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_DAY, _SECOND = timedelta(days=1), timedelta(seconds=1)
_FIELDS = 5
_HOURS = set(range(24))
_CORRECT = "Correct the schedule."


class Cron(msgspec.Struct, frozen=True, array_like=True, tag=1):
    """A cron rule. Made by `cron_rule`, which checks it.

    Attributes:
        expression: minute, hour, day of month, month and day of week, in capitals.
        zone: the time zone whose clock it goes by.
    """

    expression: str
    zone: str

    def __str__(self) -> str:
        return self.expression

    def after(self, instant: datetime) -> datetime | None:
        """The first due time after an instant; None: there is none in fifty years."""
        return _first_after(self, instant)

    def first_after(self, instant: datetime) -> datetime | None:
        """The same, worked out anew."""
        zone = zone_of(self.zone)
        start = instant.astimezone(UTC).replace(microsecond=0)
        if set(CronSim(self.expression, _reading(start, zone)).hours) == _HOURS:
            return self._by_time(start, zone)
        return self._by_the_clock(start, zone)

    def _by_the_clock(self, start: datetime, zone: tzinfo) -> datetime | None:
        # In a time that comes twice, readings before this one have had their first time: they are before `start`.
        for reading in CronSim(self.expression, _reading(start, zone)):
            due = _first_time(reading, zone)
            if due > start:
                return due
        return None

    def _by_time(self, start: datetime, zone: tzinfo) -> datetime | None:
        before = _reading(start, zone)
        while True:
            found = next(CronSim(self.expression, before), None)
            if found is None:
                return None
            due = (found - _offset(start, zone)).replace(tzinfo=UTC)
            change = _change(zone, start, due)
            if change is None:
                return due
            # From the change on the clock shows other readings, the one at the change itself included.
            start, before = change, _reading(change, zone) - _SECOND


class Every(msgspec.Struct, frozen=True, array_like=True, tag=2):
    """An interval, counted from the beginning of 1970 in UTC, so that it is the same for everybody and for ever.

    Attributes:
        seconds: how long it is.
    """

    seconds: int

    def __str__(self) -> str:
        return f"every {timedelta(seconds=self.seconds)}"

    def after(self, instant: datetime) -> datetime:
        """The first due time after an instant."""
        return _EPOCH + timedelta(seconds=((instant - _EPOCH) // _SECOND // self.seconds + 1) * self.seconds)


Rule = Cron | Every


def cron_rule(expression: str, zone: str) -> Cron:
    """Read a cron rule.

    Args:
        expression: five fields, as `0 3 * * MON-FRI`.
        zone: a name of the time zone database, as `America/New_York`.

    Raises:
        SettingsError: the expression is none, or is never due; or there is no such zone here.
    """
    fields = expression.upper().split()
    if len(fields) != _FIELDS:
        what = f"The cron rule {expression!r} has {len(fields)} fields."
        raise SettingsError(what, next_step="Write minute, hour, day of month, month and day of week; or use every=.")
    zone_of(zone)
    rule = Cron(" ".join(fields), zone)
    try:
        first = rule.after(_EPOCH)
    except CronSimError as error:
        raise SettingsError(f"The cron rule {expression!r} has a {str(error).lower()}.", next_step=_CORRECT) from None
    if first is None:
        raise SettingsError(f"The cron rule {expression!r} is never due.", next_step=_CORRECT)
    return rule


def every_rule(every: timedelta | float) -> Every:
    """Read an interval.

    Raises:
        SettingsError: it is not of whole seconds, or not positive.
    """
    if not isinstance(every, timedelta):
        every = timedelta(seconds=every)
    if every < _SECOND or every % _SECOND:
        raise SettingsError(f"every={every} is no interval.", next_step="Give it whole seconds, from 1.")
    return Every(every // _SECOND)


def zone_of(name: str) -> tzinfo:
    """Find a time zone.

    Raises:
        SettingsError: there is none of this name here.
    """
    if name == "UTC":
        return UTC
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError):
        what = f"There is no time zone {name!r} here."
        next_step = "Use a name such as Europe/Berlin; where the system has no zones, install the package tzdata."
        raise SettingsError(what, next_step=next_step) from None


def due_times(rule: Rule, after: datetime) -> Iterator[datetime]:
    """All due times after an instant, in order."""
    due = rule.after(after)
    while due is not None:
        yield due
        due = rule.after(due)


def due_within(rule: Rule, after: datetime, until: datetime, most: int) -> list[datetime]:
    """The first due times after an instant, up to another and that included; at most so many."""
    found: list[datetime] = []
    for due in islice(due_times(rule, after), most):
        if due > until:
            break
        found.append(due)
    return found


def last_within(rule: Rule, after: datetime, until: datetime) -> datetime | None:
    """The last due time after an instant, up to another and that included."""
    # Backwards by doubled steps: what lies between is never walked through whole, however dense the rule is.
    span, end = timedelta(minutes=1), until
    while end > after:
        begin = max(after, end - span)
        last: datetime | None = None
        for due in due_times(rule, begin):
            if due > end:
                break
            last = due
        if last is not None:
            return last
        end, span = begin, 2 * span
    return None


def at_ms(milliseconds: int) -> datetime:
    """The instant of a server's millisecond."""
    return _EPOCH + timedelta(milliseconds=milliseconds)


def ms_of(instant: datetime) -> int:
    """The server's millisecond of an instant."""
    return (instant - _EPOCH) // timedelta(milliseconds=1)


@lru_cache(maxsize=4096)
def _first_after(rule: Cron, instant: datetime) -> datetime | None:
    # Each look asks again for what comes after the last due time.
    return rule.first_after(instant)


def _reading(instant: datetime, zone: tzinfo) -> datetime:
    """What the clock of a zone shows."""
    return instant.astimezone(zone).replace(tzinfo=None)


def _offset(instant: datetime, zone: tzinfo) -> timedelta:
    """How far the clock of a zone is ahead of UTC."""
    return _reading(instant, zone) - instant.replace(tzinfo=None)


def _first_time(reading: datetime, zone: tzinfo) -> datetime:
    """When the clock of a zone shows a reading for the first time; where it never does: when it is changed past it."""
    instant = reading.replace(tzinfo=zone).astimezone(UTC)
    if _reading(instant, zone) == reading:
        return instant
    before_the_change = reading.replace(tzinfo=zone, fold=1).astimezone(UTC)
    return _change(zone, before_the_change, instant) or instant


def _change(zone: tzinfo, start: datetime, end: datetime) -> datetime | None:
    """The first instant after `start`, up to `end`, from which the clock of a zone has another offset."""
    offset = _offset(start, zone)
    while start < end:
        step = min(start + _DAY, end)
        if _offset(step, zone) != offset:
            while step - start > _SECOND:
                middle = start + (step - start) // 2 // _SECOND * _SECOND
                if _offset(middle, zone) == offset:
                    start = middle
                else:
                    step = middle
            return step
        start = step
    return None
