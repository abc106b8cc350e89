"""The adapter: one match is proof, none after the lag is proof, everything else is doubt."""

from __future__ import annotations

import pytest

from mycelium.examples.airline.http_client import Answer
from mycelium.examples.airline.lookup import AirlineLookup
from mycelium.reconcilers.protocol import Lookup
from mycelium.reconcilers.verdict import Verdict, VerdictWord

MATCH = {"key": "effect", "tool": "cancel_reservation", "at": 1.0, "n": 1}


async def verdict(answer: Answer, *, unknown_since_s: float = 60.0) -> Verdict:
    async def ask(key: str) -> Answer:
        assert key == "effect"
        return answer

    doubt = Lookup("request", "effect", "cancel_reservation", None, None, {}, unknown_since_s, 1)
    return await AirlineLookup(ask).reconcile_async(doubt)


async def test_one_match_is_the_recorded_result() -> None:
    said = await verdict(Answer(200, {"matches": [MATCH], "text": "done"}))
    assert (said.word, said.result, said.evidence) == (VerdictWord.COMPLETED, "done", MATCH)


async def test_no_match_after_the_lag_is_proof() -> None:
    said = await verdict(Answer(200, {"matches": [], "in_progress": False}))
    assert said.word is VerdictWord.NOT_EXECUTED
    assert said.evidence


@pytest.mark.parametrize(
    "answer, unknown_since_s, says",
    [
        (Answer(200, {"matches": []}), 0.1, "too early"),
        (Answer(200, {"matches": [], "in_progress": True}), 60.0, "still working"),
        (Answer(200, {"matches": [MATCH, MATCH]}), 60.0, "2 matches"),
        (Answer(200, {}), 60.0, "answered 200"),
        (Answer(500, {"matches": []}), 60.0, "answered 500"),
    ],
)
async def test_anything_else_is_doubt(answer: Answer, unknown_since_s: float, says: str) -> None:
    said = await verdict(answer, unknown_since_s=unknown_since_s)
    assert said.word is VerdictWord.UNKNOWN
    assert says in said.reason
