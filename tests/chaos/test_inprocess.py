"""Ledgers in processes of their own that are killed, frozen, interrupted and forked, and whose server goes away."""

from __future__ import annotations

import asyncio
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from chaos.stage import SEED, Gate, runs, until
from chaos.tools import leave_trace, read_traces

from kit.fixtures import StartServer
from kit.inprocess import CLASSES, Boom, Runs, World, async_tool, tool, world
from kit.proxy import FaultProxy
from mycelium import (
    ActionLedger,
    BoundaryError,
    LedgerHardBlockError,
    ServerError,
    ServerUnavailableError,
    SessionLostError,
    task_ledger_sync,
)
from mycelium.actors.effect import side_effect
from mycelium.leases.session import SessionSettings
from mycelium.ledger.claim import claim_script
from mycelium.ledger.mark import mark_script
from mycelium.ledger.turn import turn_script

StartProxy = Callable[[str], Awaitable[FaultProxy]]
TIMES = {"ttl_s": 1.0, "renew_every_s": 0.2, "call_timeout_s": 0.15, "margin_s": 0.2, "grace_s": 0.3}
QUICK = SessionSettings(**TIMES)
LAPSED_S = TIMES["ttl_s"] + TIMES["grace_s"] + 0.2
WRITES = tuple(name for name in CLASSES if name not in {"read", "idempotent_mutate"})


@dataclass
class Cast:
    """Processes that make calls, their world, and the book of effects."""

    world: World
    place: Path
    nursery: subprocess.Popen[str]
    started: list[int] = field(default_factory=list[int])
    gates: list[Gate] = field(default_factory=list[Gate])
    living: ActionLedger | None = None

    @property
    def book(self) -> str:
        return str(self.place / "book")

    @property
    def effects(self) -> dict[str, int]:
        return dict(read_traces(self.book))

    def gate(self) -> Gate:
        self.gates.append(Gate(self.place / f"gate-{len(self.gates)}"))
        return self.gates[-1]

    def start(self, key: str, case: str = "call", **told: Any) -> int:  # noqa: ANN401 - to be told in JSON
        """A process that makes one call; its id."""
        given = {
            "case": case,
            "key": key,
            "url": self.world.url,
            "namespace": self.world.namespace,
            "book": self.book,
            "out": str(self.out(key)),
            "session": TIMES,
            "effect_class": "non_idempotent_mutate",
            "explicit": False,
        }
        assert self.nursery.stdin is not None
        assert self.nursery.stdout is not None
        self.nursery.stdin.write(json.dumps(given | told) + "\n")
        self.nursery.stdin.flush()
        self.started.append(int(self.nursery.stdout.readline()))
        return self.started[-1]

    def out(self, key: str) -> Path:
        return self.place / f"out-{key}"

    def said(self, key: str) -> list[list[Any]]:
        """What the process of a key has told so far."""
        try:
            return [json.loads(line) for line in self.out(key).read_text(encoding="utf-8").splitlines()]
        except FileNotFoundError:
            return []

    async def at(self, key: str) -> None:
        """Wait until it has come to the point where it waits."""
        await until(lambda: any(line[0] == "at" for line in self.said(key)))

    async def gone(self, *pids: int) -> None:
        await until(lambda: not any(map(runs, pids)))

    def again(self, key: str, effect_class: str, *, explicit: bool) -> Any:  # noqa: ANN401 - what a tool returns
        """The same call, by a process that lives: this one."""

        def act(key: str) -> str:
            if effect_class == "read":
                leave_trace(self.book, key)
                return "again"
            with side_effect():
                leave_trace(self.book, key)
            return "again"

        self.living = self.living or self.world.ledger(session=QUICK)
        try:
            return tool(self.living, act, effect_class, explicit=explicit)(key, request_id=key)
        except LedgerHardBlockError as refused:
            return refused

    def close(self) -> None:
        for pid in self.started:
            if runs(pid):
                os.kill(pid, signal.SIGKILL)
        for gate in self.gates:
            gate.open()


@contextmanager
def casting(at: World, place: Path) -> Generator[Cast]:
    here = Path(__file__).parent.parent
    path = os.pathsep.join([str(here), *filter(None, [os.environ.get("PYTHONPATH")])])
    command = [sys.executable, str(here / "kit" / "inprocess_child.py")]
    with (
        (place / "log").open("wb") as log,
        subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
            env=os.environ | {"PYTHONPATH": path},
        ) as nursery,
    ):
        made = Cast(at, place, nursery)
        try:
            yield made
        finally:
            made.close()
            assert nursery.stdin is not None
            nursery.stdin.close()


@pytest.fixture
def cast(url: str, namespace: str, tmp_path: Path) -> Iterator[Cast]:
    with world(url, namespace) as at, casting(at, tmp_path) as made:
        yield made


# ── killed at every point ────────────────────────────────────────────────────────────────────────────────────────────

POINTS = ("before", "claimed", "began", "marked", "sent", "returned", "settled")


def after_a_death(effect_class: str, point: str, *, explicit: bool) -> tuple[int, str]:
    """How many effects there are after a redispatch, and the state: what docs/gates.md says."""
    if point in {"before", "claimed"}:
        return 1, "completed"
    sent = point in {"sent", "returned", "settled"}
    if point == "settled":
        return 1, "completed"
    if effect_class in {"read", "idempotent_mutate"}:
        return 1 + sent, "completed"
    if explicit and point == "began":
        return 1, "completed"
    return int(sent), "unknown"


async def test_whatever_is_killed_wherever_has_its_effect_as_the_gates_say(cast: Cast) -> None:
    cases = [
        (effect_class, explicit, point)
        for effect_class in CLASSES
        for explicit in (False, True)
        for point in POINTS
        if effect_class != "read" or point not in {"marked", "returned"}
    ]
    names = {case: f"{case[0]}-{case[1]}-{case[2]}" for case in cases}
    pids = [cast.start(names[case], effect_class=case[0], explicit=case[1], die=case[2]) for case in cases]
    await cast.gone(*pids)
    assert not [name for name in names.values() if cast.said(name) and not name.endswith("settled")]
    await asyncio.sleep(LAPSED_S)
    answers = {case: await asyncio.to_thread(cast.again, names[case], case[0], explicit=case[1]) for case in cases}
    for case in cases:
        effects, state = after_a_death(case[0], case[2], explicit=case[1])
        found = cast.effects.get(names[case], 0), cast.world.state(names[case])
        assert found == (effects, state), (case, answers[case])
        assert isinstance(answers[case], LedgerHardBlockError if state == "unknown" else str), case
    cast.world.idle()


@pytest.mark.parametrize("effect_class", ["non_idempotent_mutate", "idempotent_mutate"])
async def test_d12_a_task_that_is_killed_is_unknown_or_runs_again_as_its_class_says(
    cast: Cast, effect_class: str
) -> None:
    await cast.gone(cast.start("day", task=True, effect_class=effect_class, die="marked"))
    assert cast.world.state("task:act:day") == "attempting"
    await asyncio.sleep(LAPSED_S)

    @task_ledger_sync(ledger=cast.world.ledger(session=QUICK), name="act", effect_class=effect_class)
    def act(key: str) -> str:
        return key

    if effect_class == "idempotent_mutate":
        assert await asyncio.to_thread(act, "day", task_id="day") == "day"
        return
    with pytest.raises(LedgerHardBlockError):
        await asyncio.to_thread(act, "day", task_id="day")
    assert cast.world.state("task:act:day") == "unknown"


# ── frozen ───────────────────────────────────────────────────────────────────────────────────────────────────────────


async def test_what_a_frozen_holder_still_does_is_refused_or_evidence(cast: Cast) -> None:
    gate, pids = cast.gate(), dict[str, int]()
    for name, effect_class, explicit, wait in (
        ("unmarked", "irreversible", True, "began"),
        ("undecided", "irreversible", False, "claimed"),
        ("marked", "non_idempotent_mutate", False, "sent"),
        ("read", "read", False, "sent"),
        ("repeated", "idempotent_mutate", False, "sent"),
    ):
        pids[name] = cast.start(name, effect_class=effect_class, explicit=explicit, wait=wait, gate=gate.path)
        await cast.at(name)
    fences = {name: cast.world.row(name)["fence"] for name in pids}
    for pid in pids.values():
        os.kill(pid, signal.SIGSTOP)
    await asyncio.sleep(LAPSED_S)
    answers = [
        await asyncio.to_thread(cast.again, "unmarked", "irreversible", explicit=True),
        await asyncio.to_thread(cast.again, "undecided", "irreversible", explicit=False),
        await asyncio.to_thread(cast.again, "marked", "non_idempotent_mutate", explicit=False),
        await asyncio.to_thread(cast.again, "read", "read", explicit=False),
        await asyncio.to_thread(cast.again, "repeated", "idempotent_mutate", explicit=False),
    ]
    assert [answers[at] for at in (0, 1, 3, 4)] == ["again"] * 4
    assert isinstance(answers[2], LedgerHardBlockError)
    gate.open()
    for pid in pids.values():
        os.kill(pid, signal.SIGCONT)
    await cast.gone(*pids.values())
    assert [cast.said(name)[-1][:2] for name in ("unmarked", "undecided")] == [
        ["raised", "BoundaryError"],
        ["raised", "LedgerOutcomeAlreadySetError"],
    ]
    # Only what may repeat was sent twice.
    assert cast.effects == {"unmarked": 1, "undecided": 1, "marked": 1, "read": 2, "repeated": 2}
    # Nobody ran it after the frozen one, so its late result is the evidence that was missing.
    assert cast.world.state("marked") == "completed"
    for name in ("read", "repeated"):
        notes = [why for what, why in cast.world.history(name) if what == "note"]
        assert notes == [f"refused-completed-{fences[name]}"]
        assert cast.world.row(name)["fence"] != fences[name]
    cast.world.idle()


async def test_a_holder_past_its_trusted_time_does_not_begin(cast: Cast) -> None:
    """Its portal stands still, so it renews nothing; and its own loop is late to see that it was granted."""
    kept, ran = cast.world.ledger(session=QUICK), Runs()

    async def body(order: str) -> str:
        ran.note()
        return order

    act = async_tool(kept, body)
    await act("warm", request_id="r0")
    loop = kept.engine._portal.loop  # pyright: ignore[reportPrivateUsage]
    call = asyncio.create_task(act("A", request_id="r1"))
    await asyncio.sleep(0)
    while cast.world.state("r1") != "attempting":
        pass
    loop.call_soon_threadsafe(time.sleep, LAPSED_S)
    time.sleep(TIMES["ttl_s"])  # noqa: ASYNC251 - the loop is late
    with pytest.raises(SessionLostError):
        await call
    assert ran.count == 1
    await asyncio.to_thread(cast.world.idle)
    assert cast.world.state("r1") == "ready"


async def test_a_body_that_blocks_its_loop_stops_no_renewal(cast: Cast) -> None:
    pid = cast.start("slow", "blocks", seconds=1.2 * LAPSED_S)
    await until(lambda: cast.world.state("slow") == "attempting")
    session = cast.world.session_of("slow")
    assert await asyncio.to_thread(cast.again, "slow", "non_idempotent_mutate", explicit=False) == "slow"
    await cast.gone(pid)
    assert cast.effects == {"slow": 1}
    assert (cast.world.row("slow")["deaths"], cast.world.row("slow")["attempts"]) == ("0", "1")
    assert session


# ── interrupted, ended, forked ───────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("explicit", [False, True])
async def test_interrupts_at_any_step_leave_nothing_held_and_no_effect_twice(cast: Cast, *, explicit: bool) -> None:
    gate, rng = cast.gate(), random.Random(SEED)
    pid = cast.start("many", "interrupted", explicit=explicit, wait="done", gate=gate.path, seconds=1.5)
    await cast.at("many")
    while len(cast.said("many")) < 2 and runs(pid):
        os.kill(pid, signal.SIGINT)
        await asyncio.sleep(rng.uniform(0.0005, 0.006))
    await until(lambda: len(cast.said("many")) == 3)
    _, hits, calls, last = cast.said("many")[1]
    assert hits > 50
    assert last == "last"
    assert calls > hits
    # It lives, and its session with it: what is held is held for something.
    cast.world.idle()
    assert runs(pid)
    assert max(cast.effects.values()) == 1
    for key in cast.effects:
        assert cast.world.state(key) in {"completed", "unknown"}, key
    gate.open()
    await cast.gone(pid)


async def test_a_program_that_ends_over_its_calls_leaves_their_rows_to_run_out(cast: Cast) -> None:
    gate = cast.gate()
    pid = cast.start("ending", "exits", wait="began", gate=gate.path)
    await cast.gone(pid)
    await asyncio.sleep(LAPSED_S)
    for key in ("ending", "ending-2"):
        answer = await asyncio.to_thread(cast.again, key, "non_idempotent_mutate", explicit=False)
        assert isinstance(answer, LedgerHardBlockError)
        assert cast.world.state(key) == "unknown"
    assert cast.effects == {}
    cast.world.idle()


async def test_a_fork_gets_a_session_of_its_own_and_harms_its_parent_in_nothing(cast: Cast) -> None:
    pid = cast.start("fork", "forks")
    await cast.gone(pid)
    said = {line[0]: line[1:] for line in cast.said("fork")}
    assert said["child"] == ["child-1", "parent-1"]
    # What its parent claimed is the parent's to settle.
    assert said["refused"] == ["LedgerError"]
    assert cast.world.state("manual") == "completed"
    assert said["parent"][:2] == [0, "parent-30"]
    assert set(cast.effects.values()) == {1}
    assert len(cast.effects) == 31
    # Each closed its own session, and nobody's was lost.
    assert cast.world.direct.zcard(cast.world.keys.sessions()) == 0
    log = (cast.place / "log").read_text(encoding="utf-8")
    assert "Traceback" not in log, log


async def test_a_copy_of_a_body_settles_nothing(cast: Cast) -> None:
    pid = cast.start("copied", "forks_in_body")
    await cast.gone(pid)
    await until(lambda: len(cast.said("copied")) == 2)
    answers = sorted(line[:2] for line in cast.said("copied"))
    assert answers == [["raised", "ServerUnavailableError"], ["returned", "parent copied"]]
    assert (cast.effects, cast.world.state("copied")) == ({"copied": 1}, "completed")


# ── the server is away ───────────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
async def near(cast: Cast, start_proxy: StartProxy) -> AsyncIterator[tuple[World, FaultProxy]]:
    """A world behind a proxy; its ledgers are closed before the proxy is."""
    proxy = await start_proxy(cast.world.url)
    yield cast.world, proxy
    await asyncio.to_thread(cast.world.opened.close)


async def test_without_a_server_at_the_claim_nothing_runs_and_nothing_is_held_later(
    near: tuple[World, FaultProxy],
) -> None:
    (at, proxy), ran = near, Runs()
    kept = at.ledger(url=proxy.url, session=QUICK, patience_s=0.3)

    async def body(order: str) -> str:
        ran.note()
        return order

    act = async_tool(kept, body)
    await act("warm", request_id="r0")
    proxy.shut()
    with pytest.raises(ServerError) as away:
        await act("A", request_id="r1")
    assert isinstance(away.value.__cause__, Exception)
    await proxy.reopen()
    await asyncio.to_thread(at.idle)
    assert ran.count == 1
    assert await act("A", request_id="r1") == "A"
    assert ran.count == 2


async def test_the_first_call_without_a_server_keeps_the_cause(near: tuple[World, FaultProxy]) -> None:
    at, proxy = near
    proxy.shut()
    with pytest.raises(ServerUnavailableError) as refused:
        await async_tool(at.ledger(url=proxy.url), never)("A", request_id="r1")
    assert isinstance(refused.value.__cause__, Exception)
    await proxy.reopen()


async def never(order: str) -> str:
    raise AssertionError(order)


@pytest.mark.parametrize("fault", ["drop_close", "drop_hang", "blackhole", "cut_before"])
@pytest.mark.parametrize("script", ["claim", "mark", "settle"])
async def test_a_lost_request_or_reply_costs_no_second_effect(
    near: tuple[World, FaultProxy], script: str, fault: str
) -> None:
    (at, proxy), ran = near, Runs()

    async def body(order: str) -> str:
        async with side_effect():
            ran.note(order)
        return order

    act = async_tool(at.ledger(url=proxy.url, session=QUICK), body, explicit=True)
    await act("warm", request_id="r0")
    sha = {"claim": claim_script.sha, "mark": mark_script.sha, "settle": turn_script.sha}[script]
    arm = getattr(proxy, fault)(sha.encode())
    if fault in {"drop_hang", "blackhole"}:
        # The reply is missed after two seconds only, and the session is quicker: this world is slower than that.
        act = async_tool(at.ledger(url=proxy.url), body, explicit=True)
    assert await act("A", request_id="r1") == "A"
    assert arm.fired.is_set()
    await asyncio.to_thread(at.idle)
    assert (ran.given, at.state("r1")) == (["warm", "A"], "completed")
    assert at.row("r1")["attempts"] == "1"


async def test_a_mark_that_never_left_leaves_no_doubt(near: tuple[World, FaultProxy]) -> None:
    (at, proxy), ran = near, Runs()

    async def body(order: str) -> str:
        if order == "A":
            proxy.shut()
        async with side_effect():
            ran.note(order)
        return order

    act = async_tool(at.ledger(url=proxy.url, session=QUICK, patience_s=0.3), body, explicit=True)
    await act("warm", request_id="r0")
    with pytest.raises(BoundaryError):
        await act("A", request_id="r1")
    await proxy.reopen()
    await until(lambda: at.state("r1") == "failed")
    assert ran.given == ["warm"]


async def test_a_claim_whose_reply_never_comes_is_given_back(near: tuple[World, FaultProxy]) -> None:
    (at, proxy), ran = near, Runs()

    async def body(order: str) -> str:
        ran.note()
        return order

    act = async_tool(at.ledger(url=proxy.url, patience_s=0.3), body)
    await act("warm", request_id="r0")
    proxy.drop_hang(claim_script.sha.encode())
    with pytest.raises(ServerError):
        await act("A", request_id="r1")
    await asyncio.to_thread(at.idle)
    assert (ran.count, at.state("r1")) == (1, "ready")


@pytest.mark.parametrize("fails", [False, True])
@pytest.mark.parametrize("lost", [False, True])
async def test_an_end_that_could_not_be_recorded_is_recorded_when_the_server_is_back(
    near: tuple[World, FaultProxy], caplog: pytest.LogCaptureFixture, *, fails: bool, lost: bool
) -> None:
    """Also when the session was lost: what its holder saw is evidence. A tool's own error is never hidden."""
    (at, proxy), ran = near, Runs()

    async def body(order: str) -> str:
        if order == "A":
            ran.note()
            proxy.shut()
            if fails:
                raise Boom(order)
        return order

    act = async_tool(at.ledger(url=proxy.url, session=QUICK, patience_s=0.2), body)
    await act("warm", request_id="r0")
    with pytest.raises(Boom if fails else ServerError):
        await act("A", request_id="r1")
    assert ("could not be recorded yet" in caplog.text) is fails
    assert at.state("r1") == "attempting"
    if lost:
        await asyncio.sleep(LAPSED_S)
        # Somebody else finds it, and may not run it.
        with pytest.raises(LedgerHardBlockError):
            await async_tool(at.ledger(session=QUICK), body)("A", request_id="r1")
        assert at.state("r1") == "unknown"
        # That its session is lost is heard before the settlement gets through.
        for nth in range(1, 13):
            proxy.cut_before(turn_script.sha.encode(), nth=nth)
    await proxy.reopen()
    await until(lambda: at.row("r1")["state"] == ("unknown" if fails else "completed") and at.row("r1")["ended"] == "1")
    assert at.row("r1")["boundary"] == ("maybe_crossed" if fails else "crossed")
    await asyncio.to_thread(at.idle)
    assert ran.count == 1


async def test_a_server_that_dies_and_comes_back_costs_no_second_effect(
    start_server: StartServer, namespace: str, tmp_path: Path
) -> None:
    server, ran = start_server(tmp_path / "data"), Runs()

    def body(order: str) -> str:
        ran.note(order)
        if order == "A":
            server.kill()
        return order

    with world(server.url, namespace) as at:
        act = tool(at.ledger(session=QUICK, patience_s=0.5), body)
        await asyncio.to_thread(act, "warm", request_id="r0")
        with pytest.raises(ServerError):
            await asyncio.to_thread(act, "A", request_id="r1")
        await server.restart_async()
        # It is told what it did not hear, and this process goes on under another session.
        await until(lambda: at.state("r1") == "completed")
        assert await asyncio.to_thread(act, "A", request_id="r1") == "A"
        assert await asyncio.to_thread(act, "B", request_id="r2") == "B"
    assert ran.given == ["warm", "A", "B"]
