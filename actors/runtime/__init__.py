"""A small actor library on plain asyncio, in the manner of OTP. It knows nothing of Redis, leases or jobs.

    ActorSystem ── runs one tree in one event loop; `run()` returns or raises when the tree has ended
    └─ Supervisor            `supervise(name, children, strategy=…)`; nests; gives up to the one above it
       ├─ Cell ────────────  one actor over all of its lives; keeps the Ref and the mailbox
       │  ├─ Ref             the address: `tell`, `ask`, `watch`; safe to hold for ever
       │  ├─ Mailbox         bounded, first in first out; the runtime's own messages jump the queue
       │  └─ Life            one instance in one task: started → receive … → stopping | restarting
       │     ├─ Actor        your class; its handlers never run beside one another
       │     ├─ tasks        `spawn_task`: beside the messages; a crash of one is the actor's
       │     └─ tickings     `every`: periodic, in turn with the messages
       └─ Supervisor …

A crash loses the one message that was being handled (its asker gets the exception) and the supervisor starts a fresh
instance from the factory, after a back-off, on the same mailbox. Too many restarts in a short time, or in a row without
a healthy life between them, escalate, to the root at last. A stop is a flag, then a cancel, then more cancels, then one
loud line in the log: a coroutine cannot be killed, so a ChildSpec says what really ends its actor. Two lives of one
actor never overlap.

A callback of the event loop is no handler: `guard` makes its exception the actor's. What still reaches the loop itself
ends a system that owns it: no actor goes on without something that nobody saw fail.

Waiting messages survive a restart and do not survive a stop: every ask is answered, by a reply or an error.
Nothing here is thread-safe: use `loop.call_soon_threadsafe(ref.tell, message)` from another thread.
"""

from __future__ import annotations

from .actor import Actor
from .backoff import Backoff
from .mailbox import Mailbox
from .messages import Exit, Failed, Refusal, StopReason, Terminated
from .ref import Ref
from .snapshot import ActorSnapshot, ActorState
from .spec import ChildSpec, Restart
from .strategy import Intensity, Strategy
from .supervisor import StartChild, StopChild, Supervisor, start_child, stop_child, supervise
from .system import ActorSystem
from .ticking import Ticking
from .timer import Cancellable, LoopTimer, Timer

__all__ = [
    "Actor",
    "ActorSnapshot",
    "ActorState",
    "ActorSystem",
    "Backoff",
    "Cancellable",
    "ChildSpec",
    "Exit",
    "Failed",
    "Intensity",
    "LoopTimer",
    "Mailbox",
    "Ref",
    "Refusal",
    "Restart",
    "StartChild",
    "StopChild",
    "StopReason",
    "Strategy",
    "Supervisor",
    "Terminated",
    "Ticking",
    "Timer",
    "start_child",
    "stop_child",
    "supervise",
]
