"""`mycelium worker --reload`: runs the worker as a child, and starts it again when a file of the app changes."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path

from ..leases.errors import SettingsError

log = logging.getLogger(__name__)

# The worker ends with this process, also when that is killed. It has no part in the keyboard's signals: this process
# passes them on, and one Ctrl-C must not count as two.
_CHILD = (
    "import sys; from mycelium.actors.hosts.child import tie_to; tie_to(int(sys.argv.pop(1)));"
    "from mycelium.cli.worker import main; main()"
)
_PASSED_ON = (signal.SIGTERM, signal.SIGINT, signal.SIGTSTP, signal.SIGUSR1, signal.SIGUSR2)
_ENDS = frozenset({signal.SIGTERM, signal.SIGINT})


def reload_worker(app: str, words: Sequence[str]) -> int:
    """Run until told to stop; the exit code of the last worker.

    Args:
        app: where the tools are; their directories and the working directory are watched.
        words: the worker's own command line.

    Raises:
        SettingsError: the library that watches files is not installed.
    """
    if find_spec("watchfiles") is None:
        what = "--reload needs the library that watches files, and it is not installed."
        raise SettingsError(what, next_step="Install mycelium[reload], or start without --reload.")
    return asyncio.run(_Reloading(watched(app), words).run())


def watched(app: str) -> list[Path]:
    """The directories whose Python files make an app: the working one, and where its packages are."""
    places = [Path.cwd()]
    for part in app.split(","):
        # Only the top package: to look for a module inside it would import it.
        with suppress(ValueError, ImportError):
            spec = find_spec(part.strip().partition(":")[0].partition(".")[0])
            origin = spec.origin if spec is not None else None
            if origin is not None and Path(origin).is_file() and "site-packages" not in origin:
                places.append(Path(origin).resolve().parent)
    return [place for place in dict.fromkeys(places) if not any(other in place.parents for other in places)]


class _Reloading:
    def __init__(self, places: Sequence[Path], words: Sequence[str]) -> None:
        self._places = places
        self._command = [sys.executable, "-P", "-c", _CHILD, str(os.getpid()), *words, "--no-reload"]
        self._worker: asyncio.subprocess.Process | None = None
        self._stop = asyncio.Event()

    async def run(self) -> int:
        """Start, watch, drain, and start again."""
        loop = asyncio.get_running_loop()
        for number in _PASSED_ON:
            loop.add_signal_handler(number, self._pass_on, number)
        changes = _changes(self._places, self._stop)
        while True:
            self._worker = await asyncio.create_subprocess_exec(*self._command, process_group=0)
            ended = asyncio.create_task(self._worker.wait())
            changed = asyncio.create_task(anext(changes, None))
            await asyncio.wait({ended, changed}, return_when=asyncio.FIRST_COMPLETED)
            if ended.done() and not self._stop.is_set():
                log.warning("the worker ended with code %d: it is started again when a file changes", ended.result())
            paths = await changed
            if self._stop.is_set() or paths is None:
                return _exit_code(await ended)
            log.warning("%s changed: the worker drains, and starts again", ", ".join(sorted(paths)))
            self._pass_on(signal.SIGTERM, ends=False)
            await ended

    def _pass_on(self, number: signal.Signals, *, ends: bool = True) -> None:
        if ends and number in _ENDS:
            self._stop.set()
        if self._worker is not None:
            with suppress(ProcessLookupError):
                self._worker.send_signal(number)


def _exit_code(returncode: int) -> int:
    return returncode if returncode >= 0 else 128 - returncode


async def _changes(places: Sequence[Path], stop: asyncio.Event) -> AsyncIterator[set[str]]:
    # Its annotations name a library that need not be there.
    from watchfiles import PythonFilter, awatch  # noqa: PLC0415 - an extra  # pyright: ignore[reportUnknownVariableType]

    async for found in awatch(*places, watch_filter=PythonFilter(), stop_event=stop, debounce=400):
        yield {Path(path).name for _, path in found}
