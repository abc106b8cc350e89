"""What chaos tests share: workers as real processes, a namespace with its client, the book of effects, and waiting."""

from __future__ import annotations

import asyncio
import fcntl
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from chaos import tools
from redis.asyncio import Redis

from mycelium.actors.client import Client, ClientSettings, connect
from mycelium.actors.load import AnyTool
from mycelium.ledger.mark import mark_script
from mycelium.ledger.record import Record
from mycelium.ledger.states import REPEATABLE, TERMINAL, State
from mycelium.ledger.turn import turn_script

HERE = Path(__file__).parent
SEED = int(os.environ.get("MYCELIUM_CHAOS_SEED", "20"))
"""Of everything that is random in these tests."""
TTL_S = 2.0
SESSION = {"ttl_s": TTL_S, "renew_every_s": 0.4, "call_timeout_s": 0.3, "margin_s": 0.3}
ENDED = TERMINAL | {State.UNKNOWN}
_LOOK_S = 0.02


TURN = turn_script.sha.encode()
MARK = mark_script.sha.encode()
"""What is in every call of the script, so that a proxy can name it."""


def plain(url: str) -> Any:  # noqa: ANN401 - the library's annotations have gaps in nearly every method
    """A client past every channel of ours."""
    return Redis.from_url(url)


async def load_scripts(url: str) -> None:
    """Let the first call of each be the one that runs, not one that the server does not know yet."""
    async with plain(url) as direct:
        for script in (turn_script, mark_script):
            await direct.script_load(script.source)


async def until(holds: Callable[[], object], within_s: float = 20.0) -> float:
    """Wait for a fact that nobody tells; seconds that it took."""
    return await until_async(lambda: _answer(holds), within_s)


async def _answer(holds: Callable[[], object]) -> object:
    return holds()


async def until_async(holds: Callable[[], Awaitable[object]], within_s: float = 20.0) -> float:
    """As `until`, for a fact that has to be asked for."""
    begun = time.monotonic()
    while not await holds():
        waited = time.monotonic() - begun
        assert waited < within_s, f"not so within {within_s} s"
        await asyncio.sleep(_LOOK_S)
    return time.monotonic() - begun


def children(pid: int) -> list[int]:
    """The tool hosts of a worker process, by their command line."""
    found: list[int] = []
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        found += [child for child in map(int, _text(task).split()) if "hosts.child" in _text(_proc(child, "cmdline"))]
    return sorted(found)


def _proc(pid: int, name: str) -> Path:
    return Path(f"/proc/{pid}/{name}")


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def runs(pid: int) -> bool:
    """Whether a process exists and is no zombie."""
    return re.search(r"^State:\s+[^ZX]", _text(_proc(pid, "status")), re.MULTILINE) is not None


class Worker:
    """A worker process and its log."""

    def __init__(self, log: Path, command: list[str], environment: dict[str, str], hosts: int) -> None:
        self._log = log
        self._hosts = hosts
        with log.open("wb") as out:
            self.process = subprocess.Popen(command, stdout=out, stderr=out, env=environment, start_new_session=True)

    @property
    def pid(self) -> int:
        return self.process.pid

    @property
    def log(self) -> str:
        return _text(self._log)

    @property
    def hosts(self) -> list[int]:
        """Process ids of its tool hosts."""
        return children(self.pid)

    @property
    def started(self) -> int:
        """How many tool hosts it has started in all."""
        return len(re.findall(r"runs as process \d+", self.log))

    @property
    def session(self) -> str:
        """The session that it opened last."""
        return str(re.findall(r"session (\w+) opened", self.log)[-1])

    async def ready(self) -> Worker:
        await until(lambda: self.started >= self._hosts or self.process.poll() is not None, 30)
        assert self.process.poll() is None, self.log
        return self

    def kill(self, number: signal.Signals = signal.SIGKILL) -> None:
        self.process.send_signal(number)

    async def exited(self, within_s: float = 20.0) -> int:
        try:
            await until(lambda: self.process.poll() is not None, within_s)
        except AssertionError:
            raise AssertionError(self.log) from None
        return self.process.returncode

    def end(self) -> None:
        """Whatever became of it: it is gone after this."""
        if self.process.poll() is None:
            # A killed worker takes its hosts along; a stopped one has to be woken for nothing: SIGKILL needs no waking.
            self.process.kill()
        self.process.wait()


class Gate:
    """A file whose lock gated tools wait for."""

    def __init__(self, path: Path) -> None:
        self.path = str(path)
        self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT)
        fcntl.flock(self._descriptor, fcntl.LOCK_EX)

    def open(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


@dataclass
class Stage:
    """One namespace on one server."""

    url: str
    namespace: str
    place: Path
    client: Client
    workers: list[Worker] = field(default_factory=list[Worker])
    gates: list[Gate] = field(default_factory=list[Gate])
    keys: dict[str, AnyTool] = field(default_factory=dict[str, AnyTool])

    @property
    def book(self) -> str:
        return str(self.place / "book")

    @property
    def effects(self) -> Counter[str]:
        return tools.read_traces(self.book)

    def gate(self) -> Gate:
        gate = Gate(self.place / f"gate-{len(self.gates)}")
        self.gates.append(gate)
        return gate

    def spawn(self, url: str | None = None, **changes: object) -> Worker:
        """Start a worker process; `ready` waits until its hosts run."""
        number = len(self.workers) + 1
        told = {
            "app": "chaos.tools",
            "url": url or self.url,
            "namespace": self.namespace,
            "name": f"w{number}",
            "hosts": 1,
            "slots": 16,
            "session": SESSION,
            "poll_s": 0.5,
            "grace_s": 5.0,
            "presumed_dead_s": 1.0,
            **changes,
        }
        command = [sys.executable, str(HERE / "run_worker.py"), json.dumps(told)]
        return self._spawn(command, _environment(), int(str(told["hosts"])))

    def spawn_command(self, environment: dict[str, str], *arguments: str) -> Worker:
        """Start a worker as people do."""
        command = [str(Path(sys.executable).with_name("mycelium-worker")), "chaos.tools", "--namespace", self.namespace]
        return self._spawn([*command, *arguments], _environment() | environment, 2)

    def _spawn(self, command: list[str], environment: dict[str, str], hosts: int) -> Worker:
        worker = Worker(self.place / f"w{len(self.workers) + 1}.log", command, environment, hosts)
        self.workers.append(worker)
        return worker

    async def start(self, *url: str, **changes: Any) -> Worker:  # noqa: ANN401 - fields of settings
        return await self.spawn(*url, **changes).ready()

    async def submit(self, tool: AnyTool, key: str, **arguments: object) -> str:
        """Submit a call whose effect and request id are the key."""
        self.keys[key] = tool
        await self.client.submit(tool.bind(book=self.book, key=key, **arguments), request_id=key)
        return key

    async def record(self, key: str) -> Record:
        return await self.client.job(key).record()

    async def records(self) -> dict[str, Record]:
        return dict(zip(self.keys, await asyncio.gather(*map(self.record, self.keys)), strict=True))

    async def in_state(self, keys: Iterable[str], *states: State) -> bool:
        found = await asyncio.gather(*[self.client.job(key).state() for key in keys])
        return all(state in states for state in found)

    async def ended(self, within_s: float, *, asked: bool = True) -> None:
        """Wait until every job has ended: completed, failed or dead; or unknown, where nobody can be asked."""

        async def over() -> bool:
            return all(
                record.state in TERMINAL
                or (record.state is State.UNKNOWN and not (asked and self.keys[key].reconciler is not None))
                for key, record in (await self.records()).items()
            )

        try:
            await until_async(over, within_s)
        except AssertionError:
            open_ones = {k: (r.state, r.history) for k, r in (await self.records()).items() if r.state not in ENDED}
            logs = "\n".join(f"== {worker.pid}\n{worker.log[-3000:]}" for worker in self.workers)
            raise AssertionError(f"after {within_s} s: {open_ones}\n{logs}") from None

    async def none_left_of(self, session: str, within_s: float) -> None:
        """Wait until a dead session holds nothing."""

        async def free() -> bool:
            return all(record.session != session for record in (await self.records()).values())

        await until_async(free, within_s)

    async def check(self) -> dict[str, Record]:
        """No write happened twice, whatever completed happened, nothing is lost, and the store's own count is right."""
        records, effects = await self.records(), self.effects
        for key, record in records.items():
            if record.effect_class not in REPEATABLE:
                assert effects[key] <= 1, (key, effects[key], record)
                if record.state in {State.FAILED, State.DEAD, State.READY}:
                    assert effects[key] == 0, (key, record)
            if record.state is State.COMPLETED:
                assert effects[key] >= 1, (key, record)
        assert await self.counted() == dict(Counter(record.state for record in records.values()))
        return records

    async def counted(self) -> dict[State, int]:
        """How many transitions stand in each state, as the scripts counted."""
        told = await self._numbers(self.client.store.keys.states())
        return {State(word): number for word, number in told.items() if number}

    async def counters(self) -> Counter[str]:
        """The fleet's counters."""
        return await self._numbers(self.client.store.keys.counters())

    async def _numbers(self, key: str) -> Counter[str]:
        async with plain(self.url) as direct:
            return Counter({word.decode(): int(number) for word, number in (await direct.hgetall(key)).items()})

    def close(self) -> None:
        for worker in self.workers:
            worker.end()
        for gate in self.gates:
            gate.open()


def _environment() -> dict[str, str]:
    path = os.pathsep.join([str(HERE.parent), *filter(None, [os.environ.get("PYTHONPATH")])])
    return os.environ | {"PYTHONPATH": path}


@asynccontextmanager
async def staged(url: str, namespace: str, place: Path) -> AsyncGenerator[Stage, None]:
    """A stage that leaves no process behind."""
    place.mkdir(parents=True, exist_ok=True)  # noqa: ASYNC240 - before anything runs
    async with connect(url, namespace=namespace, settings=ClientSettings(poll_s=0.1)) as client:
        stage = Stage(url, namespace, place, client)
        try:
            yield stage
        finally:
            stage.close()
