"""Tools that are called by themselves, each due time once.

`mycelium-worker mycelium.examples.schedules` runs them, `mycelium schedules mycelium.examples.schedules` tells of them.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from ..actors.schedules.declaration import schedule
from ..actors.tool import tool


@tool(effect_class="idempotent_mutate")
async def write_report(region: str, until: datetime) -> str:
    """Write the report of a region's day, which ended at `until`: the due time, whenever it is run."""
    return f"{region}: {until - timedelta(days=1):%Y-%m-%d %H:%M} to {until:%H:%M}"


@tool(effect_class="non_idempotent_mutate")
async def bill_subscriptions(month: str) -> str:
    """Bill all subscriptions for a month."""
    return f"billed for {month}"


@tool(effect_class="read", timeout_s=30.0)
async def look_for_mail(mailbox: str) -> str:
    """Look for new mail."""
    return f"{mailbox}: nothing new at {datetime.now(UTC):%H:%M:%S}"


SCHEDULES = [
    # Once each local day, whatever is done to the clock. After an outage the last one is caught up.
    schedule("nightly-report", write_report, {"region": "eu"}, cron="0 3 * * *", zone="Europe/Berlin", due_as="until"),
    # One that nobody made in time is left for a person to look at, not made a day later.
    schedule(
        "billing", bill_subscriptions, {"month": "last"}, cron="0 6 1 * *", zone="America/New_York", catch_up="none"
    ),
    # The next look waits until this one has ended, and is given up if it could not start before the one after that.
    schedule(
        "mail",
        look_for_mail.bind("orders"),
        every=timedelta(seconds=10),
        overlap="skip",
        start_by=timedelta(seconds=10),
    ),
]
