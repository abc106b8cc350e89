"""Who there is to take ready jobs, and what an operator ordered of them: why a job waits, as far as it can be told."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from ..leases.store import Store
from .orders import Orders, Pause, Target, read_orders
from .record import read_now_ms
from .sessions import SessionKind, SessionLine, list_sessions

_NO_ORDERS = Orders((), ())


@dataclass(frozen=True, slots=True)
class Fleet:
    """The workers that live, and the orders that stand.

    Attributes:
        workers: whose session is alive.
        orders: of an operator.
    """

    workers: tuple[SessionLine, ...] = ()
    orders: Orders = _NO_ORDERS

    def that_know(self, tool: str) -> list[SessionLine]:
        """The live workers that know a tool, whatever queues they take from."""
        return [worker for worker in self.workers if tool in worker.tools]

    def that_take(self, queue: str, tool: str) -> list[SessionLine]:
        """The live workers that would take a job: they know its tool, take from its queue, and are not quiet."""
        return [worker for worker in self.that_know(tool) if queue in worker.queues and not worker.quiet]

    def pause_on(self, queue: str, tool: str) -> Pause | None:
        """What keeps a job back, if something does."""
        wanted = {(Target.QUEUE, queue), (Target.TOOL, tool)}
        return next((pause for pause in self.orders.pauses if (pause.target, pause.name) in wanted), None)


async def read_fleet(store: Store) -> Fleet:
    """Read who lives and what stands.

    Raises:
        ServerError: the server could not be asked.
    """
    lines, orders = await asyncio.gather(list_sessions(store), read_orders(store))
    now_ms = await read_now_ms(store)
    alive = [line for line in lines if line.kind is SessionKind.WORKER and line.deadline_ms > now_ms and not line.dead]
    return Fleet(tuple(alive), orders)
