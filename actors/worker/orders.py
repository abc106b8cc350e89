"""What people tell a worker while it runs, by signals. It outlives the parts that obey: a new life is told again."""

from __future__ import annotations

import asyncio
import logging
import signal
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any

from ...leases.errors import ActorStoppedError
from ..runtime import ActorSystem
from .messages import Describe, Drain, Quiet, TakeAgain, TellWhenDone

log = logging.getLogger(__name__)

TURNS = "/worker/control/turns"
SESSIONS = "/worker/control/lease_manager"


class Orders:
    """The standing orders of one worker.

    Args:
        burst: it ends with its work.
        info: makes what people are told of the worker, from whether it is quiet.

    Attributes:
        stop: set by the first SIGTERM or SIGINT.
        hurry: set by the second.
        done: set when a worker that ends with its work has none left.
        quiet: it is to take nothing more.
    """

    def __init__(self, *, burst: bool = False, info: Callable[[bool], bytes] | None = None) -> None:
        self._info = info
        self.stop = asyncio.Event()
        self.hurry = asyncio.Event()
        self.done = asyncio.Event()
        self.quiet = False
        self._burst = burst
        self._drain: Drain | None = None
        self._system: ActorSystem | None = None

    def serve(self, system: ActorSystem) -> None:
        """From now on whoever claims for this system obeys."""
        self._system = system

    def repeat(self) -> None:
        """Tell a new life of whoever claims what stands: ahead of all other messages, before it can claim."""
        if self.quiet:
            self._tell(Quiet())
        if self._burst:
            self._tell(TellWhenDone(self.done))
        if self._drain is not None:
            self._tell(self._drain)

    def be_quiet(self) -> None:
        """Take nothing more."""
        self.quiet = True
        log.warning("quiet: nothing new is claimed, what runs goes on; SIGUSR2 takes jobs again, SIGTERM ends")
        self._tell(Quiet())
        self._tell_people()

    def take_again(self) -> None:
        """Take jobs again."""
        if self.quiet:
            log.warning("not quiet any more: jobs are taken again")
        self.quiet = False
        self._tell(TakeAgain())
        self._tell_people()

    def drain(self, drain: Drain) -> bool:
        """End in good order; False: there is nobody who claims."""
        self._drain = drain
        return self._tell(drain)

    def told_to_stop(self) -> None:
        """One more SIGTERM or SIGINT."""
        (self.hurry if self.stop.is_set() else self.stop).set()

    def _tell_people(self) -> None:
        if self._info is not None:
            self._tell(Describe(self._info(self.quiet)), SESSIONS)

    def _tell(self, message: object, path: str = TURNS) -> bool:
        if self._system is None:
            return False
        try:
            self._system.find(path).tell_first(message)
        except ActorStoppedError:
            return False  # nobody is there, and whoever comes is told
        return True


@contextmanager
def signals_to(orders: Orders) -> Generator[None]:
    """Take signals as orders.

    SIGCONT is none: it follows every SIGSTOP, and service managers send it along with SIGTERM, so that it says nothing
    of what its sender wants.
    """
    loop = asyncio.get_running_loop()
    handlers: dict[signal.Signals, Callable[[], Any]] = {
        signal.SIGTERM: orders.told_to_stop,
        signal.SIGINT: orders.told_to_stop,
        signal.SIGTSTP: orders.be_quiet,
        signal.SIGUSR1: orders.be_quiet,
        signal.SIGUSR2: orders.take_again,
    }
    for number, handler in handlers.items():
        loop.add_signal_handler(number, handler)
    try:
        yield
    finally:
        for number in handlers:
            loop.remove_signal_handler(number)
