"""The processes of the demo: started in one place, watched, killed on purpose, and ended whatever happens."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from ...leases.embedded import EmbeddedServer
from ...leases.errors import MyceliumError
from .http_client import URL_VARIABLE

START_LIMIT_S = 20.0
STOP_GRACE_S = 5.0
LOOK_EVERY_S = 0.02

_TIED = Path(__file__).with_name("tied.py")


@dataclass(slots=True)
class Actor:
    """One process on the stage.

    Attributes:
        name: what people call it.
        process: the process.
        log: where its output goes.
        may_end: whether its end is wanted.
    """

    name: str
    process: asyncio.subprocess.Process
    log: Path
    may_end: bool = False

    @property
    def pid(self) -> int:
        """Its process id."""
        return self.process.pid

    def check(self) -> None:
        """Refuse to go on without it.

        Raises:
            MyceliumError: it ended by itself.
        """
        code = self.process.returncode
        if code is not None and not self.may_end:
            what = f"The {self.name} of the demo ended by itself (exit code {code})."
            raise MyceliumError(what, next_step=f"Read its log: {self.log}")

    async def kill(self) -> None:
        """SIGKILL, and wait until it is gone."""
        await self.end(signal.SIGKILL, STOP_GRACE_S)

    async def end(self, number: signal.Signals, grace_s: float) -> None:
        """Send a signal, wait up to `grace_s`, then kill."""
        self.may_end = True
        for each in (number, signal.SIGKILL):
            if self.process.returncode is not None:
                return
            with suppress(ProcessLookupError):
                self.process.send_signal(each)
            with suppress(TimeoutError):
                await asyncio.wait_for(self.process.wait(), grace_s)


class Stage:
    """A directory with a server, an airline and workers. Leaving the block ends every process.

    Args:
        directory: where data, effects and logs go; it stays.
    """

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.effects = directory / "effects.jsonl"
        self.airline_url = ""
        self._server: EmbeddedServer | None = None
        self._actors: list[Actor] = []

    @property
    def server_url(self) -> str:
        """Where the embedded server is."""
        return self._server.url if self._server else ""

    async def start_server(self) -> None:
        """Start the embedded server with a durable data set."""
        self._server = await EmbeddedServer.start_async(self.directory / "data")

    async def start_airline(self, calls: Path, *, seed: int) -> None:
        """Start the airline's process, and wait until it listens.

        Args:
            calls: the recording; an absolute path.
            seed: of its faults.

        Raises:
            MyceliumError: it ended, or does not listen in time.
        """
        port_file = self.directory / "airline.port"
        options = {
            "--port-file": port_file,
            "--effects": self.effects,
            "--calls": calls,
            "--seed": seed,
        }
        flat = [str(word) for pair in options.items() for word in pair]
        airline = await self.start("airline", ["mycelium.examples.airline.provider", *flat])
        try:
            async with asyncio.timeout(START_LIMIT_S):
                while not port_file.exists():
                    airline.check()
                    await asyncio.sleep(LOOK_EVERY_S)
        except TimeoutError:
            what = f"The airline of the demo did not listen within {START_LIMIT_S:g} s."
            raise MyceliumError(what, next_step=f"Read its log: {airline.log}") from None
        self.airline_url = f"http://127.0.0.1:{port_file.read_text(encoding='ascii').strip()}"

    async def start(self, name: str, module: list[str]) -> Actor:
        """Start a Python module as a process.

        Args:
            name: what people call it; its log is named after it.
            module: the module and its arguments.
        """
        log = self.directory / f"{name.replace(' ', '-')}.log"
        with log.open("ab") as output:
            process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-I", "-S", str(_TIED), str(os.getpid()), sys.executable, "-P", "-m", *module),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                cwd=self.directory,
                env=self._environment(os.environ),
                # Ctrl-C is for the demo, which then ends the others in order.
                start_new_session=True,
            )
        actor = Actor(name, process, log)
        self._actors.append(actor)
        return actor

    def check(self) -> None:
        """Refuse to go on when a process ended by itself.

        Raises:
            MyceliumError: one did; the text names its log.
        """
        for actor in self._actors:
            actor.check()
        if self._server and not self._server.alive:
            what = "The embedded server of the demo ended by itself."
            raise MyceliumError(what, next_step=f"Read its log in {self._server.data_dir}")

    def _environment(self, given: Mapping[str, str]) -> dict[str, str]:
        # The demo has a server and workers of its own: what is set for the user's is not for them.
        own = {name: value for name, value in given.items() if not name.startswith("MYCELIUM_")}
        return {**own, URL_VARIABLE: self.airline_url}

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        # Workers first: none shall see its server go.
        ending = [actor.end(signal.SIGTERM, STOP_GRACE_S) for actor in reversed(self._actors)]
        try:
            await asyncio.gather(*ending)
        finally:
            for actor in self._actors:
                if actor.process.returncode is None:
                    with suppress(ProcessLookupError):
                        actor.process.kill()
            if self._server:
                self._server.stop()
