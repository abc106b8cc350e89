"""Declaring a schedule: what is refused, and what travels to the process that submits its jobs."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from typing import Any

import pytest

from kit.schedules import NOON, nightly, ping, report
from mycelium.actors.hosts.frames import TO_CONTROL, Hello, Splitter, append_frame
from mycelium.actors.schedules.declaration import Schedule, schedule
from mycelium.actors.submissions import Submission, intent_of
from mycelium.actors.tool import tool
from mycelium.leases.errors import BadArgumentsError, BadCallError, MyceliumError, SettingsError
from mycelium.ledger.facets import facet
from mycelium.ledger.limits import Concurrency
from mycelium.ledger.submit import Retention

HOUR, DAY = timedelta(hours=1), timedelta(days=1)


@tool(effect_class="keyed_mutate", key_param="key", key_window_s=86400.0)
async def refund(order: str, key: str) -> str:
    """Refund an order."""
    return f"{order} {key}"


@tool(effect_class="read", limits=[Concurrency("day:{due}", 1)])
async def limited(due: str) -> str:
    """Do what is limited by day."""
    return due


@tool(effect_class="non_idempotent_mutate", destination="to")
async def send(to: str, when: str = "") -> None:
    """Send something."""


@tool(effect_class="read")
async def by_day(day: date) -> str:
    """Take a day."""
    return str(day)


@tool(effect_class="read")
async def by_instant(due: datetime) -> str:
    """Take an instant."""
    return str(due)


def declared(**said: Any) -> Schedule:  # noqa: ANN401 - as a caller without a type checker
    whole: dict[str, Any] = {"name": "s", "call": ping, "every": HOUR} | said
    return schedule(**whole)


@pytest.mark.parametrize(
    "said, error, fault",
    [
        ({"name": "a b"}, SettingsError, "no name"),
        ({"name": ""}, SettingsError, "no name"),
        ({"name": 5}, SettingsError, "no name"),
        ({"name": "x" * 65}, SettingsError, "no name"),
        ({"cron": "0 3 * * *"}, SettingsError, "either cron="),
        ({"every": None}, SettingsError, "either cron="),
        ({"zone": "Europe/Berlin"}, SettingsError, "either cron="),
        ({"every": None, "cron": "0 3 * *"}, SettingsError, "4 fields"),
        ({"every": None, "cron": "0 3 * * *", "zone": "Mars/Olympus"}, SettingsError, "no time zone"),
        ({"catch_up": "some"}, SettingsError, "catch_up="),
        ({"overlap": "perhaps"}, SettingsError, "overlap="),
        ({"catch_up": "all", "overlap": "skip"}, SettingsError, "keeps the first"),
        ({"look_back": timedelta()}, SettingsError, "look_back"),
        ({"look_back": 6.5 * DAY}, SettingsError, "kept for 7 days"),
        ({"retention": Retention(row=DAY)}, SettingsError, "kept for 1 day"),
        ({"retention": 5}, BadCallError, "not a Retention"),
        ({"call": "ping"}, SettingsError, "calls a tool"),
        ({"call": ping.bind(), "arguments": {}}, SettingsError, "calls a tool"),
        ({"call": report, "arguments": {"region": 5}}, BadArgumentsError, "region"),
        ({"call": report}, BadArgumentsError, "region"),
        ({"call": report, "arguments": {"region": "eu", "more": 1}}, BadArgumentsError, "no such parameter"),
        ({"due_as": "when"}, SettingsError, "no parameter that is left"),
        ({"call": report.bind("eu", None), "due_as": "due"}, SettingsError, "no parameter that is left"),
        ({"call": by_day, "due_as": "day"}, BadArgumentsError, "day"),
        ({"call": limited, "due_as": "due"}, SettingsError, "the same for all"),
        ({"call": send, "due_as": "to"}, SettingsError, "the same for all"),
        ({"call": refund.bind("o", key="k")}, SettingsError, "provider's key"),
        ({"request_id": "mine"}, SettingsError, "request_id"),
        ({"delay_s": 5.0}, SettingsError, "delay_s"),
        ({"deadline": NOON}, SettingsError, "told from the submit"),
        ({"start_by": NOON}, SettingsError, "told from the submit"),
        ({"labels": {"due": "x"}}, SettingsError, "the schedule's own"),
        ({"queue": "NO"}, BadCallError, "queue"),
    ],
)
def test_what_cannot_be_is_refused_by_name(said: dict[str, Any], error: type[MyceliumError], fault: str) -> None:
    with pytest.raises(error, match=fault) as refused:
        declared(**said)
    assert "schedule" in refused.value.what


def test_rows_are_kept_for_longer_than_anything_can_submit_them_again() -> None:
    assert declared(look_back=DAY, retention=Retention(row=2 * DAY)).facts.intent.retention.row == 2 * DAY
    with pytest.raises(SettingsError, match="looked at again"):
        declared(look_back=DAY, retention=Retention(row=2 * DAY - timedelta(seconds=1)))


def test_it_travels_as_plain_data() -> None:
    told = declared(queue="mail", tenant="t", deadline=HOUR, labels={"a": "b"}, timeout_s=5.0).facts
    buffer = bytearray()
    append_frame(buffer, Hello(1, {}, schedules={"nightly": nightly.facts, "s": told}))
    (hello,) = Splitter(TO_CONTROL).feed(bytes(buffer))
    assert isinstance(hello, Hello)
    assert hello.schedules == {"nightly": nightly.facts, "s": told}
    intent = hello.schedules["s"].intent_at(NOON, namespace="n")
    assert intent.deadline == "+3600000"
    assert (intent.line and intent.line.name) == "mail:2:ping:t"


@pytest.mark.parametrize("call, due_as", [(report, "due"), (by_instant, "due"), (send, "when")])
def test_what_is_submitted_is_what_a_caller_would_have_submitted(call: Any, due_as: str) -> None:  # noqa: ANN401
    given = {report: {"region": "eu"}, send: {"to": "a"}}.get(call, {})
    made = schedule("s", call, given, every=HOUR, due_as=due_as).facts.intent_at(NOON, namespace="n")
    by_hand = Submission(call.bind(**given, **{due_as: "2026-06-01T12:00:00Z"}), request_id=made.identity.request_id)
    wanted = intent_of(by_hand, {}, namespace="n", max_args_bytes=1 << 20)
    assert made.identity.args == wanted.identity.args
    assert (made.tool, made.binding, made.asked, made.line) == (wanted.tool, wanted.binding, wanted.asked, wanted.line)


def test_without_a_due_argument_it_is_the_same_effect_as_a_call_by_hand() -> None:
    made = schedule("s", refund.bind("o"), every=HOUR).facts.intent_at(NOON, namespace="n")  # type: ignore[call-arg]
    by_hand = Submission(refund.bind("o"), request_id="schedule:s:2026-06-01T12:00:00Z")  # type: ignore[call-arg]
    assert made.identity == intent_of(by_hand, {}, namespace="n", max_args_bytes=1 << 20).identity


def test_each_due_time_is_an_effect_of_its_own_with_a_key_of_its_own() -> None:
    facts = schedule("s", refund, {"order": "o"}, every=HOUR).facts
    one, other = (facts.intent_at(NOON + n * HOUR, namespace="n") for n in range(2))
    assert one.identity.effect_id != other.identity.effect_id
    again = facts.intent_at(NOON.astimezone(tz=None), namespace="n")
    assert again == one


def test_no_strike_by_the_sample_can_hit_it() -> None:
    with_due = schedule("s", send, {"to": "a"}, every=HOUR, due_as="when").facts
    assert with_due.intent.facets == facet("to", "a")


def test_what_it_calls_with_is_not_in_its_repr() -> None:
    secret = schedule("s", report, {"region": "s3cret"}, every=HOUR)
    assert "s3cret" not in repr(secret) + repr(secret.facts)


def test_due_times_are_written_in_utc() -> None:
    due = datetime.fromisoformat("2026-11-01T01:30:00-04:00")
    assert nightly.facts.request_id(due) == "schedule:nightly:2026-11-01T05:30:00Z"
    assert due.astimezone(UTC).hour == 5
