"""A tool host without a process of its own: tools run in the process, and on the loop, of their test.

Frames, marks, time-outs and settling are those of any host, and the frames go through a socket pair. Only the process
is missing: killed, a host cancels what can be cancelled and hears nothing more of it, but a thread goes on to its end,
as a request on its way to a provider would.
"""

from __future__ import annotations

import asyncio
import os
import signal
import socket
from collections.abc import Callable, Mapping

from ..actors.hosts.child_process import Child
from ..actors.hosts.frames import Answer, Ask, Done, Hello, Run, ToControl
from ..actors.hosts.host import HostProcess, HostSettings
from ..actors.hosts.listener import HostListener
from ..actors.hosts.serving import Serving, facts_of
from ..actors.load import App


class InMemoryChild:
    """What stands in the place of a host's process.

    Args:
        sock: its end of the socket pair; it takes a copy.
        app: what it can run, and when by itself.
        slots: threads for plain functions.
        max_result_bytes: limit on one encoded result.
        on_death: called one time, on the loop, when it has ended.
    """

    def __init__(
        self,
        sock: socket.socket,
        app: App,
        slots: int,
        max_result_bytes: int,
        on_death: Callable[[], None],
    ) -> None:
        self.pid = os.getpid()
        self._on_death = on_death
        self._code: int | None = None
        self._serving = Serving(sock.dup(), app.tools, slots, max_result_bytes, leave=self._leave)
        tools = {name: facts_of(tool) for name, tool in app.tools.items()}
        self._serving.link.send(Hello(self.pid, tools, "", {name: each.facts for name, each in app.schedules.items()}))

    def kill(self) -> None:
        """End it; a second time it does nothing."""
        self._leave(-signal.SIGKILL)

    def collect(self) -> int:
        """Its exit code, or minus the signal that a process would have ended by."""
        return 0 if self._code is None else self._code

    def _leave(self, code: int) -> None:
        if self._code is None:
            self._code = code
            self._serving.abandon()
            asyncio.get_running_loop().call_soon(self._on_death)


class InMemoryHost(HostProcess):
    """A host whose tools are objects, not a module's name.

    Attributes:
        runs: what runs in it, by fence.
        asks: questions to adapters that have no answer yet, by number.
        changed: set when one of them has ended.
    """

    def __init__(
        self,
        app: App,
        tools_spec: str,
        slots: int,
        listener: HostListener,
        settings: HostSettings,
    ) -> None:
        super().__init__(tools_spec, slots, listener, settings)
        self._app = app
        self.runs: dict[str, Run] = {}
        self.asks: dict[int, Ask] = {}
        self.changed = asyncio.Event()

    @property
    def lives(self) -> bool:
        """Whether it takes runs."""
        return bool(self.tools) and self.exited is None

    def run(self, run: Run) -> None:
        """As any host's."""
        super().run(run)
        self.runs[run.fence] = run

    def ask(self, ask: Ask) -> None:
        """As any host's."""
        super().ask(ask)
        self.asks[ask.slot] = ask

    def _start_child(self, ours: socket.socket, theirs: socket.socket, environment: Mapping[str, str]) -> Child:
        del ours, environment
        return InMemoryChild(theirs, self._app, self._slots, self._settings.max_result_bytes, self._died)

    def _take(self, frame: ToControl) -> None:
        super()._take(frame)
        if isinstance(frame, Done):
            self.runs.pop(frame.fence, None)
            self.changed.set()
        elif isinstance(frame, Answer):
            self.asks.pop(frame.slot, None)
            self.changed.set()

    def _died(self) -> None:
        super()._died()
        self.runs.clear()
        self.asks.clear()
        self.changed.set()
