"""Public failures of what a job carries: bodies that nobody can stop, planted arguments, results without end."""

from __future__ import annotations

import pickle
import re
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from chaos import failure_tools as tools
from chaos.failure_tools import told
from chaos.scale import start
from chaos.stage import Stage, plain, staged, until_async

from kit.fixtures import StartServer
from mycelium.leases.errors import BadArgumentsError, OutcomeError, PayloadTooLargeError
from mycelium.ledger.states import State

HUGE = 100 << 20
DEPTH = 10_000


# ── bodies that are past their time ──────────────────────────────────────────────────────────────────────────────────


async def test_102_nothing_starts_again_while_a_body_that_is_past_its_time_still_runs(stage: Stage) -> None:
    """Case 102: the thread of an overrun goes on, so its call is held until it has ended; its effects never overlap."""
    await start(stage, overdue_s=30.0)
    key = await stage.submit(tools.overrun, "k", seconds=1.0)
    await until_async(partial(stage.in_state, [key], State.DEAD, State.UNKNOWN))
    (first, second), ended = told(stage.book, "begin")[key], told(stage.book, "end")[key]
    assert first < ended[0] <= second < ended[1]


async def test_102_a_body_alone_in_its_process_is_ended_with_it_before_the_next_starts(stage: Stage) -> None:
    """Case 102: the effect that it would have had later never comes."""
    await start(stage, solo=1)
    key = await stage.submit(tools.overrun_alone, "k", seconds=1.0)
    await until_async(partial(stage.in_state, [key], State.DEAD, State.UNKNOWN))
    assert len(told(stage.book, "begin")[key]) == 2
    assert stage.effects[key] == 0


# ── what is handed in ────────────────────────────────────────────────────────────────────────────────────────────────


def nested(depth: int) -> list[Any]:
    found: list[Any] = []
    for _ in range(depth):
        found = [found]
    return found


@pytest.mark.parametrize(
    "key, error",
    [("x" * HUGE, PayloadTooLargeError), (pickle.dumps("k"), BadArgumentsError), (nested(DEPTH), BadArgumentsError)],
    ids=["huge", "pickle", "deep"],
)
async def test_104_what_is_no_modest_json_is_refused_before_anything_is_written(
    stage: Stage, key: object, error: type[Exception]
) -> None:
    """Case 104: at the caller's."""
    with pytest.raises(error):
        await stage.client.submit(tools.charge.bind(book=stage.book, key=key), request_id="refused")  # type: ignore[arg-type]
    async with plain(stage.url) as direct:
        assert not await direct.exists(stage.client.store.keys.row("refused"))


async def test_104_a_body_of_any_size_that_somebody_planted_costs_no_worker_its_session(
    start_server: StartServer, tmp_path: Path
) -> None:
    """Case 104: whoever can write to the server can write a hundred megabytes: that job fails, and the others go on.

    With the session that a worker has by default: to read so much takes longer than the shortest of sessions.
    """
    server = start_server()
    async with plain(server.url) as direct, staged(server.url, "planted", tmp_path / "stage") as stage:
        await stage.submit(tools.charge, "huge")
        body = b'{"book":"%s","key":"%s"}' % (stage.book.encode(), b"x" * HUGE)
        await direct.set(stage.client.store.keys.args("huge"), body)
        worker = await start(stage, session={})
        for number in range(5):
            await stage.submit(tools.charge, f"good-{number}")
        good = [key for key in stage.keys if key != "huge"]
        await until_async(partial(stage.in_state, good, State.COMPLETED))
        await until_async(partial(stage.in_state, ["huge"], State.FAILED, State.DEAD))
        assert stage.effects.keys() == set(good)
        assert (worker.log.count("opened in epoch"), worker.process.poll()) == (1, None)
        assert "ended (" not in worker.log


# ── what comes back ──────────────────────────────────────────────────────────────────────────────────────────────────


async def test_105_a_result_without_end_is_a_completion_with_a_marker(stage: Stage) -> None:
    """Case 105: 64 MB are not kept; the state is, no renewal is late for it, and the calls beside it go on."""
    worker = await start(stage)
    jobs = [await stage.submit(tools.answer_at_length, f"big-{number}") for number in range(2)]
    small = [await stage.submit(tools.charge, f"small-{number}") for number in range(5)]
    await stage.ended(30)
    assert {record.state for record in (await stage.check()).values()} == {State.COMPLETED}
    for key in jobs:
        with pytest.raises(OutcomeError, match="above the size limit"):
            await stage.client.job(key).result()
    assert [await stage.client.job(key).result() for key in small] == small
    assert worker.log.count("opened in epoch") == 1
    assert not re.search(r"renewal failed|ended \(", worker.log)
