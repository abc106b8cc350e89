"""What callers and operators ask of jobs, one call at a time: cancel, requeue, pause, strike; and progress."""

from __future__ import annotations

from kit.ledger import Ledger, Reply
from mycelium.leases.scripts import Command
from mycelium.ledger.cancel import cancel_script
from mycelium.ledger.facets import facet
from mycelium.ledger.orders import pause_script, strike_script
from mycelium.ledger.progress import ProgressItem, progress_script
from mycelium.ledger.requeue import requeue_script
from mycelium.ledger.sweep import sweep_script


def cancelling(ledger: Ledger, request_id: str = "r1", *, op: str = "") -> Command:
    return cancel_script(op=op or ledger.op(), request_id=request_id, by="ops", reason="not wanted")


def cancel(ledger: Ledger, request_id: str = "r1") -> str:
    return str(ledger.run(cancelling(ledger, request_id))[0])


def requeueing(ledger: Ledger, request_id: str = "r1", *, op: str = "") -> Command:
    return requeue_script(op=op or ledger.op(), request_id=request_id, by="ops", reason="its cause is gone")


def requeue(ledger: Ledger, request_id: str = "r1") -> str:
    return str(ledger.run(requeueing(ledger, request_id))[0])


def pausing(target: str, *, on: bool = True) -> Command:
    """`target` is `queue:name` or `tool:name`."""
    return pause_script(target=target, on=int(on), said="{}")


def pause(ledger: Ledger, target: str, *, on: bool = True) -> str:
    return str(ledger.run(pausing(target, on=on))[0])


def striking(tool: str, parameter: str, value: object, *, on: bool = True) -> Command:
    return strike_script(strike=f"{tool}:{facet(parameter, value)}", on=int(on), said="{}")


def strike(ledger: Ledger, tool: str, parameter: str, value: object, *, on: bool = True) -> str:
    return str(ledger.run(striking(tool, parameter, value, on=on))[0])


def telling(*items: tuple[str, str], session: str = "s1") -> Command:
    """Progress of attempts, by request id and fence."""
    return progress_script(session=session, item=[ProgressItem(id_, fence, "[1,2,null]") for id_, fence in items])


def sweep(ledger: Ledger, page: int = 100) -> Reply:
    """The counts of one sweep: promoted, ended because their time was over, woken."""
    return [int(count) for count in ledger.run(sweep_script(page=page))[2:5]]
