"""What type checkers make of a submit: a bound call keeps its tool's signature, and options have their types.

The checkers are the test: each line that is to be refused says so, and a checker that lets it pass calls that an error.
"""

# pyright: reportUnnecessaryTypeIgnoreComment=true

from __future__ import annotations

from typing import assert_type

import pytest

from kit.shop import charge, look_up
from mycelium import BadCallError, Cancelled, Job, Priority, Progress, Submission, connect
from mycelium.actors.tool import Call


async def test_a_bound_call_keeps_the_signature_of_its_tool(url: str, namespace: str) -> None:
    assert_type(look_up.bind("A"), Call[dict[str, str]])
    async with connect(url, namespace=namespace) as client:
        call = charge.bind("A", amount=3)
        job = await client.submit(call, request_id="x", priority=Priority.HIGH, start_by=60.0, labels={"team": "ops"})
        assert_type(job, Job)
        assert_type(await job.progress(), Progress | None)
        assert_type(await job.cancel(), Cancelled)
        with pytest.raises(BadCallError):
            await client.submit(charge.bind("B", amount="ten"), request_id="y")  # type: ignore[arg-type]
        with pytest.raises(BadCallError):
            await client.submit(charge.bind("B", tip=1), request_id="y")  # type: ignore[call-arg]
        with pytest.raises(BadCallError):
            await client.submit(charge.bind(order=1), request_id="y")  # type: ignore[arg-type]
        with pytest.raises(BadCallError):
            await client.submit(charge.bind(), request_id="y")  # type: ignore[call-arg]
        with pytest.raises(BadCallError):
            await client.submit(call, request_id="y", start_by="soon")  # type: ignore[arg-type]
        with pytest.raises(TypeError):
            await client.submit(call, request_id="y", priorty="high")  # type: ignore[call-arg]
        with pytest.raises(TypeError):
            Submission(call, request_id="y", que="mail")  # type: ignore[call-arg]
