"""What the writer of an actor fills in: hooks, and the few things that an actor may ask of its runtime."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any, Generic, ParamSpec, TypeVar

from ...leases.errors import ActorStoppedError
from .mailbox import stopped_error
from .messages import StopReason
from .ref import Ref
from .snapshot import ActorSnapshot
from .surroundings import Surroundings
from .tasks import OwnedTasks
from .ticking import Ticking
from .timer import Timer

M = TypeVar("M")
T = TypeVar("T")
P = ParamSpec("P")


@dataclass(slots=True)
class Home:
    """What one life of an actor is given by the runtime."""

    ref: Ref[Any]
    around: Surroundings
    tasks: OwnedTasks
    leave: Callable[[], None]
    crash: Callable[[BaseException], None]
    in_hand: object = None
    tickings: list[Ticking] = field(default_factory=list[Ticking])


class Actor(ABC, Generic[M]):
    """One instance is one life: a restart makes a new one with the factory, and keeps Ref and mailbox.

    `M` is the union of the messages (frozen dataclasses) that it takes, with `Terminated` if it watches. Hooks and
    handlers of one actor never run beside one another; only its background tasks do.
    """

    _home: Home | None = None

    async def started(self) -> None:
        """Before the first message of this life. To raise here is to fail to start."""

    @abstractmethod
    async def receive(self, message: M) -> object:
        """Handle one message; what it returns is the answer to an ask.

        Return `Refusal(error)` to refuse; raise only when the actor itself is broken: the asker gets the exception,
        this message is lost, and the supervisor starts a fresh instance on the same mailbox.
        """

    async def stopping(self, reason: StopReason) -> None:
        """After the last message of this life, with background tasks still running. Not called if it never started."""

    async def restarting(self, error: BaseException) -> None:
        """Instead of `stopping` after a crash, when a new life may follow. Calls `stopping` by default."""
        del error
        await self.stopping(StopReason.CRASHED)

    # ── what an actor may ask of its runtime ─────────────────────────────────────────────────────────────────────────

    @property
    def ref(self) -> Ref[M]:
        """The actor's own address."""
        return self._at_home().ref

    @property
    def timer(self) -> Timer:
        """The system's clock: use it for every wait, so that tests can move it."""
        return self._at_home().around.timer

    def find(self, path: str) -> Ref[Any]:
        """The actor at `path`: absolute (`/worker/marks`), or relative to this actor's supervisor (`marks`).

        All children of a supervisor have their Refs before the first of them starts.

        Raises:
            ActorStoppedError: nobody lives there (yet, or any more).
        """
        home = self._at_home()
        absolute = self._absolute(path)
        ref = home.around.directory.get(absolute)
        if ref is None:
            raise stopped_error(absolute)
        return ref

    @property
    def in_hand(self) -> object:
        """The message that is being handled. In the last hooks: the one whose handling was cut short, or None.

        It is lost to the next life: what must not be forgotten of it is to be said in the last hook.
        """
        return self._at_home().in_hand

    def below(self, path: str) -> list[Ref[Any]]:
        """The actors directly below `path` (as in `find`), in order of their birth; none where nobody lives there."""
        home = self._at_home()
        parent = self._absolute(path)
        return [ref for ref in home.around.directory.values() if ref.path.rpartition("/")[0] == parent]

    def tree(self) -> ActorSnapshot:
        """How every actor of the system stands now.

        Raises:
            ActorStoppedError: there is no system: a test runs this actor without one.
        """
        around = self._at_home().around
        if around.snapshot is None:
            raise stopped_error("/")
        return around.snapshot()

    def watch_failures(self) -> None:
        """From now on get a `Failed` for every life in the system that ends by an error; also over restarts."""
        home = self._at_home()
        home.around.failure_watchers[home.ref] = None

    def guard(self, fn: Callable[P, object]) -> Callable[P, None]:
        """`fn` as a callback of the event loop: what it raises crashes the actor, as it would in a handler.

        Without this the loop itself takes the exception, and the actor goes on without what `fn` should have done.
        """
        crash = self._at_home().crash

        def run(*args: P.args, **kwargs: P.kwargs) -> None:
            try:
                fn(*args, **kwargs)
            except GeneratorExit:
                raise
            except BaseException as error:  # noqa: BLE001 - the supervisor decides, as after a handler
                crash(error)

        return run

    def spawn_task(self, coro: Coroutine[Any, Any, T], *, name: str | None = None) -> asyncio.Task[T]:
        """Run `coro` beside the messages. Its exception crashes the actor; the actor's end cancels it.

        Raises:
            ActorStoppedError: this life is over; `coro` was not started.
        """
        return self._at_home().tasks.spawn(coro, name)

    def every(self, interval_s: float, fn: Callable[[], Awaitable[object]], *, jitter: float = 0.1) -> Ticking:
        """Call `fn` every `interval_s` seconds (± `jitter`, a share) in turn with the messages.

        The first call is after one interval. For work that must not wait behind a message use `spawn_task` with a loop
        over `self.timer.sleep`.

        Returns:
            The ticking; `cancel()` ends it. It ends with the actor too.
        """
        home = self._at_home()
        ticking = Ticking(
            interval_s, fn, jitter=jitter, timer=home.around.timer, rng=home.around.rng, post=home.ref.tell_first
        )
        home.tickings.append(ticking)
        ticking.arm()
        return ticking

    def stop(self) -> None:
        """End this life after the current message. A permanent actor is then started again, as after a crash."""
        self._at_home().leave()

    def asked_to_end(self) -> None:
        """Called by the runtime when this life is to end, even in mid-message. Most actors need none."""

    def move_in(self, home: Home) -> None:
        """Called by the runtime, once, before `started`."""
        self._home = home

    def _absolute(self, path: str) -> str:
        return path if path.startswith("/") else f"{self.ref.path.rpartition('/')[0]}/{path}"

    def _at_home(self) -> Home:
        if self._home is None:
            raise ActorStoppedError(
                f"This {type(self).__name__} is not running.",
                next_step="Give its class to a ChildSpec, and use the runtime from its hooks, not from __init__.",
            )
        return self._home
