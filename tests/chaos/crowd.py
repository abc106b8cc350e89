"""Fifty processes on pipes: all of them call the same thing, and those that die are replaced."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections import defaultdict
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

RUN = Path(__file__).with_name("run_caller.py")
FROZEN_S = 3.0
"""A process that stopped itself goes on after so long: longer than its session lives, its grace included."""
WITHIN_S = 60.0


class Crowd:
    """Processes that call when they are told, and what they said, by order."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.said: dict[str, list[str]] = defaultdict(list)
        self.killed = 0
        self.thawed = 0
        self._open: dict[str, int] = defaultdict(int)
        self._members: dict[int, tuple[asyncio.StreamWriter, set[str]]] = {}
        self._changed = asyncio.Condition()
        self._zygote: asyncio.subprocess.Process | None = None
        self._server: asyncio.Server | None = None
        self._ending = False

    async def start(self, url: str, namespace: str, place: Path) -> None:
        path = str(place / "crowd.sock")
        self._server = await asyncio.start_unix_server(self._joined, path)
        with (place / "crowd.log").open("wb") as log:
            self._zygote = await asyncio.create_subprocess_exec(
                sys.executable, str(RUN), url, namespace, path, stdin=asyncio.subprocess.PIPE, stdout=log, stderr=log
            )
        self._spawn(self.size)
        await self._until(lambda: len(self._members) == self.size)

    async def stop(self) -> None:
        self._ending = True
        if self._zygote is not None:
            self._zygote.kill()
            await self._zygote.communicate()
        for pid in [*self._members]:
            os.kill(pid, signal.SIGKILL)
        await self._until(lambda: not self._members)
        if self._server is not None:
            self._server.close()
            await self._server.wait_closed()

    async def call(self, tool: str, order: str, plan: list[str]) -> list[str]:
        """Let everybody call it at once; gives what those said that lived to say something."""
        already = len(self.said[order])
        text = json.dumps({"tool": tool, "order": order, "plan": plan}).encode() + b"\n"
        for writer, orders in self._members.values():
            orders.add(order)
            self._open[order] += 1
            writer.write(text)
        await self._until(lambda: not self._open[order])
        return self.said[order][already:]

    async def thaw(self) -> None:
        """Let go on who has stood still for long enough; for ever."""
        since: dict[int, float] = {}
        while True:
            now_s = asyncio.get_running_loop().time()
            stopped = {pid for pid in self._members if _is_stopped(pid)}
            since = {pid: since.get(pid, now_s) for pid in stopped}
            for pid, at_s in since.items():
                if now_s - at_s >= FROZEN_S:
                    self.thawed += 1
                    os.kill(pid, signal.SIGCONT)
            await asyncio.sleep(0.2)

    def _spawn(self, count: int) -> None:
        assert self._zygote is not None
        assert self._zygote.stdin is not None
        self._zygote.stdin.write(f"spawn {count}\n".encode())

    async def _joined(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        pid, orders = int(await reader.readline()), set[str]()
        self._members[pid] = writer, orders
        await self._tell()
        while line := await _line(reader):
            told = json.loads(line)
            orders.discard(told["order"])
            self._open[told["order"]] -= 1
            self.said[told["order"]].append(told["said"])
            await self._tell()
        # It is gone, and with it what it was at.
        del self._members[pid]
        for order in orders:
            self._open[order] -= 1
        writer.close()
        if not self._ending:
            self.killed += 1
            self._spawn(1)
        await self._tell()

    async def _tell(self) -> None:
        async with self._changed:
            self._changed.notify_all()

    async def _until(self, holds: Callable[[], bool]) -> None:
        async with asyncio.timeout(WITHIN_S), self._changed:
            await self._changed.wait_for(holds)


@asynccontextmanager
async def crowded(size: int, url: str, namespace: str, place: Path) -> AsyncGenerator[Crowd]:
    """A crowd, until the end of the block."""
    crowd = Crowd(size)
    try:
        await crowd.start(url, namespace, place)
        thawing = asyncio.create_task(crowd.thaw())
        yield crowd
        thawing.cancel()
    finally:
        await crowd.stop()


async def _line(reader: asyncio.StreamReader) -> bytes:
    try:
        return await reader.readline()
    except ConnectionError:
        return b""


def _is_stopped(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "T"
    except OSError:
        return False
