"""A reconciler runs in a host, within a time limit; whatever goes wrong, nobody knows."""

from __future__ import annotations

import msgspec
import pytest

from kit.hosting import hosting, soon
from mycelium.actors.hosts.frames import Ask
from mycelium.reconcilers.verdict import VerdictWord


async def test_definite_verdicts_come_with_result_and_evidence() -> None:
    async with hosting() as control:
        seen = await control.ask("doubtful", say="completed")
        absent = await control.ask("doubtful", say="not_executed")
        by_await = await control.ask("doubtful_async", say="anything")
    assert (seen.verdict, msgspec.json.decode(seen.body)) == (VerdictWord.COMPLETED, {"ok": "pi_9"})
    assert msgspec.json.decode(seen.evidence) == {"id": "e"}
    assert (absent.verdict, absent.evidence) == (VerdictWord.NOT_EXECUTED, b'"no such key"')
    assert (by_await.verdict, by_await.body) == (VerdictWord.COMPLETED, b'"async"')


@pytest.mark.parametrize(
    "say, reason",
    [
        ("unknown", "too early"),
        ("true", "bool"),
        ("exit", "SystemExit"),
        ("stop", "StopIteration"),
        ("object", "mycelium.ResultUnencodable"),
        ("what?", "KeyError"),
        ("hang", "TimeoutError"),
    ],
)
async def test_everything_else_is_unknown(say: str, reason: str) -> None:
    async with hosting() as control:
        answer = await control.ask("doubtful", say=say, timeout_s=0.2 if say == "hang" else 10)
        assert (answer.verdict, answer.reason, answer.body) == (VerdictWord.UNKNOWN, reason, b"")
        assert (await control.ask("doubtful", say="completed")).verdict is VerdictWord.COMPLETED


@pytest.mark.parametrize(
    "say, reason", [("hang", "TimeoutError"), ("cancel", "CancelledError"), ("exit", "SystemExit")]
)
async def test_an_awaiting_adapter_fails_closed_as_well(say: str, reason: str) -> None:
    async with hosting() as control:
        answer = await control.ask("doubtful_async", say=say, timeout_s=0.2 if say == "hang" else 10)
    assert answer.verdict is VerdictWord.UNKNOWN
    assert answer.reason.endswith(reason)


async def test_no_adapter_no_tool_and_bad_arguments_are_unknown() -> None:
    async with hosting() as control:
        assert (await control.ask("echo")).reason == "no reconciler"
        assert (await control.ask("no_such_tool")).reason == "no reconciler"
        control.host.ask(Ask(3, "doubtful", "r", "e", None, None, b"not json", 1.0, 1, 5.0))
        answer = await soon(control.answers.get())
    assert (answer.slot, answer.verdict, answer.reason) == (3, VerdictWord.UNKNOWN, "msgspec.DecodeError")
